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
from lamina.ir.dominance import Dominators
from lamina.ir.facts import expression_of
from lamina.ir.ops import is_pure, record
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
    dominators = Dominators(region)
    known: dict[Block, Known] = {}
    # Each block comes after its dominators.
    for block in dominators.order:
        closest = dominators.immediate[block]
        known[block] = ChainMap({}, outer if closest is block else known[closest])
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
        key = expression_of(operation)
        earlier = known.get(key)
        if earlier is None:
            known[key] = operation
        else:
            operation.replace_with(earlier.results)
