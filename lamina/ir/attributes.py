"""Attributes: constants attached to operations. Frozen records that compare by value.

`attribute(x)` makes one from a plain Python value and `plain(a)` gives the Python value back, so
that passes rarely spell the classes out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.ir.affine import AffineMap
from lamina.ir.sizes import Size, SymbolicSize
from lamina.ir.types import ScalarType, TensorType, Type, VectorType, f64, i64


class Attribute:
    """Base of all attributes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class UnitAttr(Attribute):
    """Present or absent: `unit`."""


@dataclass(frozen=True, slots=True)
class BoolAttr(Attribute):
    """`true` / `false` (MLIR's `i1` integer attribute)."""

    value: bool


@dataclass(frozen=True, slots=True)
class IntegerAttr(Attribute):
    """`5 : i32`; `type` is an integer type or `index`. The value wraps to the type, signed if signless."""

    value: int
    type: ScalarType = i64

    def __post_init__(self) -> None:
        bits = self.type.bits
        if self.type.name[0] == "i" and bits > 1 and not -(1 << bits - 1) <= self.value < 1 << bits - 1:
            wrapped = (self.value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            object.__setattr__(self, "value", wrapped)


@dataclass(frozen=True, slots=True, eq=False)
class FloatAttr(Attribute):
    """`1.5 : f32`, rounded to the type. Equal when the bits are: -0.0 is not 0.0, nan equals the same nan."""

    value: float
    type: ScalarType = f64

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", round_to(float(self.value), self.type))

    def bits(self) -> bytes:
        return struct.pack("<d", self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloatAttr) and self.type is other.type and self.bits() == other.bits()

    def __hash__(self) -> int:
        return hash((self.bits(), self.type.name))


@dataclass(frozen=True, slots=True)
class StringAttr(Attribute):
    """`"text"`."""

    value: str


@dataclass(frozen=True, slots=True)
class TypeAttr(Attribute):
    """A type used as a value."""

    value: Type


@dataclass(frozen=True, slots=True)
class SizeAttr(Attribute):
    """`#lamina.size<"8*s0">`: a size that is known at run time."""

    value: SymbolicSize


@dataclass(frozen=True, slots=True)
class SymbolRefAttr(Attribute):
    """`@name` or `@outer::@inner`."""

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class ArrayAttr(Attribute):
    """`[a, b]`: any attributes."""

    elements: tuple[Attribute, ...]

    def __len__(self) -> int:
        return len(self.elements)


@dataclass(frozen=True, slots=True, eq=False)
class DenseArrayAttr(Attribute):
    """`array<i64: 1, 2>`: plain numbers of one scalar type. Floats are equal when their bits are."""

    values: tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]
    type: ScalarType = i64

    def __post_init__(self) -> None:
        if self.type.is_float:
            object.__setattr__(self, "values", tuple(round_to(float(x), self.type) for x in self.values))

    def _key(self) -> tuple[object, ...]:
        if self.type.is_float:
            return tuple(struct.pack("<d", value) for value in self.values)
        return self.values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DenseArrayAttr) and self.type is other.type and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self._key(), self.type.name))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class DictAttr(Attribute):
    """`{a = 1, b}`: entries in the order given."""

    entries: tuple[tuple[str, Attribute], ...]

    def get(self, key: str) -> Attribute | None:
        return dict(self.entries).get(key)


@dataclass(frozen=True, slots=True)
class AffineMapAttr(Attribute):
    """`affine_map<(d0, d1) -> (d1, d0)>`."""

    map: AffineMap


@dataclass(frozen=True, slots=True)
class OpaqueAttr(Attribute):
    """An attribute of a dialect that has only a spelling: `#linalg.iterator_type<parallel>`."""

    spelling: str


@dataclass(frozen=True, slots=True, eq=False)
class DenseElementsAttr(Attribute):
    """`dense<...> : tensor<4xf32>`: all elements of a tensor or vector, or one for all (a splat).

    `bytes_` holds the elements in row-major order, little endian, each element in `element.bytes`
    bytes (`i1` in one byte); one element for a splat. Equal when bits and type are.
    """

    type: TensorType | VectorType
    bytes_: bytes
    is_splat: bool

    @staticmethod
    def splat(value: float | int | bool, type_: TensorType | VectorType) -> DenseElementsAttr:
        return DenseElementsAttr(type_, encode_scalar(value, type_.element), True)

    @staticmethod
    def from_array(values: np.ndarray[Any, Any], type_: TensorType | VectorType) -> DenseElementsAttr:
        """`values` in the storage dtype of the element type (bf16 as uint16 bits)."""
        return DenseElementsAttr(type_, np.ascontiguousarray(values).tobytes(), False)

    def __post_init__(self) -> None:
        """Elements that are all the same are always a splat, so that equal constants compare equal."""
        width = self.type.element.bytes
        if self.is_splat or len(self.bytes_) < width or self.bytes_[:width] != self.bytes_[-width:]:
            return
        if self.bytes_ == self.bytes_[:width] * (len(self.bytes_) // width):
            object.__setattr__(self, "bytes_", self.bytes_[:width])
            object.__setattr__(self, "is_splat", True)

    def splat_value(self) -> float | int | bool:
        """The one value of a splat as a Python number."""
        if not self.is_splat:
            raise ValueError("not a splat")
        return decode_scalar(self.bytes_, self.type.element)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DenseElementsAttr):
            return NotImplemented
        same_kind = self.type is other.type and self.is_splat == other.is_splat
        return same_kind and self.bytes_ == other.bytes_

    def __hash__(self) -> int:
        return hash((self.bytes_, self.is_splat, str(self.type)))


STORAGE: dict[str, str] = {
    "f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<u2", "i1": "|b1", "i8": "|i1", "i16": "<i2",
    "i32": "<i4", "i64": "<i8", "ui8": "|u1", "ui16": "<u2", "ui32": "<u4", "ui64": "<u8", "index": "<i8",
    "complex<f32>": "<c8", "complex<f64>": "<c16",
}  # fmt: skip
"""NumPy dtype that stores each scalar type (bf16 as its 16 bits)."""


def encode_scalar(value: float | int | bool, type_: ScalarType) -> bytes:
    """The element's bytes; floats are rounded to nearest even, integers wrap."""
    if type_.name == "bf16":
        with np.errstate(over="ignore"):
            return int(round_to_bf16(np.array([value], np.float32))[0]).to_bytes(2, "little")
    if type_.is_integer and type_.name != "i1":
        return (int(value) & ((1 << type_.bits) - 1)).to_bytes(type_.bytes, "little")
    with np.errstate(over="ignore"):
        return np.array([value]).astype(STORAGE[type_.name]).tobytes()


def decode_scalar(data: bytes, type_: ScalarType) -> float | int | bool:
    """The Python number an element's bytes stand for."""
    if type_.name == "bf16":
        return float(bf16_to_f32(np.frombuffer(data, "<u2"))[0])
    value: float | int | bool = np.frombuffer(data, STORAGE[type_.name])[0].item()
    return value


def round_to(value: float, type_: ScalarType) -> float:
    """A Python float rounded to nearest even in a float type; 8-bit floats are left alone."""
    if type_.name == "f32" and not abs(value) > 3.4e38:
        narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
        return narrow
    if type_.name in ("f32", "f16"):
        with np.errstate(over="ignore"):
            return float(np.float32(value) if type_.name == "f32" else np.float16(value))
    if type_.name == "bf16":
        return float(decode_scalar(encode_scalar(value, type_), type_))
    return value


def round_to_bf16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 -> bf16 bits (uint16), to nearest even; nan stays nan."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def bf16_to_f32(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bf16 bits (uint16) -> float32, exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def attribute(value: Any) -> Attribute:
    """An attribute from a plain value: None is `none`, ints are i64, floats f64, lists arrays."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr(value)
    if isinstance(value, int):
        return IntegerAttr(value)
    if isinstance(value, float):
        return FloatAttr(value)
    if isinstance(value, SymbolicSize):
        return SizeAttr(value)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, Type):
        return TypeAttr(value)
    if isinstance(value, AffineMap):
        return AffineMapAttr(value)
    if isinstance(value, Mapping):
        return DictAttr(tuple((key, attribute(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple):
        return ArrayAttr(tuple(map(attribute, value)))
    raise TypeError(f"no attribute for {value!r}")


def plain(value: Attribute) -> Any:
    """The Python value of an attribute; attributes that have none (dense, opaque, unit) stay as they are."""
    match value:
        case BoolAttr(v) | IntegerAttr(v) | FloatAttr(v) | StringAttr(v) | TypeAttr(v) | AffineMapAttr(v):
            return v
        case SizeAttr(v):
            return v
        case ArrayAttr(elements):
            return [plain(element) for element in elements]
        case DenseArrayAttr(values):
            return list(values)
        case DictAttr(entries):
            return {key: plain(entry) for key, entry in entries}
        case SymbolRefAttr():
            return value.name
    return value


def sizes_in(value: Attribute) -> list[SymbolicSize]:
    """The symbolic sizes in an attribute, in order."""
    match value:
        case SizeAttr(size):
            return [size]
        case ArrayAttr(elements):
            return [size for element in elements for size in sizes_in(element)]
        case DictAttr(entries):
            return [size for _, entry in entries for size in sizes_in(entry)]
    return []


def integers(*values: Size) -> DenseArrayAttr | ArrayAttr:
    """`array<i64: ...>`; `[...]` where a value is known only at run time."""
    known = tuple(value for value in values if isinstance(value, int))
    return DenseArrayAttr(known) if len(known) == len(values) else ArrayAttr(tuple(map(attribute, values)))


UNIT = UnitAttr()
ITERATORS = {kind: OpaqueAttr(f"#linalg.iterator_type<{kind}>") for kind in ("parallel", "reduction")}
