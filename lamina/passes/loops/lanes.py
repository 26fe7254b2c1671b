"""The body of a walk on lanes: operations become vector ones where lanes differ, and stay scalar elsewhere.

    yield addf(x[p, r], mulf(b[p], 2.0))      =>      at the loop of p:   %b2 = broadcast (arith.mulf %b, 2.0)
    lanes walk r                                      at the loop of r:   arith.addf (vector.load x), %b2

Every value lives at the loop level of the innermost dimension it depends on, and is built there once. An
index that grows by a constant from lane to lane stays a scalar base (`Affine`): its loads are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from lamina.errors import CompilerBug
from lamina.ir.attributes import (
    Attribute,
    BoolAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    plain,
)
from lamina.ir.core import Block, Builder, Operation, Value
from lamina.ir.ops.memref import as_memref, reinterpret
from lamina.ir.types import MemRefType, ScalarType, Type, VectorType, element_of, i1, i32, index
from lamina.passes.loops.walks import Access, Walk

DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
)


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

    def number(self, value: int) -> Value:
        """A constant of type index."""
        return self.constant(IntegerAttr(value, index), index)

    def splat(self, value: Attribute, element: ScalarType) -> Value:
        """A constant in all lanes; a scalar when there is one lane."""
        if self.lanes == 1:
            return self.constant(value, element)
        type_ = VectorType.get((self.lanes,), element)
        return self.constant(DenseElementsAttr.splat(scalar_of(value), type_), type_)

    def steps(self, step: int, element: ScalarType) -> Value:
        """`[0, step, 2 * step, ...]`, one entry a lane."""
        type_ = VectorType.get((self.lanes,), element)
        numbers = np.arange(self.lanes, dtype=np.int64) * step
        dtype = {"i8": "<i1", "i16": "<i2", "i32": "<i4"}.get(element.name, "<i8")
        return self.constant(DenseElementsAttr.from_array(numbers.astype(dtype), type_), type_)

    def add(self, level: int, value: Value, amount: Value | int) -> Value:
        if amount == 0:
            return value
        other = self.number(amount) if isinstance(amount, int) else amount
        return self.levels[level].builder.value("arith.addi", (value, other), index)

    def scale(self, level: int, value: Value, factor: int) -> Value:
        if factor == 1:
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
            found = built[buffer] = reinterpret(self.levels[0].builder, buffer, 0, [span(type_)], [1])
        return found


def span(type_: MemRefType) -> int:
    """Elements from the first to the last one of a buffer."""
    reach = 1
    for size, stride in zip(type_.shape, type_.layout, strict=True):
        if not isinstance(size, int) or not isinstance(stride, int):
            raise CompilerBug(f"{type_} has a symbolic size", stage="vectorize")
        reach += max(size - 1, 0) * stride
    return reach


def scalar_of(value: Attribute) -> float | int | bool:
    if isinstance(value, BoolAttr | IntegerAttr | FloatAttr):
        return value.value
    raise CompilerBug(f"{value} is not a number", stage="vectorize")


class WalkBody:
    """Builds a walk's body in a frame, once for each vector side by side."""

    def __init__(self, walk: Walk, frame: Frame) -> None:
        self.walk = walk
        self.frame = frame
        self.inputs = {access.scalar: access for access in walk.inputs}
        self.outputs = {access.scalar: access for access in walk.outputs}
        self._places: dict[Value, tuple[int, bool]] = {}
        self._accumulators: dict[Value, Value] = {}
        self._copy = 0

    def build(self, copy: int, accumulators: Sequence[Value]) -> list[Value]:
        """Compute one vector's points: store the outputs, give the new values of what is reduced.

        `accumulators` are the old ones, in the order of the outputs that are reduced.
        """
        self._copy = copy
        reduced = [access for access, kind in zip(self.walk.outputs, self.walk.kinds, strict=True) if kind]
        self._accumulators = {
            access.scalar: value for access, value in zip(reduced, accumulators, strict=True)
        }
        results = self.walk.block.terminator.operands
        new: list[Value] = []
        stores: list[tuple[Access, Laned]] = []
        for access, kind, result in zip(self.walk.outputs, self.walk.kinds, results, strict=True):
            laned = self.laned(result)
            if kind:
                new.append(self.spread(laned, element_of(result.type)))
            else:
                stores.append((access, laned))
        for access, laned in stores:
            self._store(access, laned)
        return new

    # where values live

    def _place(self, value: Value) -> tuple[int, bool]:
        """The level a value is built at, and whether lanes differ in it."""
        found = self._places.get(value)
        if found is None:
            found = self._places[value] = self._find_place(value)
        return found

    def _find_place(self, value: Value) -> tuple[int, bool]:
        frame = self.frame
        innermost = len(frame.levels) - 1
        access = self.inputs.get(value)
        if access is not None:
            if access.buffer in frame.registers:
                return frame.outer_level, frame.is_across and frame.lanes > 1
            level, varies = self._place_of_dims(access.dims)
            # What an earlier walk stores must not be read before it has.
            return (innermost if access.buffer in frame.written else level), varies
        if value in self.outputs:
            return innermost, frame.lanes > 1
        operation = value.defining_op
        if operation is None:
            raise CompilerBug("a body uses a value from outside", stage="vectorize")
        if operation.name == "linalg.index":
            return self._place_of_dims({plain(operation.attributes["dim"])})
        operands = operation.operands[1:] if operation.name == "memref.load" else operation.operands
        level, varies = 0, False
        for operand in operands:
            deeper, also = self._place(operand)
            level, varies = max(level, deeper), varies or also
        return level, varies

    def _place_of_dims(self, dims: Any) -> tuple[int, bool]:
        level = max((self.frame.counters[dim][1] for dim in dims if dim in self.frame.counters), default=0)
        return level, self.frame.lanes > 1 and self.frame.vector in dims

    # values

    def laned(self, value: Value) -> Laned:
        """The value of a scalar of the body, built at its level."""
        if value in self._accumulators:
            accumulator = self._accumulators[value]
            if self.frame.lanes > 1:
                return Lanes(accumulator)
            return Scalar(accumulator, len(self.frame.levels) - 1)
        level, varies = self._place(value)
        key = (value, self._copy if varies or self._walks_copies(level) else 0)
        built = self.frame.levels[level].built
        found: Laned | None = built.get(key)
        if found is None:
            found = built[key] = self._build(value, level, varies)
        return found

    def _walks_copies(self, level: int) -> bool:
        """Whether scalar code at this level differs between the points side by side."""
        counter = self.frame.counters.get(self.frame.vector)
        return self.frame.lanes == 1 and counter is not None and level >= counter[1]

    def _build(self, value: Value, level: int, varies: bool) -> Laned:
        access = self.inputs.get(value)
        if access is not None:
            return self._load(access, level)
        operation = value.defining_op
        if operation is None:
            raise CompilerBug("the old value of an output that is not reduced", stage="vectorize")
        builder = self.frame.levels[level].builder
        builder.location = operation.location
        if operation.name == "arith.constant":
            return Number(operation.attributes["value"], element_of(value.type))
        if operation.name == "linalg.index":
            return self._index(plain(operation.attributes["dim"]), level, varies)
        if operation.name == "memref.load":
            return self._load_at(operation, level)
        operands = [self.laned(operand) for operand in operation.operands]
        if not varies:
            values = [
                self.scalar(operand, part.type)
                for operand, part in zip(operands, operation.operands, strict=True)
            ]
            return Scalar(builder.value(operation.name, values, value.type, operation.attributes), level)
        affine = self._affine(operation, operands, level)
        return affine if affine is not None else self._vector(operation, operands, level)

    def _vector(self, operation: Operation, operands: Sequence[Laned], level: int) -> Lanes:
        builder = self.frame.levels[level].builder
        values: list[Value] = []
        for position, (operand, part) in enumerate(zip(operands, operation.operands, strict=True)):
            if position == 0 and operation.name == "arith.select" and isinstance(operand, Scalar):
                values.append(operand.value)
            else:
                values.append(self.spread(operand, element_of(part.type)))
        mask = self.frame.masks.get(self._copy)
        if mask is not None and operation.name in DIVISIONS:
            # Lanes that do not exist must not divide by zero.
            one = self.frame.splat(IntegerAttr(1, element_of(values[1].type)), element_of(values[1].type))
            values[1] = builder.value("arith.select", (mask, values[1], one), values[1].type)
        type_ = VectorType.get((self.frame.lanes,), element_of(operation.result.type))
        return Lanes(builder.value(operation.name, values, type_, operation.attributes))

    def _affine(self, operation: Operation, operands: Sequence[Laned], level: int) -> Laned | None:
        """Index arithmetic that keeps the form `base + step * lane`; None when it does not."""
        if not any(isinstance(operand, Affine) for operand in operands):
            return None
        name = operation.name
        if name == "arith.index_cast":
            return self._cast_affine(operation, operands[0], level)
        if name not in ("arith.addi", "arith.subi", "arith.muli"):
            return None
        if any(isinstance(operand, Lanes) for operand in operands):
            return None
        steps = [operand.step if isinstance(operand, Affine) else 0 for operand in operands]
        if name == "arith.muli":
            factor = operands[1] if isinstance(operands[0], Affine) else operands[0]
            if not isinstance(factor, Number):
                return None
            step = max(steps, key=abs) * int(scalar_of(factor.value))
        else:
            step = steps[0] + steps[1] if name == "arith.addi" else steps[0] - steps[1]
        bases = [
            operand.base if isinstance(operand, Affine) else self.scalar(operand, index)
            for operand in operands
        ]
        return Affine(self.frame.levels[level].builder.value(name, bases, index), step)

    def _cast_affine(self, operation: Operation, operand: Laned, level: int) -> Laned | None:
        element = element_of(operation.result.type)
        if not isinstance(operand, Affine) or not element.is_integer:
            return None
        builder = self.frame.levels[level].builder
        base = builder.value("arith.index_cast", (operand.base,), element)
        type_ = VectorType.get((self.frame.lanes,), element)
        first = builder.value("vector.broadcast", (base,), type_)
        return Lanes(builder.value("arith.addi", (first, self.frame.steps(operand.step, element)), type_))

    def _index(self, dim: int, level: int, varies: bool) -> Laned:
        counter = self.frame.counters[dim][0]
        if dim == self.frame.vector:
            counter = self.frame.add(level, counter, self._copy * self.frame.lanes)
        return Affine(counter, 1) if varies else Scalar(counter, level)

    # conversions

    def scalar(self, laned: Laned, type_: Type) -> Value:
        if isinstance(laned, Scalar):
            return laned.value
        if isinstance(laned, Number):
            return self.frame.constant(laned.value, type_)
        raise CompilerBug("a value with lanes where a scalar is needed", stage="vectorize")

    def spread(self, laned: Laned, element: ScalarType) -> Value:
        """One value a lane; the scalar itself when there is one lane."""
        frame = self.frame
        if frame.lanes == 1 or isinstance(laned, Lanes):
            return laned.value if isinstance(laned, Lanes) else self.scalar(laned, element)
        if isinstance(laned, Number):
            return frame.splat(laned.value, laned.type)
        type_ = VectorType.get((frame.lanes,), element)
        if isinstance(laned, Affine):
            first = frame.inner.value("vector.broadcast", (laned.base,), type_)
            return frame.inner.value("arith.addi", (first, frame.steps(laned.step, element)), type_)
        level = frame.levels[laned.level]
        found: Value | None = level.built.get(laned)
        if found is None:
            found = level.built[laned] = level.builder.value("vector.broadcast", (laned.value,), type_)
        return found

    # memory

    def _address(self, access: Access) -> tuple[Value, int]:
        """The linear address of the first lane's element, and the level it is built at."""
        frame = self.frame
        if access in frame.tiled:
            return self._tile_address(), len(frame.levels) - 1
        is_scratch = access.buffer in frame.scratch
        strides = self._scratch_strides(access) if is_scratch else access.strides
        terms = [
            (frame.counters[dim][1], frame.counters[dim][0], dim, stride)
            for dim, stride in enumerate(strides)
            if stride and dim in frame.counters and not (is_scratch and dim < self.walk.parallel)
        ]
        terms.sort(key=lambda term: term[0])
        address: Value | None = frame.number(access.offset) if access.offset else None
        at = 0
        key: tuple[object, ...] = (access.buffer, access.offset)
        for level, counter, dim, stride in terms:
            key = (*key, dim, stride)
            found: Value | None = frame.levels[level].built.get(key)
            if found is None:
                found = frame.scale(level, counter, stride)
                if address is not None:
                    found = frame.add(level, found, address)
                frame.levels[level].built[key] = found
            address, at = found, level
        if address is None:
            address = frame.number(0)
        apart = frame.lanes * self._copy
        if frame.is_across and is_scratch:
            return frame.add(at, address, apart), at
        return frame.add(at, address, apart * strides[frame.vector] if frame.vector >= 0 else 0), at

    def _tile_address(self) -> Value:
        """The place in the scratch of a tile: rows by lanes, counted from the tile's corner."""
        frame, tile = self.frame, self.frame.tile
        assert tile is not None
        row, at = frame.counters[tile.rows]
        built = frame.levels[at].built
        found: Value | None = built.get(tile)
        if found is None:
            builder = frame.levels[at].builder
            steps = builder.value("arith.subi", (row, tile.along_rows.first), index)
            start = frame.scale(at, steps, tile.edge)
            found = built[tile] = builder.value("arith.subi", (start, tile.along_vector.first), index)
        inner = len(frame.levels) - 1
        place = frame.add(inner, frame.counters[frame.vector][0], found)
        return frame.add(inner, place, frame.lanes * self._copy)

    def _scratch_strides(self, access: Access) -> tuple[int, ...]:
        """In scratch the parallel dimensions are gone; across rows, the lanes side by side are innermost."""
        side = self.frame.lanes * self.frame.unroll if self.frame.is_across else 1
        return tuple(
            0 if dim < self.walk.parallel else stride * side for dim, stride in enumerate(access.strides)
        )

    def _lane_stride(self, access: Access) -> int:
        if self.frame.lanes == 1:
            return 0
        if access in self.frame.tiled or (access.buffer in self.frame.scratch and self.frame.is_across):
            return 1
        return access.strides[self.frame.vector]

    def _buffer(self, access: Access) -> Value:
        tiled = self.frame.tiled.get(access)
        scratch = tiled if tiled is not None else self.frame.scratch.get(access.buffer)
        return scratch if scratch is not None else self.frame.flat(access.buffer)

    def _load(self, access: Access, level: int) -> Laned:
        registers = self.frame.registers.get(access.buffer)
        if registers is not None:
            value = registers[self._copy if self.frame.is_across else 0]
            return Lanes(value) if isinstance(value.type, VectorType) else Scalar(value, level)
        address, _ = self._address(access)
        return self._read(self._buffer(access), address, self._lane_stride(access), level)

    def _read(self, memory: Value, address: Value, stride: int, level: int) -> Laned:
        """Elements `address + stride * lane`."""
        builder, element = self.frame.levels[level].builder, as_memref(memory.type).element
        if stride == 0:
            return Scalar(builder.value("memref.load", (memory, address), element), level)
        type_ = VectorType.get((self.frame.lanes,), element)
        if stride != 1:
            kind = i32 if abs(stride) * self.frame.lanes < 2**31 else index
            return self._gather(memory, address, self.frame.steps(stride, kind), level)
        mask = self.frame.masks.get(self._copy)
        if mask is None:
            return Lanes(builder.value("vector.load", (memory, address), type_))
        return Lanes(
            builder.value("vector.maskedload", (memory, address, mask, self._nothing(element)), type_)
        )

    def _gather(self, memory: Value, address: Value, places: Value, level: int) -> Lanes:
        element = as_memref(memory.type).element
        type_ = VectorType.get((self.frame.lanes,), element)
        operands = (memory, address, places, self._mask(), self._nothing(element))
        return Lanes(self.frame.levels[level].builder.value("vector.gather", operands, type_))

    def _nothing(self, element: ScalarType) -> Value:
        """What a load gives for lanes that do not exist."""
        zero: Attribute = FloatAttr(0.0, element) if element.is_float else IntegerAttr(0, element)
        return self.frame.splat(BoolAttr(False) if element is i1 else zero, element)

    def _mask(self) -> Value:
        mask = self.frame.masks.get(self._copy)
        return mask if mask is not None else self.frame.splat(BoolAttr(True), i1)

    def _load_at(self, operation: Operation, level: int) -> Laned:
        """A `memref.load` at a place that the body computes."""
        source, place = operation.operand(0), self.laned(operation.operand(1))
        view = source.defining_op
        buffer = view.operand() if view is not None else source
        memory = self.frame.flat(self.walk.buffers.get(buffer, buffer))
        if isinstance(place, Affine):
            return self._read(memory, place.base, place.step, level)
        if isinstance(place, Lanes):
            return self._gather(memory, self.frame.number(0), place.value, level)
        return self._read(memory, self.scalar(place, index), 0, level)

    def _store(self, access: Access, laned: Laned) -> None:
        frame, builder = self.frame, self.frame.inner
        memory, stride = self._buffer(access), self._lane_stride(access)
        address, _ = self._address(access)
        if stride == 0:
            value = self.scalar(laned, access.element)
            builder.op("memref.store", (value, memory, address))
            return
        value, mask = self.spread(laned, access.element), frame.masks.get(self._copy)
        if stride != 1:
            kind = i32 if abs(stride) * frame.lanes < 2**31 else index
            builder.op("vector.scatter", (memory, address, frame.steps(stride, kind), self._mask(), value))
        elif mask is None:
            streams = access.buffer in frame.streamed
            attributes = {"nontemporal": True, "alignment": frame.lanes * access.element.bytes}
            builder.op("vector.store", (value, memory, address), (), attributes if streams else None)
        else:
            builder.op("vector.maskedstore", (memory, address, mask, value))
