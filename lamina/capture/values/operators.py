"""Operators by the rules of the data model: Python-level special methods run in the machine."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import (
    IMMUTABLE_TYPE,
    call_method,
    find_in_type,
    is_native_type,
    is_python_method,
    load_special,
)
from lamina.capture.values.stand_ins import answer

Operator = Callable[[Any, Any], Any]

BINARY: dict[str, tuple[Operator, str, str]] = {
    "+": (operator.add, "__add__", "__radd__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
}
IN_PLACE: dict[str, tuple[Operator, str]] = {
    "+=": (operator.iadd, "__iadd__"),
    "&=": (operator.iand, "__iand__"),
    "//=": (operator.ifloordiv, "__ifloordiv__"),
    "<<=": (operator.ilshift, "__ilshift__"),
    "@=": (operator.imatmul, "__imatmul__"),
    "*=": (operator.imul, "__imul__"),
    "%=": (operator.imod, "__imod__"),
    "|=": (operator.ior, "__ior__"),
    "**=": (operator.ipow, "__ipow__"),
    ">>=": (operator.irshift, "__irshift__"),
    "-=": (operator.isub, "__isub__"),
    "/=": (operator.itruediv, "__itruediv__"),
    "^=": (operator.ixor, "__ixor__"),
}
COMPARE: dict[str, tuple[Operator, str, str]] = {
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
}


SEQUENCES = (list, tuple, str, bytes, bytearray, range, collections.deque, memoryview)


def runs_python(method: Value) -> bool:
    """Whether the machine must call `method` itself: Python code, or None, which blocks an operator."""
    return method is None or is_python_method(method)


def attempt(world: Any, method: Value, owner: Value, other: Value) -> Value:
    """One special method of a binary operator; NotImplemented when there is none."""
    if method is MISSING:
        return NotImplemented
    return call_method(world, method, owner, other)


def apply_binary(world: Any, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right` for one of BINARY or IN_PLACE."""
    left_kind, right_kind = type(left), type(right)
    if symbol not in IN_PLACE:
        native = BINARY[symbol][0]
        if symbol == "%" and left_kind in (str, bytes):
            return world.apply_native(native, left, world.as_printed(left, right))
        if is_native_type(left_kind) and is_native_type(right_kind):
            return world.apply_native(native, left, right)
        return apply_with_reflection(world, native, BINARY[symbol], left, right)
    native, name = IN_PLACE[symbol]
    if is_native_type(left_kind) and is_native_type(right_kind):
        return world.apply_native(native, left, right)
    plain = BINARY[symbol[:-1]]
    method = find_in_type(left_kind, name)
    if is_sequence(left_kind, plain[1]):
        # CPython asks the right operand's number method before a sequence's own concatenation.
        result = attempt_reflected(world, plain, left, right)
        if result is not NotImplemented:
            return result
        if plain[1] == "__mul__":
            return repeat(world, native, left, right)
        if method is not MISSING and not runs_python(method):
            return call_method(world, method, left, world.as_native_iterable(right))
    if method is not MISSING:
        result = call_method(world, method, left, right)
        if result is not NotImplemented:
            return result
    return apply_with_reflection(world, native, plain, left, right)


def attempt_reflected(world: Any, entry: tuple[Operator, str, str], left: Value, right: Value) -> Value:
    """The right operand's reflected method, if it is Python code."""
    method = find_in_type(type(right), entry[2])
    if type(right) is type(left) or not runs_python(method):
        return NotImplemented
    return call_method(world, method, right, left)


def is_sequence(kind: type, name: str) -> bool:
    """Whether `kind`'s `+` and `*` are those of a C-level sequence, not of a number."""
    if name not in ("__add__", "__mul__"):
        return False
    return (
        find_in_type(kind, "__radd__") is MISSING
        and find_in_type(kind, "__add__") is not MISSING
        and not runs_python(find_in_type(kind, name))
    )


def apply_with_reflection(
    world: Any, failing: Operator, entry: tuple[Operator, str, str], left: Value, right: Value
) -> Value:
    """Try `left.name(right)` and `right.reflected(left)`, the overriding subclass's first."""
    _, name, reflected = entry
    left_kind, right_kind = type(left), type(right)
    first = find_in_type(left_kind, name)
    second = find_in_type(right_kind, reflected)
    if not runs_python(first) and not runs_python(second):
        return world.apply_native(failing, left, right)
    if is_sequence(left_kind, name):
        result = attempt_reflected(world, entry, left, right)
        if result is not NotImplemented:
            return result
        if name == "__mul__":
            return repeat(world, failing, left, right)
        return attempt(world, first, left, right)
    attempts = [(first, left, right), (second, right, left)]
    if right_kind is left_kind:
        attempts.pop()
    elif is_subtype(right_kind, left_kind) and second is not find_in_type(left_kind, reflected):
        attempts.reverse()
    for method, owner, other in attempts:
        result = attempt(world, method, owner, other)
        if result is not NotImplemented:
            return result
    return fail_natively(failing, left, right)


def is_subtype(kind: type, base: type) -> bool:
    """Whether `base` is really among the bases of `kind`, whatever `issubclass` is told."""
    return base in type.__dict__["__mro__"].__get__(kind)


class _Bare:
    """An object without operators, named as another class to get CPython's message about that class."""


def make_bare(value: Value) -> Value:
    """An object without operators for an error about the class of `value`."""
    kind = type(value)
    # C code names its classes with their modules, as in "collections.deque".
    is_dotted = kind.__flags__ & IMMUTABLE_TYPE and kind.__module__ != "builtins"
    return type(f"{kind.__module__}.{kind.__qualname__}" if is_dotted else kind.__name__, (_Bare,), {})()


def fail_natively(native: Operator, left: Value, right: Value) -> Value:
    """Every attempt gave NotImplemented: CPython's TypeError about the operands' classes."""
    return call_natively(native, make_bare(left), make_bare(right))


def repeat(world: Any, native: Operator, sequence: Value, count: Value) -> Value:
    """A C-level sequence times something whose own multiplication gave NotImplemented."""
    method = find_in_type(type(count), "__index__")
    if method is MISSING:
        return call_natively(native, sequence, make_bare(count))
    if is_python_method(method):
        count = answer("__index__", call_method(world, method, count))
    return world.apply_native(native, sequence, count)


def compare(world: Any, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right` for one of COMPARE."""
    native, name, reflected = COMPARE[symbol]
    left_kind, right_kind = type(left), type(right)
    if is_native_type(left_kind) and is_native_type(right_kind):
        return world.apply_native(native, left, right)
    attempts = [(name, left, right), (reflected, right, left)]
    if right_kind is not left_kind and is_subtype(right_kind, left_kind):
        attempts.reverse()
    if native in (operator.eq, operator.ne) and is_told_by_identity(left) and is_told_by_identity(right):
        return world.is_same(left, right) is (native is operator.eq)
    if not any(compares_in_python(type(owner), method) for method, owner, _ in attempts):
        return world.apply_native(native, left, right)
    for method_name, owner, other in attempts:
        result = attempt_comparison(world, method_name, owner, other)
        if result is not NotImplemented:
            return result
    if native in (operator.eq, operator.ne):
        return world.is_same(left, right) is (native is operator.eq)
    return fail_natively(native, left, right)


def is_told_by_identity(value: Value) -> bool:
    """Whether a value's class leaves `==` to `object`, so that only the object itself is equal."""
    kind = type(value)
    return find_in_type(kind, "__eq__") is object.__eq__ and find_in_type(kind, "__ne__") is object.__ne__


def compares_in_python(kind: type, name: str) -> bool:
    """Whether a comparison by `name` runs Python code of `kind`'s."""
    method = find_in_type(kind, name)
    if method is object.__ne__:
        method = find_in_type(kind, "__eq__")
    return runs_python(method)


def attempt_comparison(world: Any, name: str, owner: Value, other: Value) -> Value:
    """One attempt of a comparison; object's `__ne__` asks `__eq__` in the machine."""
    method = find_in_type(type(owner), name)
    if method is not object.__ne__:
        if is_python_method(method) and type(method) is not types.FunctionType:
            return attempt_bound(world, name, owner, other)
        return attempt(world, method, owner, other)
    result = attempt(world, find_in_type(type(owner), "__eq__"), owner, other)
    return result if result is NotImplemented else not world.truth(result)


def attempt_bound(world: Any, name: str, owner: Value, other: Value) -> Value:
    """A comparison by what a descriptor gives: an error of the descriptor counts as no method."""
    try:
        bound = load_special(world, owner, name)
    except Exception as error:
        world.check_origin(error)
        return NotImplemented
    return world.call(bound, (other,), {})


def apply_unary(world: Any, name: str, operand: Value) -> Value:
    """One of UNARY."""
    native, method_name = UNARY[name]
    method = find_in_type(type(operand), method_name)
    if is_python_method(method):
        return call_method(world, method, operand)
    return world.apply_native(native, operand)


def truth(world: Any, value: Value) -> bool:
    """`bool(value)`."""
    if value is True or value is False or value is None:
        return bool(value)
    kind = type(value)
    if is_native_type(kind):
        return bool(call_natively(bool, value))
    for name in ("__bool__", "__len__"):
        method = find_in_type(kind, name)
        if is_python_method(method):
            return bool(call_natively(bool, answer(name, call_method(world, method, value))))
        if method is not MISSING:
            break
    return bool(world.apply_native(operator.truth, value))


def contains(world: Any, container: Value, item: Value) -> bool:
    """`item in container`."""
    kind = type(container)
    method = find_in_type(kind, "__contains__")
    if is_python_method(method):
        return truth(world, call_method(world, method, container, item))
    if kind in (list, tuple):
        return find_equal(world, container, item)
    if method is MISSING and not is_native_type(kind):
        if find_in_type(kind, "__iter__") is MISSING and find_in_type(kind, "__getitem__") is MISSING:
            return bool(world.apply_native(operator.contains, container, item))
        return find_equal(world, step_through(world, world.iterate(container)), item)
    world.check_key(container, item)
    return bool(world.apply_native(operator.contains, container, item))


def find_equal(world: Any, elements: Any, item: Value) -> bool:
    """Whether one of `elements` is `item` or equal to it."""
    return any(element is item or truth(world, compare(world, "==", element, item)) for element in elements)


def step_through(world: Any, iterator: Value) -> Iterator[Value]:
    """The rest of `iterator`, natively iterable."""
    while True:
        try:
            value = world.advance(iterator)
        except StopIteration:
            return
        yield value


def get_item(world: Any, container: Value, key: Value) -> Value:
    """`container[key]`."""
    kind = type(container)
    method = find_in_type(kind, "__getitem__")
    if is_python_method(method):
        return call_method(world, method, container, key)
    if issubclass(kind, type) and method is MISSING:
        return subscribe_class(world, container, key)
    world.check_key(container, key)
    if issubclass(kind, dict) and kind is not dict:
        return get_dict_item(world, container, key)
    return world.apply_native(operator.getitem, container, as_index(world, container, key))


def subscribe_class(world: Any, container: type, key: Value) -> Value:
    """`Class[key]`."""
    raw = find_in_type(container, "__class_getitem__")
    if raw is MISSING or not is_python_method(raw):
        return world.apply_native(operator.getitem, container, key)
    return world.call(world.load_attribute(container, "__class_getitem__"), (key,), {})


def get_dict_item(world: Any, container: dict[Value, Value], key: Value) -> Value:
    """Look up in a dict subclass: `__missing__` and default factories run in the machine."""
    if call_natively(dict.__contains__, container, key):
        return dict.__getitem__(container, key)
    maker = find_in_type(type(container), "__missing__")
    if is_python_method(maker):
        return call_method(world, maker, container, key)
    factory = getattr(container, "default_factory", None)
    if maker is not MISSING and factory is not None:
        value = world.call(factory, (), {})
        set_item(world, container, key, value)
        return value
    return world.apply_native(operator.getitem, container, key)


def as_index(world: Any, container: Value, key: Value) -> Value:
    """A subscript of a sequence: a Python-level `__index__` runs in the machine."""
    if is_native_type(type(key)) or isinstance(key, int) or not isinstance(container, SEQUENCES):
        return key
    method = find_in_type(type(key), "__index__")
    return answer("__index__", call_method(world, method, key)) if is_python_method(method) else key


def set_item(world: Any, container: Value, key: Value, value: Value) -> None:
    """`container[key] = value`."""
    method = find_in_type(type(container), "__setitem__")
    if is_python_method(method):
        call_method(world, method, container, key, value)
        return
    world.check_key(container, key)
    world.apply_native(operator.setitem, container, as_index(world, container, key), value)


def delete_item(world: Any, container: Value, key: Value) -> None:
    """`del container[key]`."""
    method = find_in_type(type(container), "__delitem__")
    if is_python_method(method):
        call_method(world, method, container, key)
        return
    world.check_key(container, key)
    world.apply_native(operator.delitem, container, as_index(world, container, key))
