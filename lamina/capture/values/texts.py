"""Formatting: `str.format`, `%`, `print` and the like, with the objects' own methods run in the machine."""

from __future__ import annotations

import _string  # type: ignore[import-not-found]
import re
from typing import Any

from lamina.capture.machine.origins import call_natively, step_natively
from lamina.capture.machine.signals import Value
from lamina.capture.values.attributes import find_in_type, is_native_type, is_python_method
from lamina.capture.values.conversions import Arguments, Keywords, Model


class OldSequence:
    """Has only `__getitem__`, so its iterator is that of the old sequence protocol."""

    def __getitem__(self, index: int) -> Value:
        raise IndexError


class Printed:
    """An object as C code may print it: its methods run in the machine."""

    __machine_native__ = True

    def __init__(self, world: Any, value: Value) -> None:
        self.world = world
        self.value = value

    def __str__(self) -> str:
        return str(self.world.to_text(self.value))

    def __repr__(self) -> str:
        return str(self.world.to_repr(self.value))


def prints_in_python(value: Value) -> bool:
    kind = type(value)
    if is_native_type(kind):
        return False
    return any(is_python_method(find_in_type(kind, name)) for name in ("__str__", "__repr__"))


def as_printable(world: Any, value: Value) -> Value:
    """`value`, or what prints like it."""
    if not prints_in_python(value):
        return value
    return type(type(value).__name__, (Printed,), {"__machine_native__": True})(world, value)


FIELD = re.compile(r"%(?:\((.*?)\))?[#0\- +]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?(.)", re.DOTALL)


def printf(world: Any, template: Value, values: Value) -> Value:
    """The right operand of `template % values`, made printable where the template prints a text of it."""
    text = template.decode("latin1") if isinstance(template, bytes) else template
    if type(values) is dict:
        other = {name for name, _, _, sign in FIELD.findall(text) if sign not in "rsa%"}
        return {key: value if key in other else as_printable(world, value) for key, value in values.items()}
    is_tuple = isinstance(values, tuple)
    if not is_tuple and (isinstance(values, dict) or hasattr(type(values), "__getitem__")):
        return values
    given = list(tuple.__iter__(values)) if is_tuple else [values]
    index = 0
    for _, width, precision, sign in FIELD.findall(text):
        if sign == "%":
            continue
        index += (width == "*") + (precision == "*")
        if sign in "rsa" and index < len(given):
            given[index] = as_printable(world, given[index])
        index += 1
    return tuple(given) if is_tuple else given[0]


class Numbering:
    """Counts the fields without a number; mixing both kinds is an error."""

    def __init__(self) -> None:
        self.count = 0
        self.is_automatic: bool | None = None

    def take(self, given: int | None) -> int:
        is_automatic = given is None
        if self.is_automatic is not None and self.is_automatic != is_automatic:
            ways = ["manual field specification", "automatic field numbering"]
            if not is_automatic:
                ways.reverse()
            raise ValueError(f"cannot switch from {ways[0]} to {ways[1]}")
        self.is_automatic = is_automatic
        if given is not None:
            return given
        self.count += 1
        return self.count - 1


def format_text(
    world: Any,
    template: str,
    arguments: Arguments | None,
    keywords: Any,
    numbering: Numbering | None = None,
) -> str:
    """`template.format(*arguments, **keywords)`; `numbering`: of a specification that has fields itself."""
    parts = []
    is_nested = numbering is not None
    numbering = numbering or Numbering()
    fields = call_natively(_string.formatter_parser, template)
    for literal, field, specification, conversion in step_natively(fields):
        parts.append(literal)
        if field is None:
            continue
        value = find_field(world, field, arguments, keywords, numbering)
        if conversion is not None:
            value = convert(world, value, conversion)
        if "{" in specification or "}" in specification:
            if is_nested:
                raise ValueError("Max string recursion exceeded")
            specification = format_text(world, specification, arguments, keywords, numbering)
        parts.append(world.format_value(value, specification))
    filled = [part for part in parts if part]
    return filled[0] if len(filled) == 1 else "".join(filled)


def convert(world: Any, value: Value, conversion: str) -> str:
    if conversion == "s":
        return str(world.to_text(value))
    if conversion not in ("r", "a"):
        raise ValueError(f"Unknown conversion specifier {conversion!r}")
    text = str(world.to_repr(value))
    return text if conversion == "r" else text.encode("ascii", "backslashreplace").decode()


def find_field(
    world: Any, field: str, arguments: Arguments | None, keywords: Any, numbering: Numbering
) -> Value:
    """The value of a replacement field like `0.name[key]`."""
    first, rest = call_natively(_string.formatter_field_name_split, field)
    if first == "" or isinstance(first, int):
        if arguments is None:
            raise ValueError("Format string contains positional fields")
        index = numbering.take(first if isinstance(first, int) else None)
        if index >= len(arguments):
            raise IndexError(f"Replacement index {index} out of range for positional args tuple")
        value = arguments[index]
    else:
        value = world.get_item(keywords, first)
    for is_attribute, name in step_natively(rest):
        value = world.load_attribute(value, name) if is_attribute else world.get_item(value, name)
    return value


def needs_machine(template: str, values: tuple[Value, ...]) -> bool:
    """Whether formatting could run Python code or read attributes."""
    if not all(is_native_type(type(value)) for value in values):
        return True
    try:
        fields = [part[1] or "" for part in _string.formatter_parser(template)]
    except ValueError:
        return False
    return any("." in field or "[" in field for field in fields)


def format_method(world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords) -> Value:
    if not needs_machine(owner, (*arguments, *keywords.values())):
        return world.call_native(native, arguments, keywords)
    return format_text(world, owner, arguments, keywords)


def format_map_method(
    world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords
) -> Value:
    if len(arguments) != 1 or keywords:
        return world.call_native(native, arguments, keywords)
    return format_text(world, owner, None, arguments[0])


def model_print(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    values = tuple(as_printable(world, value) for value in arguments)
    return world.call_native(print, values, keywords)


TEXTS: dict[Any, Model] = {print: model_print}
METHODS: dict[tuple[type, str], Any] = {
    (str, "format"): format_method,
    (str, "format_map"): format_map_method,
}
