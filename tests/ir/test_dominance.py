"""Dominators of random control flow graphs against their definition: every path goes through."""

from __future__ import annotations

import random

import pytest

from lamina.ir.core import Block, Operation, Region
from lamina.ir.dominance import Dominators, reverse_postorder, successors


def random_region(seed: int) -> Region:
    """Up to nine blocks; each ends in up to three jumps anywhere but to the entry."""
    generator = random.Random(seed)
    region = Region([Block() for _ in range(generator.randint(1, 9))])
    for block in region.blocks:
        count = generator.randint(0, 3) if len(region.blocks) > 1 else 0
        targets = [generator.choice(region.blocks[1:]) for _ in range(count)]
        block.append(Operation("t.jump", successors=targets))
    return region


def reachable(entry: Block, without: Block | None = None) -> set[Block]:
    found: set[Block] = set()
    stack = [entry] if entry is not without else []
    while stack:
        block = stack.pop()
        if block in found:
            continue
        found.add(block)
        stack += [each for each in successors(block) if each is not without]
    return found


@pytest.mark.parametrize("seed", range(150))
def test_dominators_match_their_definition(seed: int) -> None:
    region = random_region(seed)
    dominators = Dominators(region)
    entry = region.blocks[0]
    everything = reachable(entry)
    for a in region.blocks:
        cut = reachable(entry, without=a)
        for b in region.blocks:
            expected = b not in everything or (a in everything and (a is b or b not in cut))
            assert dominators.dominates(a, b) == expected


@pytest.mark.parametrize("seed", range(50))
def test_reverse_postorder_puts_a_dominator_first(seed: int) -> None:
    region = random_region(seed)
    order = reverse_postorder(region.blocks[0])
    assert set(order) == reachable(region.blocks[0]) and len(order) == len(set(order))
    dominators = Dominators(region)
    for block in order[1:]:
        assert order.index(dominators.immediate[block]) < order.index(block)
