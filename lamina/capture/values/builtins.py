"""Models of builtins that would otherwise run Python-level code outside the machine or ask about its frames.

A model takes (world, arguments, keywords). What it does not need to treat itself it hands to `call_native`.
Calls that do not fit the builtin's signature go to the builtin itself, which words the error.
"""

from __future__ import annotations
import __future__

import functools
import gc
import operator
import signal
import sys
import traceback
import types
from collections import OrderedDict, deque
from typing import Any

from lamina.capture.machine import coroutines
from lamina.capture.machine.code import CO_SUSPENDS
from lamina.capture.machine.frame_view import FrameView, view_frame
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.origins import call_natively, step_natively
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.values import attributes, operators, texts
from lamina.capture.values.attributes import (
    call_method,
    find_in_type,
    find_native,
    is_native_type,
    is_python_method,
)
from lamina.capture.values.class_making import CLASS_MAKING
from lamina.capture.values.conversions import CONVERSIONS, Arguments, Keywords, Model
from lamina.capture.values.functional import FUNCTIONAL, METHODS, MethodModel, consume_iterables
from lamina.capture.values.iteration import ReversedSequence, SequenceIterator, as_native_iterable


def model_getattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name, *default = arguments
    if not isinstance(name, str):
        return world.call_native(getattr, arguments, keywords)
    if not default:
        return world.load_attribute(owner, name)
    try:
        return world.load_attribute(owner, name)
    except AttributeError as error:
        world.check_origin(error)
        return default[0]


def model_setattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name, value = arguments
    if not isinstance(name, str):
        return world.call_native(setattr, arguments, keywords)
    world.store_attribute(owner, name, value)
    return None


def model_delattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    if not isinstance(name, str):
        return world.call_native(delattr, arguments, keywords)
    world.delete_attribute(owner, name)
    return None


def model_hasattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    if not isinstance(name, str):
        return world.call_native(hasattr, arguments, keywords)
    try:
        world.load_attribute(owner, name)
    except AttributeError as error:
        world.check_origin(error)
        return False
    return True


def model_object_getattribute(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    if not isinstance(name, str):
        return world.call_native(object.__getattribute__, arguments, keywords)
    return attributes.load_instance_attribute(world, owner, name)


def model_object_setattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name, value = arguments
    if not isinstance(name, str) or find_native(type(owner), "__setattr__") is not object.__setattr__:
        return world.call_native(object.__setattr__, arguments, keywords)
    attributes.store_instance_attribute(world, owner, name, value)
    return None


def model_object_delattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    if not isinstance(name, str) or find_native(type(owner), "__delattr__") is not object.__delattr__:
        return world.call_native(object.__delattr__, arguments, keywords)
    attributes.delete_instance_attribute(world, owner, name)
    return None


def model_isinstance(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    value, kinds = arguments
    if type(kinds) is tuple:
        return any(model_isinstance(world, (value, kind), {}) for kind in kinds)
    if type(kinds) is types.UnionType:
        return any(model_isinstance(world, (value, kind), {}) for kind in kinds.__args__)
    if type(value) is kinds:
        return True
    checker = find_in_type(type(kinds), "__instancecheck__")
    if is_python_method(checker) and not world.is_trusted_check(kinds):
        return world.truth(call_method(world, checker, kinds, value))
    return world.is_instance(value, kinds)


def model_issubclass(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    given, kinds = arguments
    if type(kinds) is tuple:
        return any(model_issubclass(world, (given, kind), {}) for kind in kinds)
    if type(kinds).__name__ == "_ProtocolMeta":
        stop("frames", "a protocol looks at the frames of those who ask for its subclasses")
    checker = find_in_type(type(kinds), "__subclasscheck__")
    if is_python_method(checker) and not world.is_trusted_check(kinds):
        return world.truth(call_method(world, checker, kinds, given))
    return world.call_native(issubclass, arguments, keywords)


def model_super(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        return call_natively(super, *arguments)
    frame = world.machine.frame
    names = frame.decoded.slot_names
    if not frame.code.co_argcount:
        raise RuntimeError("super(): no arguments")
    if "__class__" not in names:
        raise RuntimeError("super(): __class__ cell not found")
    kind = world.load_cell(frame.slots[names.index("__class__")])
    first = frame.slots[0]
    if isinstance(first, types.CellType) and names[0] in frame.code.co_cellvars:
        first = world.load_cell(first)
    if first is UNBOUND or kind is UNBOUND:
        raise RuntimeError("super(): arg[0] deleted")
    return call_natively(super, kind, first)


def model_bool(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.truth(arguments[0]) if arguments else False


def model_callable(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return callable(arguments[0])


def model_vars(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if not arguments:
        return model_locals(world, arguments, keywords)
    try:
        return world.load_attribute(arguments[0], "__dict__")
    except AttributeError as error:
        world.check_origin(error)
    raise TypeError("vars() argument must have __dict__ attribute")


def model_locals(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    frame = world.machine.frame
    return frame.names if frame.names is not None else frame.read_locals(world.load_cell)


def model_globals(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return world.read_globals(world.machine.frame)


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


def model_getframe(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    world.check_text("sys._getframe")
    depth = arguments[0] if arguments else 0
    if not isinstance(depth, int) or depth < 0:
        stop("frames", f"sys._getframe of {depth!r}")
    return view_frame(world.machine.frame, depth, world.load_cell)


def ignore(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`traceback.clear_frames`: the frames behind a traceback are not the program's."""


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


def model_dir(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if not arguments:
        names = model_locals(world, arguments, keywords)
        if type(names) is not dict:
            names = as_native_iterable(world, world.call(world.load_attribute(names, "keys"), (), {}))
        return call_natively(sorted, names)
    method = find_in_type(type(arguments[0]), "__dir__")
    if not is_python_method(method) or is_native_type(type(arguments[0])):
        return world.call_native(dir, arguments, keywords)
    names = call_natively(list, as_native_iterable(world, call_method(world, method, arguments[0])))
    return world.call(sorted, (names,), {})


def update_dict(world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """`dict.update` and `dict.__init__`: a mapping is read in the machine."""
    taken = tuple(as_native_mapping(world, value) for value in arguments)
    return world.call_native(native, taken, keywords)


def model_dict(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    taken = tuple(as_native_mapping(world, value) for value in arguments)
    return world.call_native(dict, taken, keywords)


def as_native_mapping(world: Any, value: Value) -> Value:
    """A mapping or an iterable of pairs as C code may read it."""
    if is_native_type(type(value)):
        return value
    if isinstance(value, dict) and find_in_type(type(value), "__iter__") is dict.__iter__:
        return value
    try:
        keys = world.load_attribute(value, "keys")
    except AttributeError as error:
        world.check_origin(error)
        keys = MISSING
    # Behind the handler: what the program raises from here on has no context.
    if keys is MISSING:
        pairs = as_native_iterable(world, value)
        return pairs if pairs is value else [as_native_iterable(world, pair) for pair in step_natively(pairs)]
    names = operators.step_through(world, world.iterate(world.call(keys, (), {})))
    return {name: world.get_item(value, name) for name in names}


def run_text(native: Any, mode: str) -> Model:
    """exec and eval: the code runs in the machine."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        world.check_text(native.__name__)
        frame = world.machine.frame
        source, *names = arguments
        if keywords or len(names) > 2 or not isinstance(source, (str, types.CodeType)):
            stop(native.__name__, f"{native.__name__} of a {type(source).__name__} is not modelled")
        global_names = names[0] if names and names[0] is not None else frame.global_names
        if type(global_names) is not dict:
            return world.call_native(native, arguments, keywords)
        if len(names) == 2 and names[1] is not None:
            local_names = names[1]
            if not hasattr(type(local_names), "__getitem__"):
                return world.call_native(native, arguments, keywords)
        elif not names or names[0] is None:
            local_names = model_locals(world, (), {})
        else:
            local_names = global_names
        code: Any = source
        if isinstance(source, str):
            flags = frame.code.co_flags & FUTURES
            text = source.strip(" \t") if mode == "eval" else source
            code = call_natively(compile, text, "<string>", mode, flags, True)
        if code.co_flags & CO_SUSPENDS:
            stop(native.__name__, f"{native.__name__} of code that awaits or yields is not modelled")
        if code.co_freevars:
            return world.call_native(native, arguments, keywords)
        global_names.setdefault("__builtins__", frame.builtins)
        result = world.machine.run_text(code, global_names, local_names)
        return result if native is eval else None

    return model


FUTURES = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
"""The flags of code that what it compiles inherits."""
INTERPRETER = ("setrecursionlimit", "settrace", "setprofile", "getrefcount", "_current_frames")

MODELS: dict[Any, Model] = {
    **CONVERSIONS,
    **FUNCTIONAL,
    **CLASS_MAKING,
    **texts.TEXTS,
    getattr: model_getattr,
    setattr: model_setattr,
    delattr: model_delattr,
    hasattr: model_hasattr,
    object.__getattribute__: model_object_getattribute,
    object.__setattr__: model_object_setattr,
    object.__delattr__: model_object_delattr,
    isinstance: model_isinstance,
    issubclass: model_issubclass,
    super: model_super,
    bool: model_bool,
    list: consume_iterables(list),
    tuple: consume_iterables(tuple),
    set: consume_iterables(set),
    frozenset: consume_iterables(frozenset),
    deque: consume_iterables(deque),
    dict: model_dict,
    callable: model_callable,
    vars: model_vars,
    dir: model_dir,
    locals: model_locals,
    globals: model_globals,
    sys.exc_info: model_exc_info,
    sys._getframe: model_getframe,
    eval: run_text(eval, "eval"),
    exec: run_text(exec, "exec"),
    **{
        getattr(sys, name): forbid("frames", f"sys.{name} is about the interpreter's own frames")
        for name in INTERPRETER
    },
    types.TracebackType: forbid("frames", "a traceback is made of frames"),
    sys.excepthook: forbid("frames", "sys.excepthook prints the frames of a traceback"),
    **{
        getattr(gc, name): forbid("frames", f"gc.{name} looks at all objects, the machine's among them")
        for name in ("get_objects", "get_referrers", "get_referents")
    },
    signal.raise_signal: forbid("signal", "a signal interrupts the machine wherever it is"),
    signal.setitimer: forbid("signal", "a signal interrupts the machine wherever it is"),
    traceback.clear_frames: ignore,
    breakpoint: forbid("breakpoint", "breakpoint() stops in a debugger", "remove it or call eagerly"),
    input: forbid("input", "input() reads from outside", "read the value before the compiled call"),
    functools.cached_property.__get__: model_cached_property,
    operator.getitem: model_getitem,
    operator.contains: model_contains,
    **{native: delegate_operator(symbol) for symbol, (native, *_) in operators.BINARY.items()},
    **{native: delegate_operator(symbol) for symbol, (native, *_) in operators.IN_PLACE.items()},
    **{native: delegate_comparison(symbol) for symbol, (native, *_) in operators.COMPARE.items()},
}
if hasattr(sys, "exception"):
    MODELS[sys.exception] = model_exception

METHOD_MODELS: dict[tuple[type, str], MethodModel] = {
    **METHODS,
    **texts.METHODS,
    (dict, "update"): update_dict,
    (dict, "__init__"): update_dict,
    (OrderedDict, "update"): update_dict,
    (OrderedDict, "__init__"): update_dict,
}
"""Models of bound methods of builtin types, by (type, name)."""


def unbind(kind: type, native: Any, method: MethodModel) -> Model:
    """The model of a method that is called on the class, with its owner as the first argument."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if not arguments or not isinstance(arguments[0], kind):
            return world.call_native(native, arguments, keywords)
        owner = arguments[0]
        return method(world, native.__get__(owner, type(owner)), owner, arguments[1:], keywords)

    return model


MODELS.update(
    {
        getattr(kind, name): unbind(kind, getattr(kind, name), method)
        for (kind, name), method in METHOD_MODELS.items()
    }
)

ARITY: dict[Any, tuple[int, int]] = {
    **dict.fromkeys((any, all, len, repr, ascii, callable, sys.exc_info), (1, 1)),
    **dict.fromkeys((setattr, object.__setattr__), (3, 3)),
    **dict.fromkeys(
        (delattr, hasattr, isinstance, issubclass, divmod, object.__getattribute__, object.__delattr__),
        (2, 2),
    ),
    **dict.fromkeys((operator.getitem, operator.contains, type.__getattribute__), (2, 2)),
    **dict.fromkeys((native for native, *_ in operators.BINARY.values()), (2, 2)),
    **dict.fromkeys((native for native, *_ in operators.IN_PLACE.values()), (2, 2)),
    **dict.fromkeys((native for native, *_ in operators.COMPARE.values()), (2, 2)),
    **dict.fromkeys((iter, next, format, operator.length_hint), (1, 2)),
    **dict.fromkeys((bool, vars, dir), (0, 1)),
    **dict.fromkeys((locals, globals), (0, 0)),
    getattr: (2, 3),
    functools.reduce: (2, 3),
    super: (0, 2),
    sum: (1, 2),
    sorted: (1, 1),
    sys.exc_info: (0, 0),
    sys._getframe: (0, 1),
    type.__call__: (1, 99),
    eval: (1, 3),
    exec: (1, 3),
}
"""How many positional arguments the models take; what does not fit is CPython's to refuse."""
TAKES_KEYWORDS = frozenset({sum, sorted, type.__call__, eval, exec})


def fits(native: Any, arguments: Arguments, keywords: Keywords) -> bool:
    """Whether a model may treat this call."""
    least, most = ARITY.get(native, (0, sys.maxsize))
    return least <= len(arguments) <= most and not (
        keywords and native in ARITY and native not in TAKES_KEYWORDS
    )


NATIVE_FACES: dict[type, type] = {
    GeneratorValue: types.GeneratorType,
    **coroutines.FACES,
    FrameView: types.FrameType,
    SequenceIterator: type(iter(texts.OldSequence())),
    ReversedSequence: reversed,
}
"""Types of the machine's own values and what `type()` says of them."""
