"""Give each arena buffer a byte offset such that buffers alive at once do not overlap.

    %0 = program.alloc {space = "arena"}    =>    %0 = program.alloc {space = "arena", offset = 0}

Lifetimes run from the allocation to the last use of the buffer or a view of it. Buffers are placed
largest first, each in the smallest gap that fits between those alive with it (best fit), which keeps
the arena near the most that is ever alive at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.ir.attributes import attribute, plain
from lamina.ir.core import Operation, Value
from lamina.ir.types import MemRefType
from lamina.passes.program.last_uses import last_uses

NAME = "plan_memory"
ALIGNMENT = 64


@dataclass(slots=True)
class Interval:
    """A buffer's lifetime, in positions of operations, both ends included."""

    buffer: Value
    bytes: int
    first: int
    last: int
    offset: int = 0

    def overlaps(self, other: Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def run(program: Operation) -> int:
    """Plan one `program.func`; returns the bytes of the arena."""
    intervals = lifetimes(program)
    total = place(intervals)
    for interval in intervals:
        owner = interval.buffer.defining_op
        assert owner is not None
        owner.attributes["offset"] = attribute(interval.offset)
    program.attributes["arena_bytes"] = attribute(total)
    return total


def buffer_bytes(type_: MemRefType) -> int:
    """Bytes from the first to the last element of a buffer with non-negative strides."""
    if 0 in type_.shape:
        return 0
    last = sum((size - 1) * step for size, step in zip(type_.sizes, type_.steps, strict=True))
    return (last + 1) * type_.element.bytes


def lifetimes(program: Operation) -> list[Interval]:
    """Lifetimes of the arena buffers, in order of allocation."""
    place = {operation: position for position, operation in enumerate(program.body)}
    last = last_uses(program)
    found: list[Interval] = []
    for operation, first in place.items():
        if operation.name == "program.alloc" and plain(operation.attributes["space"]) == "arena":
            type_ = operation.result.type
            assert isinstance(type_, MemRefType)
            size = buffer_bytes(type_)
            found.append(Interval(operation.result, size, first, place[last[operation.result]]))
    return found


def place(intervals: list[Interval]) -> int:
    """Set the offsets; returns the bytes of the arena."""
    placed: list[Interval] = []
    total = 0
    for interval in sorted(intervals, key=lambda each: (-each.bytes, each.first)):
        taken = sorted(
            (other.offset, other.offset + other.bytes) for other in placed if other.overlaps(interval)
        )
        interval.offset = _best_gap(taken, interval.bytes)
        placed.append(interval)
        total = max(total, interval.offset + interval.bytes)
    return _align(total)


def live_bound(intervals: list[Interval]) -> int:
    """The most bytes alive at once: no plan can be smaller."""
    ends = {interval.first for interval in intervals}
    alive = (sum(_align(each.bytes) for each in intervals if each.first <= at <= each.last) for at in ends)
    return max(alive, default=0)


def _best_gap(taken: list[tuple[int, int]], size: int) -> int:
    best: tuple[int, int] | None = None
    at = 0
    for start, end in taken:
        gap = start - at
        if gap >= size and (best is None or gap < best[0]):
            best = gap, at
        at = max(at, _align(end))
    return at if best is None else best[1]


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
