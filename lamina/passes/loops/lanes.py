"""The body of a walk on lanes: operations become vector ones where lanes differ, and stay scalar elsewhere.

    yield addf(x[p, r], mulf(b[p], 2.0))      =>      at the loop of p:   %b2 = broadcast (arith.mulf %b, 2.0)
    lanes walk r                                      at the loop of r:   arith.addf (vector.load x), %b2

Every value lives at the loop level of the innermost dimension it depends on, and is built there once. An
index that grows by a constant from lane to lane stays a scalar base (`Affine`): its loads are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina.errors import CompilerBug
from lamina.ir.attributes import IntegerAttr, plain
from lamina.ir.core import Operation, Value
from lamina.ir.types import ScalarType, Type, VectorType, element_of, index
from lamina.passes.loops.accesses import Accesses
from lamina.passes.loops.frame import Affine, Frame, Laned, Lanes, Number, Scalar, scalar_of
from lamina.passes.loops.walks import Access, Walk

DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
)


class WalkBody:
    """Builds a walk's body in a frame, once for each vector side by side."""

    def __init__(self, walk: Walk, frame: Frame) -> None:
        self.walk = walk
        self.frame = frame
        self.accesses = Accesses(walk, frame)
        self.inputs = {access.scalar: access for access in walk.inputs}
        self.outputs = {access.scalar: access for access in walk.outputs}
        self._places: dict[Value, tuple[int, bool]] = {}
        self._accumulators: dict[Value, Value] = {}
        self._copy = 0

    def build(self, copy: int, accumulators: Sequence[Value]) -> list[Value]:
        """Compute one vector's points: store the outputs, give the new values of what is reduced.

        `accumulators` are the old ones, in the order of the outputs that are reduced.
        """
        self._copy = self.accesses.copy = copy
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
            is_scalar = self.accesses.lane_stride(access) == 0
            convert = self.scalar if is_scalar else self.spread
            self.accesses.store(access, convert(laned, access.element))
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
        if operation is None or operation.parent is not self.walk.block:
            return 0, False
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
        if value in self.outputs:
            raise CompilerBug("the old value of an output that is not reduced", stage="vectorize")
        operation = value.defining_op
        if operation is None or operation.parent is not self.walk.block:
            return Scalar(self.frame.outside(value, self.walk.buffers), 0)
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
                values.append(self.spread(operand, element_of(part.type), level))
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

    def spread(self, laned: Laned, element: ScalarType, user: int = -1) -> Value:
        """One value a lane; the scalar itself when there is one lane. user: the level that needs it."""
        frame = self.frame
        if frame.lanes == 1 or isinstance(laned, Lanes):
            return laned.value if isinstance(laned, Lanes) else self.scalar(laned, element)
        if isinstance(laned, Number):
            return frame.splat(laned.value, laned.type)
        type_ = VectorType.get((frame.lanes,), element)
        if isinstance(laned, Affine):
            builder = frame.levels[user].builder
            first = builder.value("vector.broadcast", (laned.base,), type_)
            return builder.value("arith.addi", (first, frame.steps(laned.step, element)), type_)
        level = frame.levels[laned.level]
        found: Value | None = level.built.get(laned)
        if found is None:
            found = level.built[laned] = level.builder.value("vector.broadcast", (laned.value,), type_)
        return found

    # memory

    def _load(self, access: Access, level: int) -> Laned:
        registers = self.frame.registers.get(access.buffer)
        if registers is not None:
            value = registers[self._copy if self.frame.is_across else 0]
            return Lanes(value) if isinstance(value.type, VectorType) else Scalar(value, level)
        address, _ = self.accesses.address(access)
        return self.accesses.read(
            self.accesses.buffer(access), address, self.accesses.lane_stride(access), level
        )

    def _load_at(self, operation: Operation, level: int) -> Laned:
        """A `memref.load` at a place that the body computes."""
        source, place = operation.operand(0), self.laned(operation.operand(1))
        view = source.defining_op
        buffer = view.operand() if view is not None else source
        memory = self.frame.flat(self.walk.buffers.get(buffer, buffer))
        if isinstance(place, Affine):
            return self.accesses.read(memory, place.base, place.step, level)
        if isinstance(place, Lanes):
            return self.accesses.gather(memory, self.frame.number(0), place.value, level)
        return self.accesses.read(memory, self.scalar(place, index), 0, level)
