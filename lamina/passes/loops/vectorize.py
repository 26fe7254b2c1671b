"""Build the loops of a scheduled kernel.

    linalg.generic ins(%x) outs(%m) [parallel, reduction] {maximumf}      outer = [0], parallel = 1,
    linalg.generic ins(%x, %m) outs(%y) [parallel, parallel] {subf}       inner = [1], lanes = 16, unroll = 4
    =>
    scf.parallel (%p) = (0) to (8) {
      %m:4 = scf.for %r = 0 to 1024 step 64 iter_args(...) { vector.load x four times, arith.maximumf }
      %max = vector.reduction <maximumf> (the four combined)
      scf.for %r = 0 to 1024 step 16 { vector.store (vector.load x - %max) }
    }

All walks of a nest run in one outer loop nest: results of reductions are registers, values kept for later
walks are rows of scratch. What is left of a loop after its last full step runs masked, a vector at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lamina.ir.attributes import Attribute
from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.ops.memref import allocate, as_memref
from lamina.ir.ops.scf import end_parallel, make_for, make_parallel
from lamina.ir.types import MemRefType, VectorType, i1, index
from lamina.passes.loops.frame import Frame, Level, Range, Tile
from lamina.passes.loops.schedule import Schedule, read_schedule
from lamina.passes.loops.size_values import SizeValues, size_names
from lamina.passes.loops.tiles import pack, unpack
from lamina.passes.loops.walk_loops import WalkLoops
from lamina.passes.loops.walks import Access, LoopNest, Walk, read_nests

NAME = "vectorize"


def vectorize(function: Operation) -> Operation:
    """The loop-level kernel of a scheduled linalg-level one, a new detached `func.func` of the same type."""
    source = function.body
    block = Block(argument.type for argument in source.arguments)
    end = block.append(Operation("func.return", location=function.location))
    arguments: dict[Value, Value] = dict(zip(source.arguments, block.arguments, strict=True))
    names = size_names(function)
    sizes = dict(zip(names, block.arguments[len(block.arguments) - len(names) :], strict=True))
    first = block.first
    for nest in read_nests(function):
        builder = Builder(block, end, function.location)
        _NestLoops(nest, builder, Builder(block, first), arguments, sizes).build()
    new = Operation("func.func", (), (), None, [Region([block])], location=function.location)
    new.attributes = dict(function.attributes)
    return new


class _NestLoops:
    """The loops over the parallel dimensions of one nest, and its walks inside of them."""

    def __init__(
        self,
        nest: LoopNest,
        builder: Builder,
        constants: Builder,
        arguments: dict[Value, Value],
        sizes: Mapping[str, Value],
    ) -> None:
        self.nest = nest
        self.builder = builder
        self.plans = [read_schedule(walk.operation) for walk in nest.walks]
        self.plan = self.plans[0]
        for walk in nest.walks:
            walk.rename(arguments)
        self.frame = Frame(constants, [Level(builder)], -1, 1, is_across=self.plan.across >= 0)
        self.frame.sizes = SizeValues(constants, sizes)
        self.frame.written = {access.buffer for walk in nest.walks for access in walk.outputs}
        self.initial: dict[Value, Attribute] = {}

    def build(self) -> None:
        if 0 in self.nest.sizes:
            return
        plan = self.plan
        if plan.across >= 0:
            full = next(p for walk, p in zip(self.nest.walks, self.plans, strict=True) if walk.is_full)
            self._set_lanes(plan.across, full)
        collapsed, loops = plan.outer[: plan.parallel], plan.outer[plan.parallel :]
        if plan.rows >= 0:
            collapsed, loops = plan.outer, ()
        if not collapsed and not plan.chunk:
            self._build_outer(loops, {})
            return
        pieces = [dim for dim in (plan.rows, plan.inner[-1] if plan.inner else -1) if plan.chunk and dim >= 0]
        counts = [self._steps(dim) for dim in collapsed]
        counts += [-(-self.nest.sizes[dim] // plan.chunk) for dim in pieces]
        self._build_collapsed(collapsed, pieces, counts, loops)

    def _build_collapsed(
        self, collapsed: Sequence[int], pieces: Sequence[int], counts: Sequence[int], loops: Sequence[int]
    ) -> None:
        """One loop over `collapsed` dimensions and the pieces of others, and the `loops` inside of it."""
        frame, plan, number = self.frame, self.plan, self.frame.number
        bounds = (number(0), number(math.prod(counts)), number(1))
        loop = make_for(self.builder, *bounds, ()) if plan.is_serial else make_parallel(self.builder, *bounds)
        level = frame.push(loop.body)
        frame.levels.pop(0)
        positions = self._delinearize(loop.body.arguments[0], counts)
        for dim, position in zip(collapsed, positions, strict=False):
            frame.counters[dim] = (frame.scale(0, position, self._step(dim)), 0)
        parts = zip(pieces, positions[len(collapsed) :], strict=True)
        self._build_outer(
            loops, {dim: self._piece(position, self.nest.sizes[dim]) for dim, position in parts}
        )
        if plan.is_serial:
            level.builder.op("scf.yield")
        else:
            end_parallel(level.builder)
        self.builder.insert(loop)

    def _set_lanes(self, vector: int, plan: Schedule) -> None:
        self.frame.vector, self.frame.lanes, self.frame.unroll = vector, plan.lanes, plan.unroll

    def _step(self, dim: int) -> int:
        return self.frame.lanes * self.frame.unroll if dim == self.plan.across else 1

    def _steps(self, dim: int) -> int:
        return -(-self.nest.sizes[dim] // self._step(dim))

    def _delinearize(self, position: Value, counts: Sequence[int]) -> list[Value]:
        """The number along each of `counts` of a row-major position."""
        builder, number = self.frame.inner, self.frame.number
        found: list[Value] = []
        for count in reversed(counts[1:]):
            by = number(count)
            found.append(builder.value("arith.remui", (position, by), index))
            position = builder.value("arith.divui", (position, by), index)
        return [position, *reversed(found)][: len(counts)] if counts else []

    def _piece(self, position: Value, size: int) -> Range:
        """A piece of a dimension by its number."""
        builder, chunk = self.frame.inner, self.plan.chunk
        first = self.frame.scale(0, position, chunk)
        last = self.frame.add(0, first, chunk)
        if size % chunk:
            last = builder.value("arith.minsi", (last, self.frame.number(size)), index)
        return Range(first, last, size % chunk == 0)

    def _build_outer(self, loops: Sequence[int], ranges: dict[int, Range]) -> None:
        """The parallel dimensions that are plain loops, then the walks."""
        self._make_scratch()
        self._open(loops, lambda: self._build_walks(ranges))

    def _open(self, loops: Sequence[int], inside: Callable[[], None]) -> None:
        if not loops:
            inside()
            return
        frame, number = self.frame, self.frame.number
        dim = loops[0]
        loop = make_for(frame.inner, number(0), number(self.nest.sizes[dim]), number(self._step(dim)), ())
        outer = frame.inner
        frame.push(loop.body)
        frame.counters[dim] = (loop.body.arguments[0], len(frame.levels) - 1)
        self._open(loops[1:], inside)
        frame.inner.op("scf.yield")
        frame.pop()
        outer.insert(loop)

    def _make_scratch(self) -> None:
        """A row for every value that a walk keeps for later ones."""
        for walk, plan in zip(self.nest.walks, self.plans, strict=True):
            for access, kind in zip(walk.outputs, walk.kinds, strict=True):
                if kind or not access.is_temporary or as_memref(access.buffer.type).rank <= walk.parallel:
                    continue
                side = plan.lanes * plan.unroll if plan.across >= 0 else 1
                count = math.prod(walk.sizes[walk.parallel :]) * side
                row = MemRefType.get((count,), access.element)
                self.frame.scratch[access.buffer] = allocate(self.frame.inner, "memref.alloca", row)

    def _build_walks(self, ranges: dict[int, Range]) -> None:
        self.frame.outer_level = len(self.frame.levels) - 1
        if self.plan.across >= 0:
            self._make_masks()
        for walk, plan in zip(self.nest.walks, self.plans, strict=True):
            if walk.is_initialization:
                self._initialize(walk)
                continue
            if self.plan.across < 0:
                has_lanes = bool(plan.inner)
                self._set_lanes(plan.inner[-1] if has_lanes else -1, plan)
                self.frame.lanes = plan.lanes if has_lanes else 1
            loops = WalkLoops(walk, plan, self.frame, self.initial, ranges)
            if plan.rows < 0:
                loops.build()
            else:
                self._build_tile(walk, loops, ranges)

    def _build_tile(self, walk: Walk, loops: WalkLoops, ranges: dict[int, Range]) -> None:
        """Turn what is read the other way, compute, turn what is written the other way."""
        frame, plan = self.frame, self.plan
        tile = frame.tile = Tile(plan.rows, plan.chunk, ranges[plan.rows], ranges[frame.vector])
        sizes = (walk.sizes[plan.rows], walk.sizes[frame.vector])
        tiled = self._make_tiles(walk)
        for access in tiled:
            if access in walk.inputs:
                pack(frame, access, tile, sizes)
        loops.build()
        for access in tiled:
            if access in walk.outputs:
                unpack(frame, access, tile, sizes)

    def _make_tiles(self, walk: Walk) -> list[Access]:
        """Scratch for what the walk reads and writes across its lanes."""
        frame, plan, vector = self.frame, self.plan, self.frame.vector
        tiled: list[Access] = []
        for access in (*walk.inputs, *walk.outputs):
            is_across = access.strides[plan.rows] == 1 and access.strides[vector] not in (0, 1)
            if is_across and (access in walk.outputs or access.scalar.uses):
                square = MemRefType.get((plan.chunk * plan.chunk,), access.element)
                frame.tiled[access] = allocate(frame.inner, "memref.alloca", square)
                tiled.append(access)
        return tiled

    def _make_masks(self) -> None:
        """Which lanes exist, for each of the vectors side by side."""
        frame, size = self.frame, self.nest.sizes[self.plan.across]
        if frame.lanes == 1 or size % (frame.lanes * frame.unroll) == 0:
            return
        counter = frame.counters[self.plan.across][0]
        left = frame.inner.value("arith.subi", (frame.number(size), counter), index)
        for copy in range(frame.unroll):
            rest = frame.add(frame.outer_level, left, -copy * frame.lanes)
            type_ = VectorType.get((frame.lanes,), i1)
            frame.masks[copy] = frame.inner.value("vector.create_mask", (rest,), type_)

    def _initialize(self, walk: Walk) -> None:
        yielded = walk.block.terminator.operands
        for access, value in zip(walk.outputs, yielded, strict=True):
            source = value.defining_op
            assert source is not None
            self.initial[access.buffer] = source.attributes["value"]
