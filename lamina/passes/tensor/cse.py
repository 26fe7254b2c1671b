"""Merge operations that compute the same value.

    %0 = arith.addf %x, %y
    %1 = arith.addf %y, %x      =>      %0 = arith.addf %x, %y
    %2 = arith.mulf %0, %1              %2 = arith.mulf %0, %0

An operation serves the later ones of its block, the regions inside them, and the blocks it dominates.
Random and effectful operations are never merged. Locations do not count.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, MutableMapping

from lamina.ir.core import Block, Operation, Region
from lamina.ir.ops import is_commutative, is_pure, record
from lamina.ir.passes import Context
from lamina.ir.record import ISOLATED

NAME = "cse"
Known = MutableMapping[Hashable, Operation]


def run(module: Operation, context: Context) -> None:
    """Merge equal pure operations everywhere in the module."""
    for region in module.regions:
        _merge_region(region, {})


def _merge_region(region: Region, outer: Known) -> None:
    """Blocks see what their immediate dominator saw; the entry sees `outer`."""
    closest = immediate_dominators(region)
    known: dict[Block, Known] = {}
    for block in reverse_postorder(region.blocks[0]):
        above = known[closest[block]] if block in closest else outer
        known[block] = ChainMap({}, above)
        _merge_block(block, known[block])


def _merge_block(block: Block, known: Known) -> None:
    for operation in block:
        if operation.regions:
            found = record(operation.name)
            isolated = found is not None and ISOLATED in found.traits
            for region in operation.regions:
                _merge_region(region, {} if isolated else ChainMap({}, known))
            continue
        if not operation.results or not is_pure(operation):
            continue
        key = identity(operation)
        earlier = known.get(key)
        if earlier is None:
            known[key] = operation
        else:
            operation.replace_with(earlier.results)


def identity(operation: Operation) -> Hashable:
    """Equal for two operations that compute the same values."""
    operands = [id(value) for value in operation.operands]
    if is_commutative(operation):
        operands.sort()
    types = tuple(id(value.type) for value in operation.results)
    return operation.name, tuple(operands), frozenset(operation.attributes.items()), types


def immediate_dominators(region: Region) -> dict[Block, Block]:
    """The closest block that every way to a block goes through; unreachable blocks are left out.

    Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm.
    """
    entry = region.blocks[0]
    order = reverse_postorder(entry)
    place = {block: k for k, block in enumerate(order)}
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for following in block.terminator.successors if block.last is not None else ():
            before[following].append(block)
    closest = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            ready = [previous for previous in before[block] if previous in closest]
            meeting = ready[0]
            for other in ready[1:]:
                while meeting is not other:
                    if place[meeting] > place[other]:
                        meeting = closest[meeting]
                    else:
                        other = closest[other]
            if closest.get(block) is not meeting:
                closest[block] = meeting
                changed = True
    del closest[entry]
    return closest


def reverse_postorder(entry: Block) -> list[Block]:
    """Blocks reachable from `entry`, each after its dominators."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(entry.last.successors if entry.last is not None else ()))]
    while stack:
        block, following = stack[-1]
        successor = next(following, None)
        if successor is None:
            order.append(block)
            stack.pop()
        elif successor not in seen:
            seen.add(successor)
            stack.append((successor, iter(successor.last.successors if successor.last is not None else ())))
    return order[::-1]
