"""The loops of one walk inside of its nest's parallel loops.

    sum of a row of 1000, lanes = 16, unroll = 4   =>   for 0 to 960 step 64: four accumulators
                                                        for 960 to 1000 step 16: masked, the first accumulator
                                                        combine the four, then their lanes

Long sums restart now and then and add up the parts, so that the rounding error stays that of a short sum
(blocked summation: N. J. Higham, "The accuracy of floating point summation", 1993, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lamina.ir.attributes import Attribute
from lamina.ir.core import Value
from lamina.ir.ops.scf import make_for, make_if
from lamina.ir.sizes import Size, is_known_equal
from lamina.ir.types import VectorType, i1, index
from lamina.passes.loops.frame import Frame, Range
from lamina.passes.loops.lanes import WalkBody
from lamina.passes.loops.reductions import across_lanes, combine, compare
from lamina.passes.loops.schedule import Schedule
from lamina.passes.loops.walks import Access, Walk

LONGEST_SUM = 1024
"""An accumulator takes at most about so many elements before it is added to the total and restarts."""
BLOCK = 256
LINE = 64
"""Bytes of a cache line."""
SMALLEST_STREAM = 16
"""Bytes of the smallest vector with a store that goes around the caches."""

Accumulators = list[Value]
"""Those of the first vector, then those of the second, ...: unroll times the outputs that are reduced."""


class WalkLoops:
    """Builds one walk. `ranges`: the parts of dimensions that are walked here, where it is not all."""

    def __init__(
        self,
        walk: Walk,
        plan: Schedule,
        frame: Frame,
        initial: Mapping[Value, Attribute],
        ranges: Mapping[int, Range],
    ) -> None:
        self.walk = walk
        self.plan = plan
        self.frame = frame
        self.initial = initial
        self.ranges = ranges
        self.reduced = [access for access, kind in zip(walk.outputs, walk.kinds, strict=True) if kind]
        self.copies = plan.unroll if plan.inner or frame.is_across else 1

    def build(self) -> None:
        loops = list(self.plan.inner) if self.walk.is_full or not self.frame.is_across else []
        if not self.walk.is_full and self.frame.is_across:
            self._bodies(range(self.frame.unroll), [])
            return
        if not loops:
            self._finish(self._bodies(range(self.copies), self._fresh()))
            return
        self._finish(self._loops(loops, self._fresh(), self._restart(loops)))

    # accumulators

    def _fresh(self) -> Accumulators:
        """The partial results of no elements."""
        found = [self.frame.splat(self.initial[access.buffer], access.element) for access in self.reduced]
        return found * self.copies

    def _groups(self) -> list[tuple[str, int, int]]:
        """(kind, first, last) of the accumulators of one vector that form one partial result."""
        kinds = [kind for kind in self.walk.kinds if kind]
        groups: list[tuple[str, int, int]] = []
        at = 0
        while at < len(kinds):
            width = 2 if kinds[at].startswith("arg") else 1
            groups.append((kinds[at], at, at + width))
            at += width
        return groups

    def _merge(self, first: Sequence[Value], second: Sequence[Value]) -> Accumulators:
        """Two partial results of one vector, or of all vectors side by side, as one."""
        merged: Accumulators = []
        step = len(self.reduced)
        for start in range(0, len(first), step):
            for kind, low, high in self._groups():
                part = slice(start + low, start + high)
                merged += combine(self.frame.inner, kind, first[part], second[part])
        return merged

    def _finish(self, accumulators: Accumulators) -> None:
        """Put the results of reductions into registers."""
        step = len(self.reduced)
        if not step:
            return
        if self.frame.is_across:
            for position, access in enumerate(self.reduced):
                self.frame.registers[access.buffer] = accumulators[position::step]
            return
        parts = [accumulators[start : start + step] for start in range(0, len(accumulators), step)]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [self._merge(a, b) for a, b in pairs] + parts[len(parts) & ~1 :]
        results = parts[0]
        if self.frame.lanes > 1:
            results = [
                value
                for kind, low, high in self._groups()
                for value in across_lanes(self.frame.inner, kind, parts[0][low:high])
            ]
        for access, value in zip(self.reduced, results, strict=True):
            self.frame.registers[access.buffer] = [value]

    # loops

    def _restart(self, loops: Sequence[int]) -> int:
        """The position in `loops` whose iterations (or blocks of them) each sum on their own; -1: none do."""
        if not any(kind in ("add", "mul") and access.element.is_float for access, kind in self._sums()):
            return -1
        counts = [self.walk.sizes[dim] for dim in loops]
        if not self.frame.is_across:
            counts[-1] = -(-counts[-1] // (self.frame.lanes * self.copies))
        if _is_short(math.prod(counts)):
            return -1
        for position in range(len(loops)):
            if _is_short(math.prod(counts[position + 1 :])):
                return position
        return len(loops) - 1

    def _sums(self) -> list[tuple[Access, str]]:
        return [(a, kind) for a, kind in zip(self.walk.outputs, self.walk.kinds, strict=True) if kind]

    def _loops(self, loops: Sequence[int], carried: Accumulators, restart: int) -> Accumulators:
        if not loops:
            return self._bodies(range(self.copies), carried)
        is_vector = len(loops) == 1 and not self.frame.is_across
        if restart == 0:
            return self._restarting(loops, carried, is_vector=is_vector)
        if is_vector:
            whole = (0, self.walk.sizes[loops[0]])
            return self._vector_loop(loops[0], self.ranges.get(loops[0], whole), carried)
        number = self.frame.number
        part = self.ranges.get(loops[0])
        first = part.first if part is not None else number(0)
        last = part.last if part is not None else number(self.walk.sizes[loops[0]])
        bounds = (first, last, 1)
        return self._for(
            bounds, loops[0], carried, lambda inside: self._loops(loops[1:], inside, restart - 1)
        )

    def _restarting(self, loops: Sequence[int], carried: Accumulators, *, is_vector: bool) -> Accumulators:
        """Sum every block of the first loop on its own, and add the parts up."""
        dim = loops[0]
        size, number = self.walk.sizes[dim], self.frame.number
        below = math.prod(self.walk.sizes[inner] for inner in loops[1:]) if not is_vector else 1
        step = self.frame.lanes * self.copies if is_vector else 1
        block = step * max(1, BLOCK // max(below, 1))

        def inside(total: Accumulators) -> Accumulators:
            first = self._counter
            last = self.frame.inner.value("arith.addi", (first, number(block)), index)
            is_even = size % block == 0
            if not is_even:
                last = self.frame.inner.value("arith.minsi", (last, number(size)), index)
            if is_vector:
                part = self._vector_loop(dim, Range(first, last, is_even), self._fresh())
            else:
                part = self._for(
                    (first, last, 1), dim, self._fresh(), lambda parts: self._loops(loops[1:], parts, -1)
                )
            return self._merge(total, part)

        return self._for((number(0), number(size), block), None, carried, inside)

    def _for(
        self,
        bounds: tuple[Value, Value, int],
        dim: int | None,
        carried: Accumulators,
        inside: Callable[[Accumulators], Accumulators],
    ) -> Accumulators:
        """One `scf.for`; its counter is that of `dim`."""
        frame = self.frame
        outer = frame.inner
        loop = make_for(outer, bounds[0], bounds[1], frame.number(bounds[2]), carried)
        frame.push(loop.body)
        counter, *old = loop.body.arguments
        self._counter = counter
        if dim is not None:
            frame.counters[dim] = (counter, len(frame.levels) - 1)
        frame.inner.op("scf.yield", inside(list(old)))
        frame.pop()
        outer.insert(loop)
        return list(loop.results)

    def _vector_loop(self, dim: int, bounds: Range | tuple[int, int], carried: Accumulators) -> Accumulators:
        """The loop that the lanes walk: full steps, then what is left."""
        step = self.frame.lanes * self.copies
        number = self.frame.number
        if not isinstance(bounds, Range):
            first, last = bounds
            middle = first + (last - first) // step * step
            if not is_known_equal(middle, first):
                carried = self._full_steps(dim, (number(first), number(middle), step), carried)
            if not is_known_equal(last, middle):
                is_whole = (last - middle) % self.frame.lanes == 0
                carried = self._rest(dim, (number(middle), number(last)), carried, is_whole=is_whole)
            return carried
        start, end = bounds.first, bounds.last
        if bounds.is_full:
            return self._full_steps(dim, (start, end, step), carried)
        builder = self.frame.inner
        length = builder.value("arith.subi", (end, start), index)
        left = builder.value("arith.remui", (length, number(step)), index)
        even = builder.value("arith.subi", (end, left), index)
        carried = self._full_steps(dim, (start, even, step), carried)
        return self._rest(dim, (even, end), carried, is_whole=False)

    def _full_steps(self, dim: int, bounds: tuple[Value, Value, int], carried: Accumulators) -> Accumulators:
        streamed = self._streamed()
        if not streamed:
            return self._for(bounds, dim, carried, lambda inside: self._bodies(range(self.copies), inside))
        frame = self.frame
        outer = frame.inner
        choice = make_if(outer, self._are_aligned(streamed))
        for region, buffers in zip(choice.regions, (streamed, ()), strict=True):
            frame.push(region.block)
            frame.streamed = frozenset(buffers)
            self._for(bounds, dim, carried, lambda inside: self._bodies(range(self.copies), inside))
            frame.inner.op("scf.yield")
            frame.pop()
        outer.insert(choice)
        return carried

    def _streamed(self) -> list[Value]:
        """The outputs that may be stored past the caches: whole vectors at multiples of their size."""
        if not self.plan.stream or self.frame.lanes == 1 or self.reduced:
            return []
        lanes = self.frame.lanes
        return [
            access.buffer
            for access in self.walk.outputs
            if access.strides[self.frame.vector] == 1
            and not access.is_temporary
            and lanes * access.element.bytes >= SMALLEST_STREAM
            and all(
                stride % lanes == 0
                for dim, stride in enumerate((*access.strides, access.offset))
                if dim != self.frame.vector
            )
        ]

    def _are_aligned(self, buffers: Sequence[Value]) -> Value:
        """Whether the buffers start at whole cache lines, as an i1 built once."""
        frame, level = self.frame, self.frame.levels[0]
        key = ("aligned", *buffers)
        found: Value | None = level.built.get(key)
        if found is None:
            name = "memref.extract_aligned_pointer_as_index"
            addresses = [level.builder.value(name, (buffer,), index) for buffer in buffers]
            together = addresses[0]
            for address in addresses[1:]:
                together = level.builder.value("arith.ori", (together, address), index)
            rest = level.builder.value("arith.andi", (together, frame.number(LINE - 1)), index)
            found = level.built[key] = compare(level.builder, "eq", rest, frame.number(0))
        return found

    def _rest(
        self, dim: int, bounds: tuple[Value, Value], carried: Accumulators, *, is_whole: bool
    ) -> Accumulators:
        """Single vectors, masked when the last may be a part of one; they go to the first accumulators."""
        frame, step = self.frame, len(self.reduced)

        def inside(old: Accumulators) -> Accumulators:
            if is_whole or frame.lanes == 1:
                return self._bodies(range(1), old)
            left = frame.inner.value("arith.subi", (bounds[1], self._counter), index)
            type_ = VectorType.get((frame.lanes,), i1)
            mask = frame.masks[0] = frame.inner.value("vector.create_mask", (left,), type_)
            new = self._bodies(range(1), old)
            del frame.masks[0]
            return [
                frame.inner.value("arith.select", (mask, value, before), value.type)
                for value, before in zip(new, old, strict=True)
            ]

        return self._for((*bounds, frame.lanes), dim, carried[:step], inside) + carried[step:]

    def _bodies(self, copies: range, carried: Accumulators) -> Accumulators:
        """The points of all vectors side by side."""
        body, step = WalkBody(self.walk, self.frame), len(self.reduced)
        new: Accumulators = []
        for copy in copies:
            new += body.build(copy, carried[copy * step : (copy + 1) * step])
        return new


def _is_short(count: Size) -> bool:
    """Whether one accumulator may take so many elements; what is known only at run time may be large."""
    return isinstance(count, int) and count <= LONGEST_SUM
