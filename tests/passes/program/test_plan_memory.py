"""plan_memory: no two buffers alive at once share a byte, and the arena stays near the live bound."""

from __future__ import annotations

import random

import pytest

from lamina.ir.core import Block, Value
from lamina.ir.types import MemRefType, f32
from lamina.passes.program.plan_memory import ALIGNMENT, Interval, live_bound, place


def make_intervals(seed: int, count: int) -> list[Interval]:
    chosen = random.Random(seed)
    intervals = []
    for _ in range(count):
        first = chosen.randrange(100)
        value: Value = Block([MemRefType.get((1,), f32)]).arguments[0]
        intervals.append(
            Interval(value, chosen.choice([0, 4, 100, 4096, 5000]), first, first + chosen.randrange(12))
        )
    return intervals


@pytest.mark.parametrize("seed", range(50))
def test_buffers_alive_together_do_not_overlap(seed: int) -> None:
    intervals = make_intervals(seed, 60)
    total = place(intervals)
    for position, one in enumerate(intervals):
        assert one.offset % ALIGNMENT == 0
        assert one.offset + one.bytes <= total
        for other in intervals[position + 1 :]:
            disjoint = one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
            assert disjoint or not one.overlaps(other)


def test_arena_is_near_the_live_bound() -> None:
    ratios = []
    for seed in range(50):
        intervals = make_intervals(seed, 60)
        ratios.append(place(intervals) / live_bound(intervals))
    assert sum(ratios) / len(ratios) <= 1.10
    assert min(ratios) >= 1.0


def test_a_chain_needs_two_buffers() -> None:
    """Each layer reads the one before: a 20-deep chain holds two buffers, a tenth of all."""
    value: Value = Block([MemRefType.get((1,), f32)]).arguments[0]
    chain = [Interval(value, 4096, layer, layer + 1) for layer in range(20)]
    assert place(chain) == 2 * 4096
