"""Models of builtins that would otherwise run Python-level code outside the machine or ask about its frames.

A model takes (world, arguments, keywords). What it does not need to treat itself it hands to `call_native`.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import functools
import itertools
import operator
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.values import attributes, operators
from lamina.capture.values.attributes import find_in_type, is_native_type
from lamina.capture.values.iteration import as_native_callable, as_native_iterable
from lamina.capture.values.operators import is_python_method

Model = Callable[[Any, tuple[Value, ...], dict[str, Value]], Value]
Keywords = dict[str, Value]
Arguments = tuple[Value, ...]


def model_getattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 3:
        try:
            return world.load_attribute(arguments[0], arguments[1])
        except AttributeError:
            return arguments[2]
    owner, name = arguments
    return world.load_attribute(owner, name)


def model_setattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name, value = arguments
    world.store_attribute(owner, name, value)


def model_delattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    world.delete_attribute(owner, name)


def model_hasattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    try:
        world.load_attribute(owner, name)
    except AttributeError:
        return False
    return True


def model_object_getattribute(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    return attributes.load_instance_attribute(world, owner, name)


def model_object_setattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name, value = arguments
    attributes.store_instance_attribute(world, owner, name, value)


def model_object_delattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    attributes.delete_instance_attribute(world, owner, name)


def model_type(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 1 and not keywords:
        return world.type_of(arguments[0])
    return world.call_native(type, arguments, keywords)


def model_isinstance(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    value, kinds = arguments
    if type(kinds) is tuple:
        return any(model_isinstance(world, (value, kind), {}) for kind in kinds)
    checker = find_in_type(type(kinds), "__instancecheck__")
    if is_python_method(checker) and not world.is_trusted_check(kinds):
        return world.truth(world.call(checker, (kinds, value), {}))
    return world.is_instance(value, kinds)


def model_super(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        return super(*arguments)
    frame = world.machine.frame
    names = frame.decoded.slot_names
    if "__class__" not in names:
        raise RuntimeError("super(): __class__ cell not found")
    kind = world.load_cell(frame.slots[names.index("__class__")])
    first = frame.slots[0]
    if isinstance(first, types.CellType):
        first = world.load_cell(first)
    if first is UNBOUND or kind is UNBOUND:
        raise RuntimeError("super(): arg[0] deleted")
    return super(kind, first)


def model_len(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    (value,) = arguments
    method = find_in_type(type(value), "__len__")
    if is_python_method(method) and not is_native_type(type(value)):
        return operators.call_method(world, method, value)
    return world.apply_native(len, value)


def model_iter(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 2:
        return world.call_native(iter, (as_native_callable(world, arguments[0]), arguments[1]), {})
    return world.iterate(arguments[0])


def model_next(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if find_in_type(type(arguments[0]), "__next__") is MISSING:
        raise TypeError(f"{type(arguments[0]).__name__!r} object is not an iterator")
    if len(arguments) == 1:
        return world.advance(arguments[0])
    try:
        return world.advance(arguments[0])
    except StopIteration:
        return arguments[1]


def model_bool(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.truth(arguments[0]) if arguments else False


def ask_method(native: Any, name: str) -> Model:
    """A builtin that gives what the Python-level special method `name` gives."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if len(arguments) == 1 and not is_native_type(type(arguments[0])):
            method = find_in_type(type(arguments[0]), name)
            if is_python_method(method):
                return operators.call_method(world, method, arguments[0])
        return world.call_native(native, arguments, keywords)

    return model


def run_natively(function: Any) -> Model:
    """A Python function of the library that is right to run outside the machine."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return function(*arguments, **keywords)

    return model


def convert_with(native: Any, *names: str) -> Model:
    """A conversion that asks the first of the special methods `names` that is Python-level."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if len(arguments) == 1 and not keywords and not is_native_type(type(arguments[0])):
            for name in names:
                method = find_in_type(type(arguments[0]), name)
                if is_python_method(method):
                    return world.call_native(
                        native, (operators.call_method(world, method, arguments[0]),), {}
                    )
                if method is not MISSING:
                    break
        return world.call_native(native, arguments, keywords)

    return model


def model_str(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 1 or keywords:
        return world.call_native(str, arguments, keywords)
    return world.to_text(arguments[0])


def model_repr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.to_repr(arguments[0])


def model_format(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.format_value(arguments[0], arguments[1] if len(arguments) > 1 else "")


def to_text(world: Any, value: Value) -> str:
    """`str(value)`."""
    method = find_in_type(type(value), "__str__")
    if is_python_method(method) and not is_native_type(type(value)):
        return str(operators.call_method(world, method, value))
    if method is object.__str__:
        return to_repr(world, value)
    return str(world.call_native(str, (value,), {}))


def to_repr(world: Any, value: Value) -> str:
    """`repr(value)`."""
    method = find_in_type(type(value), "__repr__")
    if is_python_method(method) and not is_native_type(type(value)):
        return str(operators.call_method(world, method, value))
    return str(world.call_native(repr, (value,), {}))


def format_value(world: Any, value: Value, specification: str) -> str:
    """`format(value, specification)`."""
    method = find_in_type(type(value), "__format__")
    if is_python_method(method) and not is_native_type(type(value)):
        return str(operators.call_method(world, method, value, specification))
    if method is object.__format__ and not specification:
        return str(to_text(world, value))
    return str(world.call_native(format, (value, specification), {}))


def consume_iterables(native: Any, first: int = 0) -> Model:
    """Arguments from `first` on are iterated by C code: hand them over in a native form."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        taken = tuple(as_native_iterable(world, value) for value in arguments[first:])
        return world.call_native(native, arguments[:first] + taken, keywords)

    return model


def apply_function(native: Any) -> Model:
    """`native(function, *iterables)`."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if not arguments:
            return world.call_native(native, arguments, keywords)
        taken = tuple(as_native_iterable(world, value) for value in arguments[1:])
        return world.call_native(native, (as_native_callable(world, arguments[0]), *taken), keywords)

    return model


def pick_extreme(native: Any, symbol: str) -> Model:
    """min and max: the key function and Python-level comparisons run in the machine."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        key = keywords.get("key")
        items = list(as_native_iterable(world, arguments[0])) if len(arguments) == 1 else list(arguments)
        if key is None and all(is_native_type(type(item)) for item in items):
            rest = {name: value for name, value in keywords.items() if name != "key"}
            return world.call_native(native, (items,) if len(arguments) == 1 else arguments, rest)
        if not items:
            return world.call_native(native, ((),), {k: v for k, v in keywords.items() if k != "key"})
        ranks = items if key is None else [world.call(key, (item,), {}) for item in items]
        best = 0
        for index in range(1, len(items)):
            if world.truth(world.compare(symbol, ranks[index], ranks[best])):
                best = index
        return items[best]

    return model


def order_items(native: Any) -> Model:
    """sorted: the key function and the elements' own comparisons run in the machine."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if keywords.get("key") is not None:
            keywords = {**keywords, "key": as_native_callable(world, keywords["key"])}
        elif len(arguments) == 1:
            items = list(as_native_iterable(world, arguments[0]))
            if any(is_python_method(find_in_type(type(item), "__lt__")) for item in items):
                wrapped = functools.cmp_to_key(
                    lambda a, b: -1 if world.truth(world.compare("<", a, b)) else 1
                )
                keywords = {**keywords, "key": wrapped}
            return world.call_native(native, (items,), keywords)
        if len(arguments) == 1:
            arguments = (as_native_iterable(world, arguments[0]),)
        return world.call_native(native, arguments, keywords)

    return model


def model_list_sort(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    target = arguments[0]
    target[:] = order_items(sorted)(world, (list(target),), keywords)


def model_any(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return any(world.truth(item) for item in as_native_iterable(world, arguments[0]))


def model_all(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return all(world.truth(item) for item in as_native_iterable(world, arguments[0]))


def model_sum(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    total = arguments[1] if len(arguments) > 1 else keywords.get("start", 0)
    if isinstance(total, str):
        return world.call_native(sum, arguments, keywords)
    items = list(as_native_iterable(world, arguments[0]))
    if all(type(item) in (int, float, bool) for item in items):
        return sum(items, total)
    for item in items:
        total = world.binary("+", total, item)
    return total


def model_reduce(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    function, iterable, *initial = arguments
    iterator = iter(as_native_iterable(world, iterable))
    if initial:
        value = initial[0]
    else:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for item in iterator:
        value = world.call(function, (value, item), {})
    return value


def model_callable(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return callable(arguments[0])


def model_vars(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if not arguments:
        return model_locals(world, arguments, keywords)
    return world.load_attribute(arguments[0], "__dict__")


def model_locals(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    frame = world.machine.frame
    return frame.names if frame.names is not None else frame.read_locals()


def model_globals(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.read_globals(world.machine.frame)


def model_build_class(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    body, name, *given = arguments
    keywords = dict(keywords)
    bases = types.resolve_bases(given)
    meta, names, keywords = types.prepare_class(name, bases, keywords)
    if tuple(bases) != tuple(given):
        names["__orig_bases__"] = tuple(given)
    cell = world.machine.run_class_body(body, names)
    made = world.call(meta, (name, tuple(bases), names), keywords)
    if isinstance(cell, types.CellType):
        world.note_cell(cell)
    if isinstance(made, type):
        world.note_class(made)
    return made


def model_cached_property(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`functools.cached_property.__get__`, without its lock."""
    descriptor, instance, *_ = arguments
    if instance is None:
        return descriptor
    value = world.read_instance(instance, descriptor.attrname)
    if value is MISSING:
        value = world.call(descriptor.func, (instance,), {})
        world.write_instance(instance, descriptor.attrname, value)
    return value


def model_exc_info(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    error = world.machine.handled_exception()
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def model_exception(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.machine.handled_exception()


def forbid(code: str, what: str, hint: str = "") -> Model:
    """A builtin that cannot be modelled."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        stop(code, what, hint)

    return model


def delegate_operator(symbol: str) -> Model:
    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return world.binary(symbol, *arguments)

    return model


def delegate_comparison(symbol: str) -> Model:
    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return world.compare(symbol, *arguments)

    return model


def model_getitem(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.get_item(*arguments)


def model_contains(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.contains(*arguments)


def model_dict_get(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.call_native(dict.get, arguments, keywords)


MODELS: dict[Any, Model] = {
    getattr: model_getattr,
    setattr: model_setattr,
    delattr: model_delattr,
    hasattr: model_hasattr,
    object.__getattribute__: model_object_getattribute,
    object.__setattr__: model_object_setattr,
    object.__delattr__: model_object_delattr,
    type: model_type,
    isinstance: model_isinstance,
    super: model_super,
    len: model_len,
    iter: model_iter,
    next: model_next,
    bool: model_bool,
    int: convert_with(int, "__int__", "__index__"),
    float: convert_with(float, "__float__", "__index__"),
    complex: convert_with(complex, "__complex__", "__float__"),
    abs: ask_method(abs, "__abs__"),
    hash: ask_method(hash, "__hash__"),
    str: model_str,
    repr: model_repr,
    format: model_format,
    list: consume_iterables(list),
    tuple: consume_iterables(tuple),
    set: consume_iterables(set),
    frozenset: consume_iterables(frozenset),
    enumerate: consume_iterables(enumerate),
    zip: consume_iterables(zip),
    deque: consume_iterables(deque),
    itertools.chain: consume_iterables(itertools.chain),
    itertools.product: consume_iterables(itertools.product),
    itertools.islice: consume_iterables(itertools.islice),
    itertools.cycle: consume_iterables(itertools.cycle),
    itertools.pairwise: consume_iterables(itertools.pairwise),
    itertools.zip_longest: consume_iterables(itertools.zip_longest),
    map: apply_function(map),
    filter: apply_function(filter),
    itertools.starmap: apply_function(itertools.starmap),
    itertools.takewhile: apply_function(itertools.takewhile),
    itertools.dropwhile: apply_function(itertools.dropwhile),
    itertools.filterfalse: apply_function(itertools.filterfalse),
    functools.reduce: model_reduce,
    sorted: order_items(sorted),
    min: pick_extreme(min, "<"),
    max: pick_extreme(max, ">"),
    list.sort: model_list_sort,
    any: model_any,
    all: model_all,
    sum: model_sum,
    callable: model_callable,
    vars: model_vars,
    locals: model_locals,
    globals: model_globals,
    builtins.__build_class__: model_build_class,
    sys.exc_info: model_exc_info,
    sys._getframe: forbid("frames", "sys._getframe looks at frames, which the machine does not have"),
    eval: forbid("eval", "eval runs text outside the machine", "call the code directly"),
    exec: forbid("exec", "exec runs text outside the machine", "call the code directly"),
    breakpoint: forbid("breakpoint", "breakpoint() stops in a debugger", "remove it or call eagerly"),
    input: forbid("input", "input() reads from outside", "read the value before the compiled call"),
    # These write classes by compiling text; what they make is then run in the machine.
    dataclasses._process_class: run_natively(dataclasses._process_class),  # type: ignore[attr-defined]
    collections.namedtuple: run_natively(collections.namedtuple),
    functools.cached_property.__get__: model_cached_property,
    operator.getitem: model_getitem,
    operator.contains: model_contains,
    **{native: delegate_operator(symbol) for symbol, (native, *_) in operators.BINARY.items()},
    **{native: delegate_comparison(symbol) for symbol, (native, *_) in operators.COMPARE.items()},
}
if hasattr(sys, "exception"):
    MODELS[sys.exception] = model_exception

METHOD_MODELS: dict[tuple[type, str], Callable[[Any, Any, Arguments, Keywords], Value]] = {}
"""Models of bound methods of builtin types, by (type, name); filled below."""


def method_sort(world: Any, owner: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return model_list_sort(world, (owner,), keywords)


def method_consume(name: str) -> Callable[[Any, Any, Arguments, Keywords], Value]:
    def model(world: Any, owner: Any, arguments: Arguments, keywords: Keywords) -> Value:
        taken = tuple(as_native_iterable(world, value) for value in arguments)
        return world.call_native_method(owner, name, taken, keywords)

    return model


METHOD_MODELS.update(
    {
        (list, "sort"): method_sort,
        (list, "extend"): method_consume("extend"),
        (str, "join"): method_consume("join"),
        (bytes, "join"): method_consume("join"),
        (set, "update"): method_consume("update"),
        (deque, "extend"): method_consume("extend"),
    }
)

GENERATOR_KIND = types.GeneratorType
NATIVE_FACES: dict[type, type] = {GeneratorValue: GENERATOR_KIND}
"""Types of the machine's own values and what `type()` says of them."""

ORDERED = (dict, OrderedDict)
