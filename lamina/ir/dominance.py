"""Which blocks come before which on every path: dominators of a region's control flow graph.

Algorithm: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lamina.ir.core import Block, Operation, Region, Value


def successors(block: Block) -> list[Block]:
    """The blocks that the terminator may go to."""
    return block.last.successors if block.last is not None else []


def predecessors(region: Region) -> dict[Block, list[Block]]:
    """For each block the blocks that may go to it, each once."""
    found: dict[Block, list[Block]] = {block: [] for block in region.blocks}
    for block in region.blocks:
        for target in dict.fromkeys(successors(block)):
            found.setdefault(target, []).append(block)
    return found


def reverse_postorder(entry: Block, follow: Callable[[Block], Sequence[Block]] = successors) -> list[Block]:
    """Blocks reachable from `entry`, each before what it leads to, back edges excepted."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(follow(entry)))]
    while stack:
        block, rest = stack[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(follow(following))))
    return order[::-1]


class Dominators:
    """Immediate dominators of the blocks of one region. Unreachable blocks have none."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.order = reverse_postorder(region.blocks[0]) if region.blocks else []
        self._number = {block: number for number, block in enumerate(self.order)}
        self.immediate: dict[Block, Block] = self._compute(predecessors(region))

    def _compute(self, before: Mapping[Block, list[Block]]) -> dict[Block, Block]:
        if not self.order:
            return {}
        entry = self.order[0]
        immediate = {entry: entry}
        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                known = [each for each in before[block] if each in immediate]
                best = known[0]
                for other in known[1:]:
                    best = self._intersect(immediate, best, other)
                if immediate.get(block) is not best:
                    immediate[block] = best
                    changed = True
        return immediate

    def _intersect(self, immediate: Mapping[Block, Block], a: Block, b: Block) -> Block:
        number = self._number
        while a is not b:
            while number[a] > number[b]:
                a = immediate[a]
            while number[b] > number[a]:
                b = immediate[b]
        return a

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether every path from the entry to `b` goes through `a` (`a` itself included)."""
        if b not in self.immediate:
            return True
        if a not in self.immediate:
            return False
        while self._number[b] > self._number[a]:
            b = self.immediate[b]
        return a is b


class Dominance:
    """Whether a value may be used at an operation, through nested regions. Build anew after changes."""

    def __init__(self) -> None:
        self._regions: dict[Region, Dominators] = {}
        self._positions: dict[Block, dict[Operation, int]] = {}

    def of(self, region: Region) -> Dominators:
        found = self._regions.get(region)
        if found is None:
            found = self._regions[region] = Dominators(region)
        return found

    def is_visible(self, value: Value, user: Operation) -> bool:
        """Whether `value` is defined before `user` on every path to it."""
        owner = value.owner
        block = owner.parent if isinstance(owner, Operation) else owner
        if block is None or block.parent is None:
            return False
        inside = ancestor_in(block.parent, user)
        if inside is None or inside.parent is None:
            return False
        if inside.parent is not block:
            return self.of(block.parent).dominates(block, inside.parent)
        if not isinstance(owner, Operation):
            return True
        positions = self._order(block)
        return positions[owner] < positions[inside]

    def _order(self, block: Block) -> dict[Operation, int]:
        found = self._positions.get(block)
        if found is None:
            found = self._positions[block] = {operation: place for place, operation in enumerate(block)}
        return found


def ancestor_in(region: Region, operation: Operation) -> Operation | None:
    """The operation directly in a block of `region` that is or holds `operation`."""
    at: Operation | None = operation
    while at is not None:
        if at.parent is not None and at.parent.parent is region:
            return at
        at = at.parent_op
    return None
