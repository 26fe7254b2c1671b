"""Dataflow: facts that flow over the blocks of a region.

A dense problem has a lattice (`start`, `join`), a direction, and a `transfer` over single operations; `solve`
runs a worklist in reverse postorder until nothing changes (Kildall 1973; Aho et al., "Compilers", 9.3). With
union as `join` it is a may-problem, with intersection a must-problem.
`lamina.ir.facts` has liveness, reaching definitions and available expressions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from lamina.ir.core import Block, Operation, Region
from lamina.ir.dominance import predecessors, reverse_postorder, successors

F = TypeVar("F")


def _unchanged(source: Block, target: Block, fact: F) -> F:
    """An edge that changes nothing."""
    return fact


@dataclass(frozen=True, slots=True)
class Dataflow(Generic[F]):
    """A dense problem. Facts are immutable values that compare by `==`.

    boundary: the fact where the region is entered (forward) or left (backward). start: the fact of a place
    that nothing has reached yet, neutral in `join`. transfer: the fact on the other side of an operation.
    edge: what becomes of a fact between two blocks, `source` being the one that jumps.
    """

    direction: Literal["forward", "backward"]
    boundary: F
    start: F
    join: Callable[[F, F], F]
    transfer: Callable[[Operation, F], F]
    edge: Callable[[Block, Block, F], F] = _unchanged


@dataclass(frozen=True, slots=True)
class Solution(Generic[F]):
    """Facts at the beginning and the end of every block, in program order whatever the direction."""

    problem: Dataflow[F]
    at_start: Mapping[Block, F]
    at_end: Mapping[Block, F]

    def walk(self, block: Block) -> Iterator[tuple[Operation, F, F]]:
        """The operations of a block in order, each with the facts before and after it."""
        if self.problem.direction == "forward":
            fact = self.at_start[block]
            for operation in block:
                before, fact = fact, self.problem.transfer(operation, fact)
                yield operation, before, fact
            return
        found = []
        fact = self.at_end[block]
        for operation in reversed(block):
            after, fact = fact, self.problem.transfer(operation, fact)
            found.append((operation, fact, after))
        yield from reversed(found)

    def before(self, operation: Operation) -> F:
        return self._find(operation)[0]

    def after(self, operation: Operation) -> F:
        return self._find(operation)[1]

    def _find(self, operation: Operation) -> tuple[F, F]:
        assert operation.parent is not None
        return next((before, after) for at, before, after in self.walk(operation.parent) if at is operation)


def solve(problem: Dataflow[F], region: Region) -> Solution[F]:
    """The least solution over the blocks of one region; nested regions are the business of `transfer`."""
    before = predecessors(region)
    is_forward = problem.direction == "forward"
    sources = before.__getitem__ if is_forward else successors
    targets = successors if is_forward else before.__getitem__
    entering: dict[Block, F] = dict.fromkeys(region.blocks, problem.start)
    leaving: dict[Block, F] = dict(entering)
    order = _order(region, is_forward)
    number = {block: place for place, block in enumerate(order)}
    # A heap of places in the order: a block comes after those it depends on, loops excepted.
    waiting = list(range(len(order)))
    queued = set(waiting)
    while waiting:
        place = heapq.heappop(waiting)
        queued.discard(place)
        block = order[place]
        fact = entering[block] = _entering(problem, block, sources(block), leaving, region)
        for operation in block if is_forward else reversed(block):
            fact = problem.transfer(operation, fact)
        if fact == leaving[block]:
            continue
        leaving[block] = fact
        for target in targets(block):
            if target in number and number[target] not in queued:
                queued.add(number[target])
                heapq.heappush(waiting, number[target])
    return Solution(problem, entering, leaving) if is_forward else Solution(problem, leaving, entering)


def _order(region: Region, is_forward: bool) -> list[Block]:
    """Reverse postorder of what can be reached, as nothing flows out of other blocks; backward all blocks."""
    if not region.blocks:
        return []
    order = reverse_postorder(region.blocks[0])
    if is_forward:
        return order
    reached = set(order)
    return [*reversed(order), *(block for block in region.blocks if block not in reached)]


def _entering(
    problem: Dataflow[F], block: Block, sources: Sequence[Block], leaving: Mapping[Block, F], region: Region
) -> F:
    is_forward = problem.direction == "forward"
    is_boundary = block is region.blocks[0] if is_forward else not sources
    fact = problem.boundary if is_boundary else problem.start
    for source in sources:
        ends = (source, block) if is_forward else (block, source)
        fact = problem.join(fact, problem.edge(*ends, leaving[source]))
    return fact
