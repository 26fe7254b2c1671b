"""IR to text: MLIR's generic syntax, at every level. `parse` of what this prints gives an equal module.

Values are numbered, not named after what made them, so that equal kernels print equal text. Numbering
starts anew in each function. Attributes are printed sorted by name, as MLIR does.
"""

from __future__ import annotations

import re

import numpy as np

from lamina.ir.attributes import (
    STORAGE,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    SizeAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
    bf16_to_f32,
    decode_scalar,
)
from lamina.ir.core import Block, Location, Operation, Region, Value
from lamina.ir.ops import IMPLIED
from lamina.ir.text.cursor import escape
from lamina.ir.text.floats import float_to_text
from lamina.ir.types import ScalarType, Type, f64, i1, i64

NAMES = re.compile(r', (?:\[[^]]*\]|"[^"]*")>')
"""The names of sizes at the end of a type."""
BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
ISOLATED_UPSTREAM = frozenset({"builtin.module", "func.func", "llvm.func"})
"""Numbering starts anew in these. Not in our own isolated operations: MLIR, which does not know them, would
see a second definition of the same name."""
LARGE = 100
"""Dense constants of more elements are printed as bytes in hexadecimal."""


def print_module(operation: Operation, *, locations: bool = False, names: bool = True) -> str:
    """The text of an operation and all inside it, ending in a newline.

    names: of sizes that are known at run time. They stand where MLIR has a tensor's encoding and a memref's
    memory space, which casts there must keep: without them the text is MLIR's, but says less.
    """
    text = Printer(locations).print_whole(operation)
    return text if names else NAMES.sub(">", text)


def attribute_to_text(value: Attribute) -> str:
    match value:
        case UnitAttr():
            return "unit"
        case BoolAttr(flag):
            return "true" if flag else "false"
        case IntegerAttr(number, type_):
            if type_ is i1:
                return "true" if number else "false"
            return str(number) if type_ is i64 else f"{number} : {type_}"
        case FloatAttr(number, type_):
            text = float_to_text(number, type_)
            return text if type_ is f64 and not text.startswith("0x") else f"{text} : {type_}"
        case StringAttr(text):
            return f'"{escape(text)}"'
        case TypeAttr(type_):
            return str(type_)
        case SizeAttr(size):
            return f'#lamina.size<"{size}">'
        case ArrayAttr(elements):
            return f"[{', '.join(map(attribute_to_text, elements))}]"
        case SymbolRefAttr(path):
            return "::".join(map(symbol_to_text, path))
        case OpaqueAttr(spelling):
            return spelling
        case AffineMapAttr(map_):
            return f"affine_map<{map_}>"
        case DictAttr(entries):
            return dictionary_to_text(entries)
        case DenseArrayAttr(values, type_):
            if not values:
                return f"array<{type_}>"
            return f"array<{type_}: {', '.join(scalar_to_text(v, type_) for v in values)}>"
        case DenseElementsAttr():
            return f"dense<{_elements_to_text(value)}> : {value.type}"
    raise TypeError(f"no text for {value!r}")


def dictionary_to_text(entries: tuple[tuple[str, Attribute], ...] | list[tuple[str, Attribute]]) -> str:
    parts = []
    for key, value in entries:
        name = key if BARE.match(key) else f'"{escape(key)}"'
        parts.append(name if isinstance(value, UnitAttr) else f"{name} = {attribute_to_text(value)}")
    return f"{{{', '.join(parts)}}}"


def symbol_to_text(name: str) -> str:
    return f"@{name}" if BARE.match(name) else f'@"{escape(name)}"'


def scalar_to_text(value: float | int | bool, type_: ScalarType) -> str:
    if type_ is i1:
        return "true" if value else "false"
    return float_to_text(float(value), type_) if type_.is_float else str(int(value))


def _elements_to_text(value: DenseElementsAttr) -> str:
    element = value.type.element
    if not value.bytes_:
        return ""
    if element.name.startswith("complex"):
        complexes = np.frombuffer(value.bytes_, STORAGE[element.name])
        flat = [_complex_to_text(number, element) for number in complexes]
        return flat[0] if value.is_splat else _nest(flat, value.type.shape)
    if value.is_splat:
        return scalar_to_text(decode_scalar(value.bytes_, element), element)
    if len(value.bytes_) > LARGE * element.bytes and element is not i1:
        return f'"0x{value.bytes_.hex().upper()}"'
    array = np.frombuffer(value.bytes_, STORAGE[element.name])
    numbers = (bf16_to_f32(array) if element.name == "bf16" else array).tolist()
    return _nest([scalar_to_text(number, element) for number in numbers], value.type.shape)


def _complex_to_text(number: complex, type_: ScalarType) -> str:
    part = ScalarType.get(type_.name[8:-1], type_.bits // 2)
    return f"({float_to_text(float(number.real), part)}, {float_to_text(float(number.imag), part)})"


def _nest(flat: list[str], shape: tuple[object, ...]) -> str:
    for size in reversed(shape):
        assert isinstance(size, int)
        flat = [f"[{', '.join(flat[start : start + size])}]" for start in range(0, len(flat), size)]
    return flat[0]


class Printer:
    """Names values and blocks, then prints. One for each text."""

    def __init__(self, locations: bool = False) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self._lines: list[str] = []
        self._types: dict[Type, str] = {}
        self._places: dict[Location, str] = {}
        self._blocks: dict[Block, str] = {}

    def print_whole(self, operation: Operation) -> str:
        self.name_values(operation)
        self._operation(operation, "")
        definitions = [f"#loc{number} = loc({_location_to_text(place)})"
                       for number, place in enumerate(self._places)]  # fmt: skip
        return "\n".join([*self._lines, *definitions]) + "\n"

    def print_line(self, operation: Operation) -> str:
        """One operation without its regions, `name_values` having been called on what holds it."""
        regions = f" ({', '.join('{...}' for _ in operation.regions)})" if operation.regions else ""
        return self._head(operation) + regions + self._tail(operation)

    def name_values(self, operation: Operation) -> None:
        """Give every value in and of `operation` its name."""
        counters = [0, 0]
        self._name_results(operation, counters)
        self._name_regions(operation, counters)

    def _name_results(self, operation: Operation, counters: list[int]) -> None:
        results = operation.results
        if not results:
            return
        name = f"%{counters[0]}"
        counters[0] += 1
        if len(results) == 1:
            self.names[results[0]] = name
            return
        for position, value in enumerate(results):
            self.names[value] = f"{name}#{position}"

    def _name_regions(self, operation: Operation, counters: list[int]) -> None:
        for region in operation.regions:
            inner = [0, 0] if operation.name in ISOLATED_UPSTREAM else counters
            for position, block in enumerate(region.blocks):
                self._blocks[block] = f"^bb{position}"
                for argument in block.arguments:
                    self.names[argument] = f"%arg{inner[1]}"
                    inner[1] += 1
                for child in block:
                    self._name_results(child, inner)
                    if child.regions:
                        self._name_regions(child, inner)

    def _value(self, value: Value) -> str:
        """A value from outside what is printed has no number: it shows as such and does not parse."""
        return self.names.get(value) or "%<outside>"

    def _type(self, type_: Type) -> str:
        text = self._types.get(type_)
        if text is None:
            text = self._types[type_] = str(type_)
        return text

    def _head(self, operation: Operation) -> str:
        results = operation.results
        text = ""
        if results:
            first = self._value(results[0])
            text = f"{first} = " if len(results) == 1 else f"{first.removesuffix('#0')}:{len(results)} = "
        names = self.names
        try:
            operands = ", ".join([names[value] for value in operation._operands])
        except KeyError:
            operands = ", ".join([self._value(value) for value in operation._operands])
        text += f'"{escape(operation.name)}"({operands})'
        if operation.successors:
            text += f"[{', '.join(self._blocks.get(block, '^<outside>') for block in operation.successors)}]"
        return text

    def _tail(self, operation: Operation) -> str:
        entries = list(operation.attributes.items())
        if operation.name in IMPLIED:
            entries += [each for each in IMPLIED[operation.name] if each[0] not in operation.attributes]
        text = f" {dictionary_to_text(sorted(entries, key=_name_of))}" if entries else ""
        inputs = ", ".join([self._type(value.type) for value in operation._operands])
        outputs = ", ".join([self._type(value.type) for value in operation.results])
        if len(operation.results) != 1 or outputs.startswith("("):
            outputs = f"({outputs})"
        text += f" : ({inputs}) -> {outputs}"
        if self.locations and operation.location.file:
            number = self._places.setdefault(operation.location, f"#loc{len(self._places)}")
            text += f" loc({number})"
        return text

    def _operation(self, operation: Operation, indent: str) -> None:
        text = indent + self._head(operation)
        if operation.regions:
            self._lines.append(text + " ({")
            for position, region in enumerate(operation.regions):
                if position:
                    self._lines.append(indent + "}, {")
                self._region(region, indent)
            text = indent + "})"
        self._lines.append(text + self._tail(operation))

    def _region(self, region: Region, indent: str) -> None:
        inner = indent + "  "
        for position, block in enumerate(region.blocks):
            if position or block.arguments or block.first is None or _is_successor(block):
                pairs = [f"{self.names[value]}: {self._type(value.type)}" for value in block.arguments]
                arguments = f"({', '.join(pairs)})" if pairs else ""
                self._lines.append(f"{indent}{self._blocks[block]}{arguments}:")
            for operation in block:
                self._operation(operation, inner)


def _name_of(entry: tuple[str, Attribute]) -> str:
    return entry[0]


def _is_successor(block: Block) -> bool:
    region = block.parent
    return region is not None and any(
        block in other.last.successors for other in region.blocks if other.last is not None
    )


def _location_to_text(place: Location) -> str:
    text = f'"{escape(place.file)}":{place.line}:{place.column}' if place.file else "unknown"
    if not place.callers:
        return text
    first = place.callers[0]
    caller = Location(first.file, first.line, first.column, place.callers[1:])
    return f"callsite({text} at {_location_to_text(caller)})"
