"""Calls by kind of callable: functions, methods, classes, partials, callable instances, native code."""

from __future__ import annotations

import functools
import types
from typing import Any

from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import HEAP_TYPE, find_in_type
from lamina.capture.values.operators import is_python_method

Arguments = tuple[Value, ...]
Keywords = dict[str, Value]

NATIVE_KINDS: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)


def call(world: Any, callee: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """`callee(*arguments, **keywords)`."""
    kind = type(callee)
    if kind is types.MethodType:
        if "__machine_native__" in type(callee.__self__).__dict__:
            return callee(*arguments, **keywords)
        return world.call(callee.__func__, (callee.__self__, *arguments), keywords)
    if kind is types.FunctionType or kind in NATIVE_KINDS or issubclass(kind, type):
        model = world.find_model(callee)
        if model is not None:
            return model(world, arguments, keywords)
    if kind is types.FunctionType:
        return world.call_python(callee, arguments, keywords)
    if kind in NATIVE_KINDS:
        return world.call_native(callee, arguments, keywords)
    if issubclass(kind, type):
        return construct(world, callee, arguments, keywords)
    if kind is functools.partial:
        return world.call(callee.func, callee.args + arguments, {**callee.keywords, **keywords})
    method = find_in_type(kind, "__call__")
    if is_python_method(method):
        return world.call(method, (callee, *arguments), keywords)
    return world.call_native(callee, arguments, keywords)


def construct(world: Any, kind: type, arguments: Arguments, keywords: Keywords) -> Value:
    """`kind(*arguments, **keywords)` as `type.__call__` does it."""
    meta_call = find_in_type(type(kind), "__call__")
    if is_python_method(meta_call):
        return world.call(meta_call, (kind, *arguments), keywords)
    if not kind.__flags__ & HEAP_TYPE or "__machine_native__" in kind.__dict__:
        return world.call_native(kind, arguments, keywords)
    return construct_plainly(world, kind, arguments, keywords)


def construct_plainly(world: Any, kind: type, arguments: Arguments, keywords: Keywords) -> Value:
    """`type.__call__(kind, ...)`: `__new__`, then `__init__` when the result is an instance."""
    maker = find_in_type(kind, "__new__")
    initializer = find_in_type(kind, "__init__")
    if type(maker) is staticmethod:
        maker = maker.__func__
    if is_python_method(maker):
        made = world.call(maker, (kind, *arguments), keywords)
    elif maker is object.__new__:
        if (arguments or keywords) and initializer is object.__init__:
            raise TypeError(f"{kind.__name__}() takes no arguments")
        made = world.call_native(object.__new__, (kind,), {})
    elif issubclass(kind, type) or not is_python_method(initializer):
        # C-level construction and initialisation: one native call does both.
        return world.call_native(kind, arguments, keywords)
    else:
        made = world.call_native(maker, (kind, *arguments), keywords)
    if not isinstance(made, kind):
        return made
    initializer = find_in_type(type(made), "__init__")
    if is_python_method(initializer):
        result = world.call(initializer, (made, *arguments), keywords)
        if result is not None:
            raise TypeError(f"__init__() should return None, not {type(result).__name__!r}")
    elif initializer is not object.__init__ and initializer is not MISSING:
        world.call_native(initializer, (made, *arguments), keywords)
    return made
