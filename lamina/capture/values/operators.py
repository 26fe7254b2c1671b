"""Operators by the rules of the data model: Python-level special methods run in the machine."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import find_in_type, is_native_type

Operator = Callable[[Any, Any], Any]

OWN_CODE = "lamina.capture."
"""Methods of the machine's own values are native to the program."""

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


def is_python_method(method: Value) -> bool:
    """Whether calling `method` would run Python code of the program's."""
    return type(method) is types.FunctionType and not str(method.__globals__.get("__name__", "")).startswith(
        OWN_CODE
    )


def call_method(world: Any, method: Value, owner: Value, *arguments: Value) -> Value:
    """Call a special method found in a type."""
    if is_python_method(method):
        return world.call(method, (owner, *arguments), {})
    bound = method.__get__(owner, type(owner)) if hasattr(type(method), "__get__") else method
    return world.call(bound, arguments, {})


def apply_binary(world: Any, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right` for one of BINARY or IN_PLACE."""
    if symbol in IN_PLACE:
        native, name = IN_PLACE[symbol]
        if is_native_type(type(left)) and is_native_type(type(right)):
            return world.apply_native(native, left, right)
        method = find_in_type(type(left), name)
        if is_python_method(method):
            result = call_method(world, method, left, right)
            if result is not NotImplemented:
                return result
        elif method is not MISSING:
            return world.apply_native(native, left, right)
        symbol = symbol[:-1]
    native, name, reflected = BINARY[symbol]
    if is_native_type(type(left)) and is_native_type(type(right)):
        return world.apply_native(native, left, right)
    return apply_with_reflection(world, native, name, reflected, left, right)


def apply_with_reflection(
    world: Any, native: Operator, name: str, reflected: str, left: Value, right: Value
) -> Value:
    """Try `left.name(right)` and `right.reflected(left)`, the subclass's first."""
    left_kind, right_kind = type(left), type(right)
    first = find_in_type(left_kind, name)
    second = find_in_type(right_kind, reflected)
    if not is_python_method(first) and not is_python_method(second):
        return world.apply_native(native, left, right)
    attempts = [(first, left, right), (second, right, left)]
    if right_kind is left_kind and reflected.startswith("__r"):
        attempts.pop()
    elif right_kind is not left_kind and issubclass(right_kind, left_kind) and second is not first:
        attempts.reverse()
    for method, owner, other in attempts:
        if method is MISSING:
            continue
        result = call_method(world, method, owner, other)
        if result is not NotImplemented:
            return result
    return fail_natively(native, left, right)


class _Bare:
    """An object without operators, named as another class to get CPython's message about that class."""


def fail_natively(native: Operator, left: Value, right: Value) -> Value:
    """Every attempt gave NotImplemented: equality falls back to identity, the rest is CPython's TypeError."""
    if native is operator.eq:
        return left is right
    if native is operator.ne:
        return left is not right
    stand_ins = [type(type(value).__name__, (_Bare,), {})() for value in (left, right)]
    return native(*stand_ins)


def compare(world: Any, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right` for one of COMPARE."""
    native, name, reflected = COMPARE[symbol]
    left_kind, right_kind = type(left), type(right)
    if is_native_type(left_kind) and is_native_type(right_kind):
        return world.apply_native(native, left, right)
    if symbol == "!=" and find_in_type(left_kind, "__ne__") is object.__ne__:
        # object's __ne__ would call the Python-level __eq__ outside the machine.
        method = find_in_type(left_kind, "__eq__")
        if is_python_method(method):
            result = call_method(world, method, left, right)
            if result is not NotImplemented:
                return not world.truth(result)
    return apply_with_reflection(world, native, name, reflected, left, right)


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
        return bool(value)
    method = find_in_type(kind, "__bool__")
    if is_python_method(method):
        result = call_method(world, method, value)
        if type(result) is not bool:
            raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")
        return result
    if method is MISSING:
        method = find_in_type(kind, "__len__")
        if is_python_method(method):
            return bool(call_method(world, method, value))
    return bool(world.apply_native(operator.truth, value))


def contains(world: Any, container: Value, item: Value) -> bool:
    """`item in container`."""
    kind = type(container)
    method = find_in_type(kind, "__contains__")
    if is_python_method(method):
        return truth(world, call_method(world, method, container, item))
    if kind in (list, tuple):
        return any(
            element is item or truth(world, compare(world, "==", element, item)) for element in container
        )
    if method is MISSING and not is_native_type(kind):
        iterator = world.iterate(container)
        return any(
            element is item or truth(world, compare(world, "==", element, item))
            for element in step_through(world, iterator)
        )
    return bool(world.apply_native(operator.contains, container, item))


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
    if issubclass(type(container), type) and not is_python_method(
        find_in_type(type(container), "__getitem__")
    ):
        maker = find_in_type(container, "__class_getitem__")
        if type(maker) is classmethod and is_python_method(maker.__func__):
            return world.call(maker.__func__, (container, key), {})
    if issubclass(kind, dict) and kind is not dict:
        return get_dict_item(world, container, key)
    return world.apply_native(operator.getitem, container, key)


def get_dict_item(world: Any, container: dict[Value, Value], key: Value) -> Value:
    """Look up in a dict subclass: `__missing__` and default factories run in the machine."""
    if key in container:
        return dict.__getitem__(container, key)
    maker = find_in_type(type(container), "__missing__")
    if is_python_method(maker):
        return call_method(world, maker, container, key)
    factory = getattr(container, "default_factory", None)
    if maker is not MISSING and factory is not None:
        value = world.call(factory, (), {})
        dict.__setitem__(container, key, value)
        return value
    return world.apply_native(operator.getitem, container, key)


def set_item(world: Any, container: Value, key: Value, value: Value) -> None:
    """`container[key] = value`."""
    method = find_in_type(type(container), "__setitem__")
    if is_python_method(method):
        call_method(world, method, container, key, value)
        return
    world.apply_native(operator.setitem, container, key, value)


def delete_item(world: Any, container: Value, key: Value) -> None:
    """`del container[key]`."""
    method = find_in_type(type(container), "__delitem__")
    if is_python_method(method):
        call_method(world, method, container, key)
        return
    world.apply_native(operator.delitem, container, key)
