"""Builtins that ask one special method of their argument: numbers, texts, lengths, hashes.

The method runs in the machine; what it gave is handed to CPython's builtin by a stand-in, which checks it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import call_method, find_in_type, is_native_type, is_python_method
from lamina.capture.values.iteration import ReversedSequence, length_hint
from lamina.capture.values.stand_ins import answer

Model = Callable[[Any, tuple[Value, ...], dict[str, Value]], Value]
Keywords = dict[str, Value]
Arguments = tuple[Value, ...]


def ask(world: Any, native: Any, names: tuple[str, ...], value: Value) -> Value:
    """`native(value)`, where `native` asks the first of the special methods `names` that the value has."""
    if not is_native_type(type(value)):
        for name in names:
            method = find_in_type(type(value), name)
            if name == "__index__" and isinstance(value, int):
                break
            if is_python_method(method):
                return call_natively(native, answer(name, call_method(world, method, value)))
            if method is not MISSING:
                break
    return world.call_native(native, (value,), {})


def convert_with(native: Any, *names: str) -> Model:
    """A model of a builtin with one argument that asks special methods."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if len(arguments) == 1 and not keywords:
            return ask(world, native, names, arguments[0])
        return world.call_native(native, arguments, keywords)

    return model


def call_special(native: Any, name: str) -> Model:
    """A model of a builtin that gives what a special method gives, whatever that is."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if arguments and not is_native_type(type(arguments[0])):
            method = find_in_type(type(arguments[0]), name)
            if is_python_method(method):
                return call_method(world, method, *arguments)
        return world.call_native(native, arguments, keywords)

    return model


def model_reversed(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 1 and not keywords and not is_native_type(type(arguments[0])):
        kind = type(arguments[0])
        method = find_in_type(kind, "__reversed__")
        if is_python_method(method):
            return call_method(world, method, arguments[0])
        if method is MISSING and is_python_method(find_in_type(kind, "__getitem__")):
            return ReversedSequence(world, arguments[0], world.call(len, arguments, {}))
    return world.call_native(reversed, arguments, keywords)


def model_len(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    (value,) = arguments
    method = find_in_type(type(value), "__len__")
    if is_python_method(method) and not is_native_type(type(value)):
        return call_natively(len, answer("__len__", call_method(world, method, value)))
    return world.apply_native(len, value)


def model_length_hint(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if is_native_type(type(arguments[0])):
        return world.call_native(operator.length_hint, arguments, keywords)
    return length_hint(world, *arguments) if len(arguments) == 2 else length_hint(world, arguments[0], 0)


def model_pow(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 2 and not keywords:
        return world.binary("**", *arguments)
    method = find_in_type(type(arguments[0]), "__pow__") if arguments else MISSING
    if is_python_method(method) and len(arguments) == 3:
        result = call_method(world, method, *arguments)
        if result is not NotImplemented:
            return result
    return world.call_native(pow, arguments, keywords)


def model_divmod(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    left, right = arguments
    first = find_in_type(type(left), "__divmod__")
    second = find_in_type(type(right), "__rdivmod__")
    if not is_python_method(first) and not is_python_method(second):
        return world.call_native(divmod, arguments, keywords)
    attempts = [(first, left, right)]
    if type(left) is not type(right):
        attempts.append((second, right, left))
        is_override = second is not find_in_type(type(left), "__rdivmod__")
        if issubclass(type(right), type(left)) and is_override:
            attempts.reverse()
    for method, owner, other in attempts:
        result = NotImplemented if method is MISSING else call_method(world, method, owner, other)
        if result is not NotImplemented:
            return result
    names = f"{type(left).__name__!r} and {type(right).__name__!r}"
    raise TypeError(f"unsupported operand type(s) for divmod(): {names}")


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
        return call_natively(str, answer("__str__", call_method(world, method, value)))  # type: ignore[no-any-return]
    if method is object.__str__:
        method = find_in_type(type(value), "__repr__")
        if is_python_method(method) and not is_native_type(type(value)):
            # What `__repr__` gives is asked of by `str`, with its own words for what is no text.
            return call_natively(str, answer("__str__", call_method(world, method, value)))  # type: ignore[no-any-return]
        return to_repr(world, value)
    return str(world.call_native(str, (value,), {}))


def to_repr(world: Any, value: Value) -> str:
    """`repr(value)`."""
    method = find_in_type(type(value), "__repr__")
    if is_python_method(method) and not is_native_type(type(value)):
        return call_natively(repr, answer("__repr__", call_method(world, method, value)))  # type: ignore[no-any-return]
    return str(world.call_native(repr, (value,), {}))


def format_value(world: Any, value: Value, specification: str) -> str:
    """`format(value, specification)`."""
    method = find_in_type(type(value), "__format__")
    if is_python_method(method) and not is_native_type(type(value)):
        given = call_method(world, method, value, specification)
        return call_natively(format, answer("__format__", given))  # type: ignore[no-any-return]
    if method is object.__format__ and type(specification) is str and not specification:
        return to_text(world, value)
    return str(world.call_native(format, (value, specification), {}))


CONVERSIONS: dict[Any, Model] = {
    len: model_len,
    operator.length_hint: model_length_hint,
    int: convert_with(int, "__int__", "__index__", "__trunc__"),
    float: convert_with(float, "__float__", "__index__"),
    complex: convert_with(complex, "__complex__", "__float__", "__index__"),
    operator.index: convert_with(operator.index, "__index__"),
    bin: convert_with(bin, "__index__"),
    oct: convert_with(oct, "__index__"),
    hex: convert_with(hex, "__index__"),
    chr: convert_with(chr, "__index__"),
    hash: convert_with(hash, "__hash__"),
    abs: call_special(abs, "__abs__"),
    reversed: model_reversed,
    round: call_special(round, "__round__"),
    math.trunc: call_special(math.trunc, "__trunc__"),
    math.floor: call_special(math.floor, "__floor__"),
    math.ceil: call_special(math.ceil, "__ceil__"),
    pow: model_pow,
    divmod: model_divmod,
    str: model_str,
    repr: model_repr,
    ascii: convert_with(ascii, "__repr__"),
    format: model_format,
}
