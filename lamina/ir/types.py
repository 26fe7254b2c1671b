"""Types of the IR: interned, so that two equal types are one object and compare by identity.

A size in a shape is an int (static) or a `SymbolicSize` (known at run time; printed as `?`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from lamina.ir.sizes import ANONYMOUS, Size, SymbolicSize, lower_bound


class Type:
    """A type. Make one through its class method `get`, never by calling the class."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ScalarType(Type):
    """`f32`, `bf16`, `i64`, `i1`, `ui8`, `index`, `complex<f32>`, `none`, ...

    `bits` is the width of the value (an `i1` still takes a byte in memory: see `bytes`).
    """

    __slots__ = ("bits", "name")
    _interned: ClassVar[dict[str, ScalarType]] = {}

    name: str
    bits: int

    @classmethod
    def get(cls, name: str, bits: int) -> ScalarType:
        found = cls._interned.get(name)
        if found is None:
            found = cls.__new__(cls)
            found.name, found.bits = name, bits
            cls._interned[name] = found
        return found

    @property
    def is_float(self) -> bool:
        return self.name[0] in "fb" and self.name != "b"

    @property
    def is_integer(self) -> bool:
        """Signless or unsigned integers, `i1` among them; not `index`."""
        return (self.name[0] == "i" and self.name[1].isdigit()) or self.name[:2] == "ui"

    @property
    def bytes(self) -> int:
        """Bytes one element takes in memory."""
        return max(1, self.bits // 8)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return ScalarType.get, (self.name, self.bits)


f64 = ScalarType.get("f64", 64)
f32 = ScalarType.get("f32", 32)
f16 = ScalarType.get("f16", 16)
bf16 = ScalarType.get("bf16", 16)
i1 = ScalarType.get("i1", 1)
i8 = ScalarType.get("i8", 8)
i16 = ScalarType.get("i16", 16)
i32 = ScalarType.get("i32", 32)
i64 = ScalarType.get("i64", 64)
ui8 = ScalarType.get("ui8", 8)
ui16 = ScalarType.get("ui16", 16)
ui32 = ScalarType.get("ui32", 32)
ui64 = ScalarType.get("ui64", 64)
index = ScalarType.get("index", 64)
none = ScalarType.get("none", 0)
complex64 = ScalarType.get("complex<f32>", 64)
complex128 = ScalarType.get("complex<f64>", 128)
complex32 = ScalarType.get("complex<f16>", 32)
f8e4m3fn = ScalarType.get("f8E4M3FN", 8)
f8e5m2 = ScalarType.get("f8E5M2", 8)

SCALARS: dict[str, ScalarType] = dict(ScalarType._interned)
KERNEL_SCALARS = frozenset({f64, f32, f16, bf16, i1, i8, i16, i32, i64})
"""Element types that generated kernels read and write; all others pass through extern ops only."""


Shape: TypeAlias = tuple[Size, ...]


def _dimensions(shape: Shape) -> str:
    return "".join(f"{size if isinstance(size, int) else '?'}x" for size in shape)


def _symbols_suffix(shape: Shape) -> str:
    """The names of symbolic sizes as an encoding attribute, so that text keeps them: `, ["s0"]`."""
    names = [size.name for size in shape if isinstance(size, SymbolicSize)]
    if all(name == ANONYMOUS for name in names):
        return ""
    quoted = ", ".join(f'"{name}"' for name in names)
    return f", [{quoted}]"


def _buffer_symbols_suffix(sizes: Sequence[Size]) -> str:
    """The same for a memref, whose only place for a name is the memory space: `, "s0,s1"`."""
    names = [size.name for size in sizes if isinstance(size, SymbolicSize)]
    return "" if all(name == ANONYMOUS for name in names) else f', "{",".join(names)}"'


class TensorType(Type):
    """`tensor<4x8xf32>`: a value; it has no address and no layout."""

    __slots__ = ("element", "shape")
    _interned: ClassVar[dict[tuple[Shape, ScalarType], TensorType]] = {}

    shape: Shape
    element: ScalarType

    @classmethod
    def get(cls, shape: Shape, element: ScalarType) -> TensorType:
        key = (shape, element)
        found = cls._interned.get(key)
        if found is None:
            found = cls.__new__(cls)
            found.shape, found.element = tuple(shape), element
            cls._interned[key] = found
        return found

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape for code that computes with it; see `numbers`."""
        return numbers(self.shape)

    def __str__(self) -> str:
        return f"tensor<{_dimensions(self.shape)}{self.element}{_symbols_suffix(self.shape)}>"

    def __reduce__(self) -> tuple[object, ...]:
        return TensorType.get, (self.shape, self.element)


class MemRefType(Type):
    """`memref<4x8xf32, strided<[1, 4], offset: 2>>`: a buffer, with strides and offset in elements.

    `strides` is None for the row-major layout with offset 0.
    """

    __slots__ = ("element", "offset", "shape", "strides")
    _interned: ClassVar[dict[tuple[object, ...], MemRefType]] = {}

    shape: Shape
    element: ScalarType
    strides: tuple[Size, ...] | None
    offset: Size

    @classmethod
    def get(
        cls, shape: Shape, element: ScalarType, strides: tuple[Size, ...] | None = None, offset: Size = 0
    ) -> MemRefType:
        shape = tuple(shape)
        if strides is not None and isinstance(offset, int) and offset == 0 and is_row_major(strides, shape):
            strides = None
        key = (shape, element, strides, offset)
        found = cls._interned.get(key)
        if found is None:
            found = cls.__new__(cls)
            found.shape, found.element, found.offset = shape, element, offset
            found.strides = None if strides is None else tuple(strides)
            cls._interned[key] = found
        return found

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape for code that computes with it; see `numbers`."""
        return numbers(self.shape)

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides in elements for code that computes with them; see `numbers`."""
        return numbers(self.layout)

    @property
    def layout(self) -> tuple[Size, ...]:
        """Strides in elements, also of the row-major layout."""
        if self.strides is not None:
            return self.strides
        strides = row_major_strides(self.shape)
        if strides is None:
            raise ValueError(f"{self}: the row-major strides of these sizes are not known")
        return strides

    def __str__(self) -> str:
        layout = ""
        if self.strides is not None:
            strides = ", ".join(str(s) if isinstance(s, int) else "?" for s in self.strides)
            offset = (
                ""
                if self.offset == 0
                else f", offset: {self.offset if isinstance(self.offset, int) else '?'}"
            )
            layout = f", strided<[{strides}]{offset}>"
        symbols = _buffer_symbols_suffix((*self.shape, *(self.strides or ()), self.offset))
        return f"memref<{_dimensions(self.shape)}{self.element}{layout}{symbols}>"

    def __reduce__(self) -> tuple[object, ...]:
        return MemRefType.get, (self.shape, self.element, self.strides, self.offset)


class VectorType(Type):
    """`vector<16xf32>`: static sizes only."""

    __slots__ = ("element", "shape")
    _interned: ClassVar[dict[tuple[tuple[int, ...], ScalarType], VectorType]] = {}

    shape: tuple[int, ...]
    element: ScalarType

    @classmethod
    def get(cls, shape: tuple[int, ...], element: ScalarType) -> VectorType:
        key = (tuple(shape), element)
        found = cls._interned.get(key)
        if found is None:
            found = cls.__new__(cls)
            found.shape, found.element = key
            cls._interned[key] = found
        return found

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"vector<{_dimensions(self.shape)}{self.element}>"

    def __reduce__(self) -> tuple[object, ...]:
        return VectorType.get, (self.shape, self.element)


class FunctionType(Type):
    """`(tensor<4xf32>) -> (tensor<4xf32>)`."""

    __slots__ = ("inputs", "results")
    _interned: ClassVar[dict[tuple[tuple[Type, ...], tuple[Type, ...]], FunctionType]] = {}

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    @classmethod
    def get(cls, inputs: tuple[Type, ...], results: tuple[Type, ...]) -> FunctionType:
        key = (tuple(inputs), tuple(results))
        found = cls._interned.get(key)
        if found is None:
            found = cls.__new__(cls)
            found.inputs, found.results = key
            cls._interned[key] = found
        return found

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        if len(self.results) != 1 or isinstance(self.results[0], FunctionType):
            results = f"({results})"
        return f"({', '.join(map(str, self.inputs))}) -> {results}"

    def __reduce__(self) -> tuple[object, ...]:
        return FunctionType.get, (self.inputs, self.results)


class OpaqueType(Type):
    """A type of a dialect that has only a spelling: `!llvm.ptr`, `!program.handle`, `!llvm.func<...>`."""

    __slots__ = ("spelling",)
    _interned: ClassVar[dict[str, OpaqueType]] = {}

    spelling: str

    @classmethod
    def get(cls, spelling: str) -> OpaqueType:
        found = cls._interned.get(spelling)
        if found is None:
            found = cls.__new__(cls)
            found.spelling = spelling
            cls._interned[spelling] = found
        return found

    def __str__(self) -> str:
        return self.spelling

    def __reduce__(self) -> tuple[object, ...]:
        return OpaqueType.get, (self.spelling,)


pointer = OpaqueType.get("!llvm.ptr")


def numbers(sizes: Sequence[Size]) -> tuple[int, ...]:
    """Sizes for code that computes with them: an expression stands for an int there, with its arithmetic.

    ValueError when one has no name.
    """
    if any(isinstance(size, SymbolicSize) and size.name == ANONYMOUS for size in sizes):
        raise ValueError(f"of sizes {tuple(sizes)} some have no name")
    return tuple(sizes)  # type: ignore[arg-type]


def static_sizes(shape: Shape) -> tuple[int, ...]:
    """The sizes as ints; ValueError when one is symbolic."""
    found = tuple(size for size in shape if isinstance(size, int))
    if len(found) != len(shape):
        raise ValueError(f"sizes {shape} are not all static")
    return found


def row_major_strides(shape: Shape) -> tuple[Size, ...] | None:
    """Strides in elements of a contiguous row-major buffer; None when an inner size has no name or may be 0.

    Sizes of 0 count as 1, as in PyTorch.
    """
    strides: list[Size] = [1] if shape else []
    for size in reversed(shape[1:]):
        if isinstance(size, int):
            size = max(size, 1)
        elif (lower_bound(size) or 0) < 1:
            return None
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def is_row_major(strides: Sequence[Size], shape: Shape) -> bool:
    """Whether these are the row-major strides, whatever the values of symbolic sizes."""
    wanted = row_major_strides(shape)
    return wanted is not None and all(
        a == b if isinstance(a, int) and isinstance(b, int) else a is b
        for a, b in zip(strides, wanted, strict=True)
    )


def element_of(type_: Type) -> ScalarType:
    """The element type of a tensor, memref or vector; a scalar is its own."""
    if isinstance(type_, ScalarType):
        return type_
    if isinstance(type_, TensorType | MemRefType | VectorType):
        return type_.element
    raise TypeError(f"{type_} has no element type")


def with_element(type_: Type, element: ScalarType) -> Type:
    """The same shape over another element type."""
    if isinstance(type_, ScalarType):
        return element
    if isinstance(type_, TensorType):
        return TensorType.get(type_.shape, element)
    if isinstance(type_, VectorType):
        return VectorType.get(type_.shape, element)
    if isinstance(type_, MemRefType):
        return MemRefType.get(type_.shape, element, type_.strides, type_.offset)
    raise TypeError(f"{type_} has no element type")


def element_count(type_: TensorType | MemRefType | VectorType) -> int:
    """Number of elements, an expression where sizes are; see `numbers`."""
    return math.prod(numbers(type_.shape))
