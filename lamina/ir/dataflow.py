"""Dataflow: facts that flow over the blocks of a region, or sparsely from values to their users.

A dense problem has a lattice (`start`, `join`), a direction, and a `transfer` over single operations; `solve`
runs a worklist in reverse postorder until nothing changes (Kildall 1973; Aho et al., "Compilers", 9.3). With
union as `join` it is a may-problem, with intersection a must-problem. `solve_sparse` keeps one fact a value.
`lamina.ir.facts` has liveness, reaching definitions and available expressions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.dominance import predecessors, reverse_postorder, successors
from lamina.ir.ops.cf import branch_operands

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


@dataclass(frozen=True, slots=True)
class Sparse(Generic[F]):
    """A problem with one fact a value, flowing from operands to results and into block arguments.

    start: nothing known yet, neutral in `join`. unknown: what holds of any value. transfer: facts of the
    results from those of the operands.
    """

    start: F
    unknown: F
    join: Callable[[F, F], F]
    transfer: Callable[[Operation, Sequence[F]], Sequence[F]]


def solve_sparse(problem: Sparse[F], region: Region) -> dict[Value, F]:
    """The facts of the values of one region, nested regions included.

    Block arguments join what jumps give them; arguments of the entry block, of blocks in nested regions, and
    results of operations with regions are unknown.
    """
    facts: dict[Value, F] = {}
    waiting: dict[Operation, None] = {}
    for block in region.blocks:
        for argument in block.arguments:
            facts[argument] = problem.unknown if block is region.blocks[0] else problem.start
        for operation in block:
            for inner in operation.walk():
                waiting[inner] = None
                facts.update(
                    dict.fromkeys(inner.results, problem.unknown if inner.regions else problem.start)
                )
                _forget_arguments(inner, facts, problem.unknown)

    def learn(value: Value, fact: F) -> None:
        joined = problem.join(facts[value], fact)
        if joined != facts[value]:
            facts[value] = joined
            waiting.update(dict.fromkeys(value.users))

    while waiting:
        operation = next(iter(waiting))
        del waiting[operation]
        if operation.successors and operation.name.startswith("cf."):
            for target, values in branch_operands(operation):
                for argument, value in zip(target.arguments, values, strict=True):
                    learn(argument, facts.get(value, problem.unknown))
        elif not operation.regions:
            known = [facts.get(value, problem.unknown) for value in operation.operands]
            for value, fact in zip(operation.results, problem.transfer(operation, known), strict=True):
                learn(value, fact)
    return facts


def _forget_arguments(operation: Operation, facts: dict[Value, F], unknown: F) -> None:
    for region in operation.regions:
        for block in region.blocks:
            facts.update(dict.fromkeys(block.arguments, unknown))
