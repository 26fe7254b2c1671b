"""Calls by kind of callable: functions, methods, classes, partials, callable instances, native code."""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from typing import Any

from lamina.capture.machine.generators import SuspendedFrame
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import IMMUTABLE_TYPE, find_in_type, is_python_method

Arguments = tuple[Value, ...]
Keywords = dict[str, Value]

PARTIAL_CALL = functools.partial.__call__
GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
NATIVE_KINDS: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)


def is_machine_method(method: types.MethodType) -> bool:
    """Whether a method, not only the object that it is bound to, is the machine's own, not the program's."""
    if "__machine_native__" not in type(method.__self__).__dict__:
        return False
    globals_: dict[str, Any] = getattr(method.__func__, "__globals__", {})
    return str(globals_.get("__name__")).startswith("lamina.capture.")


def is_unbound(world: Any, callee: Any, arguments: Arguments) -> bool:
    """Whether `callee` is an unbound method of CPython's type of generators, given one of ours."""
    if not arguments or not issubclass(type(arguments[0]), SuspendedFrame):
        return False
    return getattr(callee, "__objclass__", None) is world.type_of(arguments[0])


def call(world: Any, callee: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """`callee(*arguments, **keywords)`."""
    kind = type(callee)
    if kind is types.MethodType:
        if is_machine_method(callee):
            return callee(*arguments, **keywords)
        return world.call(callee.__func__, (callee.__self__, *arguments), keywords)
    if kind is types.FunctionType or kind in NATIVE_KINDS or issubclass(kind, type):
        model = world.find_model(callee)
        if model is not None:
            return model(world, arguments, keywords)
    if kind is types.FunctionType:
        return world.call_python(callee, arguments, keywords)
    if kind in NATIVE_KINDS:
        if is_unbound(world, callee, arguments):
            return getattr(arguments[0], callee.__name__)(*arguments[1:], **keywords)
        return world.call_native(callee, arguments, keywords)
    if issubclass(kind, type):
        return construct(world, callee, arguments, keywords)
    if isinstance(callee, functools.partial) and find_in_type(kind, "__call__") is PARTIAL_CALL:
        return world.call(callee.func, callee.args + arguments, {**callee.keywords, **keywords})
    if kind is staticmethod:
        return world.call(callee.__func__, arguments, keywords)
    if kind is types.GenericAlias:
        return call_alias(world, callee, arguments, keywords)
    if kind in GETTERS:
        return call_getter(world, callee, arguments, keywords)
    method = find_in_type(kind, "__call__")
    if type(method) is types.FunctionType and is_python_method(method):
        return world.call(method, (callee, *arguments), keywords)
    if is_python_method(method):
        return world.call(world.bind_descriptor(method, kind, "__call__", callee, kind), arguments, keywords)
    return world.call_native(callee, arguments, keywords)


def call_alias(world: Any, alias: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`Class[parameters](...)`: an instance that remembers the alias, if it can."""
    made = world.call(alias.__origin__, arguments, keywords)
    if isinstance(made, type(None)) or type(made).__flags__ & IMMUTABLE_TYPE:
        return made
    with contextlib.suppress(AttributeError, TypeError):
        world.store_attribute(made, "__orig_class__", alias)
    return made


def call_getter(world: Any, getter: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """An itemgetter, attrgetter or methodcaller; what it asks for is in its reduction."""
    if len(arguments) != 1 or keywords:
        return world.call_native(getter, arguments, keywords)
    (owner,) = arguments
    made, given, *_ = getter.__reduce__()
    if isinstance(made, functools.partial):
        return world.call(world.load_attribute(owner, made.args[0]), given, made.keywords)
    if type(getter) is operator.methodcaller:
        return world.call(world.load_attribute(owner, given[0]), given[1:], {})
    if type(getter) is operator.itemgetter:
        found = [world.get_item(owner, item) for item in given]
    else:
        found = [load_path(world, owner, path) for path in given]
    return found[0] if len(found) == 1 else tuple(found)


def load_path(world: Any, owner: Value, path: str) -> Value:
    for name in path.split("."):
        owner = world.load_attribute(owner, name)
    return owner


def construct(world: Any, kind: type, arguments: Arguments, keywords: Keywords) -> Value:
    """`kind(*arguments, **keywords)`."""
    meta_call = find_in_type(type(kind), "__call__")
    if is_python_method(meta_call):
        return world.call(
            world.bind_descriptor(meta_call, type(kind), "__call__", kind, type(kind)), arguments, keywords
        )
    if kind.__flags__ & IMMUTABLE_TYPE or "__machine_native__" in kind.__dict__:
        return world.call_native(kind, arguments, keywords)
    return construct_plainly(world, kind, arguments, keywords)


def construct_plainly(world: Any, kind: type, arguments: Arguments, keywords: Keywords) -> Value:
    """`type.__call__(kind, ...)`: `__new__`, then `__init__` when the result is an instance."""
    world.check_made(kind)
    maker = find_in_type(kind, "__new__")
    initializer = find_in_type(kind, "__init__")
    if is_python_method(maker):
        if type(maker) is not staticmethod and type(maker) is not types.FunctionType:
            maker = world.load_attribute(kind, "__new__")
        if type(maker) is staticmethod:
            maker = maker.__func__
        made = world.call(maker, (kind, *arguments), keywords)
    elif not is_python_method(initializer) and not issubclass(kind, type):
        # C-level construction and initialisation: one native call does both.
        return world.call_native(kind, arguments, keywords)
    elif maker is object.__new__:
        made = world.call_native(object.__new__, (kind,), {})
    else:
        made = world.call(maker, (kind, *arguments), keywords)
    if kind not in type.__dict__["__mro__"].__get__(type(made)):
        return made
    initializer = find_in_type(type(made), "__init__")
    if is_python_method(initializer):
        result = call_initializer(world, initializer, made, arguments, keywords)
        if result is not None:
            raise TypeError(f"__init__() should return None, not {type(result).__name__!r}")
    elif initializer is not object.__init__ and initializer is not MISSING:
        world.call(initializer, (made, *arguments), keywords)
    return made


def call_initializer(
    world: Any, initializer: Value, made: Value, arguments: Arguments, keywords: Keywords
) -> Value:
    if type(initializer) is types.FunctionType:
        return world.call(initializer, (made, *arguments), keywords)
    kind = type(made)
    return world.call(world.bind_descriptor(initializer, kind, "__init__", made, kind), arguments, keywords)
