"""Where loops are built: open loops, constants, counters, and what a nest keeps in registers and scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from lamina.errors import CompilerBug
from lamina.ir.attributes import Attribute, BoolAttr, DenseElementsAttr, FloatAttr, IntegerAttr
from lamina.ir.core import Block, Builder, Value
from lamina.ir.ops.memref import as_memref, reinterpret
from lamina.ir.sizes import Size
from lamina.ir.types import MemRefType, ScalarType, Type, VectorType, index
from lamina.passes.loops.size_values import SizeValues
from lamina.passes.loops.walks import Access


@dataclass(frozen=True, slots=True)
class Scalar:
    """The same in every lane."""

    value: Value
    level: int


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: Attribute
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Affine:
    """`base + step * lane`, of type index."""

    base: Value
    step: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """One value a lane."""

    value: Value


Laned: TypeAlias = Scalar | Number | Affine | Lanes


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a dimension: values of type index. `is_full`: its length is that of all others."""

    first: Value
    last: Value
    is_full: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile at hand, `edge` elements along `rows` (sources are contiguous there) and along the lanes."""

    rows: int
    edge: int
    along_rows: Range
    along_vector: Range


@dataclass(slots=True)
class Level:
    """One loop's body while it is built, and what has been built in it."""

    builder: Builder
    built: dict[Any, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Frame:
    """Where code is built: the open loops, their counters, and what a nest has in registers and scratch.

    counters: dimension -> (its counter, the level of its loop). `masks`: the lanes that exist of each of the
    vectors side by side (none: all). `registers` hold the results of reductions, one value for each vector
    side by side; `scratch` the rows of what earlier walks keep; `written` are the buffers that the nest
    stores to, `streamed` those whose stores go around the caches. `tiled`: where the tile of a read is.
    """

    constants: Builder
    levels: list[Level]
    vector: int
    lanes: int
    counters: dict[int, tuple[Value, int]] = field(default_factory=dict)
    outer_level: int = 0
    is_across: bool = False
    unroll: int = 1
    masks: dict[int, Value] = field(default_factory=dict)
    registers: dict[Value, list[Value]] = field(default_factory=dict)
    scratch: dict[Value, Value] = field(default_factory=dict)
    written: set[Value] = field(default_factory=set)
    streamed: frozenset[Value] = frozenset()
    tiled: dict[Access, Value] = field(default_factory=dict)
    tile: Tile | None = None
    known: dict[tuple[Type, Attribute], Value] = field(default_factory=dict)
    sizes: SizeValues | None = None
    """Values of sizes that are known at run time, where the function has some."""

    def push(self, block: Block) -> Level:
        level = Level(Builder(block, location=self.levels[-1].builder.location))
        self.levels.append(level)
        return level

    def pop(self) -> None:
        self.levels.pop()

    @property
    def inner(self) -> Builder:
        return self.levels[-1].builder

    def constant(self, value: Attribute, type_: Type) -> Value:
        """A constant, built once for the whole function."""
        found = self.known.get((type_, value))
        if found is None:
            found = self.constants.value("arith.constant", (), type_, {"value": value})
            self.known[type_, value] = found
        return found

    def number(self, value: Size) -> Value:
        """A constant of type index, or a size known at run time."""
        if isinstance(value, int):
            return self.constant(IntegerAttr(value, index), index)
        if self.sizes is None:
            raise CompilerBug(f"the size {value} has no value in this kernel", stage="vectorize")
        return self.sizes(value)

    def outside(self, value: Value, arguments: Mapping[Value, Value]) -> Value:
        """A value of the old function from outside of a body: an argument, or computed from arguments."""
        found = arguments.get(value) or self.levels[0].built.get(value)
        if found is None:
            operation = value.defining_op
            if operation is None:
                raise CompilerBug("a body uses a value from outside", stage="vectorize")
            operands = [self.outside(operand, arguments) for operand in operation.operands]
            found = self.constants.value(operation.name, operands, value.type, operation.attributes)
            self.levels[0].built[value] = found
        return found

    def splat(self, value: Attribute, element: ScalarType) -> Value:
        """A constant in all lanes; a scalar when there is one lane."""
        if self.lanes == 1:
            return self.constant(value, element)
        type_ = VectorType.get((self.lanes,), element)
        return self.constant(DenseElementsAttr.splat(scalar_of(value), type_), type_)

    def steps(self, step: Size, element: ScalarType) -> Value:
        """`[0, step, 2 * step, ...]`, one entry a lane."""
        type_ = VectorType.get((self.lanes,), element)
        if not isinstance(step, int):
            spread = self.constants.value("vector.broadcast", (self.number(step),), type_)
            return self.constants.value("arith.muli", (spread, self.steps(1, element)), type_)
        numbers = np.arange(self.lanes, dtype=np.int64) * step
        dtype = {"i8": "<i1", "i16": "<i2", "i32": "<i4"}.get(element.name, "<i8")
        return self.constant(DenseElementsAttr.from_array(numbers.astype(dtype), type_), type_)

    def add(self, level: int, value: Value, amount: Value | Size) -> Value:
        if isinstance(amount, int) and amount == 0:
            return value
        other = amount if isinstance(amount, Value) else self.number(amount)
        return self.levels[level].builder.value("arith.addi", (value, other), index)

    def scale(self, level: int, value: Value, factor: Size) -> Value:
        if isinstance(factor, int) and factor == 1:
            return value
        return self.levels[level].builder.value("arith.muli", (value, self.number(factor)), index)

    def flat(self, buffer: Value) -> Value:
        """A buffer from outside as one dimension of consecutive elements."""
        type_ = as_memref(buffer.type)
        if type_.layout == (1,) and type_.offset == 0:
            return buffer
        built = self.levels[0].built
        found: Value | None = built.get(buffer)
        if found is None:
            builder = self.levels[0].builder
            found = built[buffer] = reinterpret(builder, buffer, 0, [span(type_)], [1], self.number)
        return found


def span(type_: MemRefType) -> Size:
    """Elements from the first to the last one of a buffer."""
    reach: Size = 1
    for size, stride in zip(type_.sizes, type_.steps, strict=True):
        reach = reach + (max(size - 1, 0) if isinstance(size, int) else size - 1) * stride
    return reach


def scalar_of(value: Attribute) -> float | int | bool:
    if isinstance(value, BoolAttr | IntegerAttr | FloatAttr):
        return value.value
    raise CompilerBug(f"{value} is not a number", stage="vectorize")
