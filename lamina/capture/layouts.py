"""Sizes and strides of a dynamic tensor as a guard reads them, and the places that symbols stand at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lamina.capture.generated import Writer
from lamina.capture.sources import Source

SMALLEST_DYNAMIC = 2
"""0 and 1 decide about broadcasting and emptiness: they are always captured as they are."""
LARGEST = 2**62


def bounds_of_int(value: int) -> tuple[int, int | None] | None:
    """The bounds of an int that varies and is now `value`; None where it is captured as it is."""
    if SMALLEST_DYNAMIC <= value <= LARGEST:
        return SMALLEST_DYNAMIC, None
    return (-LARGEST, -1) if -LARGEST <= value <= -1 else None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A symbol's place: dimension `dimension` of the tensor at `source`, or the int there (None)."""

    name: str
    hint: int
    source: Source
    dimension: int | None
    low: int
    high: int | None

    def read(self, writer: Writer) -> str:
        """A local of the function being written that holds the value."""
        value = self.source.expression(writer)
        if self.dimension is None:
            return value
        return writer.read(f"{writer.read(f'{value}.shape')}[{self.dimension}]")

    def describe(self) -> str:
        place = self.source.describe()
        return place if self.dimension is None else f"{place}.shape[{self.dimension}]"

    def range(self) -> str:
        """Its bounds as a message says them."""
        return f"{self.low}.." if self.high is None else f"{self.low}..{self.high}"

    def condition(self, writer: Writer) -> str:
        """The range that the trace took for granted."""
        value = self.read(writer)
        if self.high is not None:
            return f"{self.low} <= {value} <= {self.high}"
        return (
            f"{value} >= {self.low}" if self.dimension is not None else f"{self.low} <= {value} <= {LARGEST}"
        )


@dataclass(slots=True)
class Layout:
    """Sizes and strides of a dynamic tensor: a Leaf or int a size; a stride is an int or that of a dimension
    times its size."""

    sizes: list[Leaf | int]
    strides: list[int | tuple[int, ...]]
    """A stride: a constant, or (constant, dimensions whose sizes multiply it)."""

    def describe(self) -> str:
        """Which sizes may vary."""
        ranges = [
            f"dimension {k} {each.range()}" for k, each in enumerate(self.sizes) if isinstance(each, Leaf)
        ]
        return f"dynamic: {', '.join(ranges)}"

    def conditions(self, writer: Writer, name: str, is_static_known: bool = False) -> list[str]:
        """Tests of rank, sizes and strides of the tensor in the variable `name`.

        is_static_known: the rank, and what is an int here, are checked elsewhere.
        """
        shape = writer.read(f"{name}.shape")
        texts = writer.unpack(shape, len(self.sizes))
        tests = [size.condition(writer) for size in self.sizes if isinstance(size, Leaf)]
        if not is_static_known:
            tests += [
                f"{text} == {size}"
                for text, size in zip(texts, self.sizes, strict=True)
                if isinstance(size, int)
            ]
        if not is_static_known or not all(isinstance(stride, int) for stride in self.strides):
            strides = ", ".join(write_stride(stride, texts) for stride in self.strides)
            tests.append(f"{name}.stride() == ({strides}{',' if len(self.strides) == 1 else ''})")
        return tests

    def static_sizes(self) -> list[int | None]:
        return [size if isinstance(size, int) else None for size in self.sizes]

    def static_strides(self) -> list[int | None]:
        return [stride if isinstance(stride, int) else None for stride in self.strides]


def write_stride(stride: int | tuple[int, ...], sizes: list[str]) -> str:
    """Text of a stride, given the texts of the sizes."""
    if isinstance(stride, int):
        return str(stride)
    factors = [sizes[dimension] for dimension in stride[1:]]
    return " * ".join(factors if stride[0] == 1 else [str(stride[0]), *factors])


def relate_strides(
    sizes: list[Any], values: tuple[int, ...], strides: tuple[int, ...]
) -> list[int | tuple[int, ...]]:
    """Each stride as a constant or as a constant times sizes: the pattern of a dense tensor, permuted or not.

    values: the sizes as they are now. A stride that equals the extent of the next inner dimension (its size
    times its stride) is taken to be that; the guard makes sure that it is.
    """
    found: dict[int, int | tuple[int, ...]] = {}
    inner_first = sorted(range(len(strides)), key=lambda k: (strides[k], values[k]))
    extents: list[tuple[int, int]] = []
    for dimension in inner_first:
        stride = strides[dimension]
        inner = next((k for extent, k in reversed(extents) if extent == stride), None)
        if inner is None or stride in (0, 1):
            found[dimension] = stride
        else:
            found[dimension] = multiply(found[inner], inner, sizes[inner])
        extents.append((values[dimension] * stride, dimension))
    return [found[dimension] for dimension in range(len(strides))]


def multiply(stride: int | tuple[int, ...], dimension: int, size: Any) -> int | tuple[int, ...]:
    if isinstance(size, int):
        return stride * size if isinstance(stride, int) else (stride[0] * size, *stride[1:])
    return (stride, dimension) if isinstance(stride, int) else (*stride, dimension)
