"""Remove operations whose results nobody uses.

    %0 = math.exp %x
    return %x            =>      return %x

Operations that draw random numbers or have effects stay, used or not: eager would advance the generator.
So do those that raise for some values.
"""

from __future__ import annotations

from lamina.ir.core import Block, Operation
from lamina.ir.ops import is_removable
from lamina.ir.passes import Context

NAME = "dce"


def run(module: Operation, context: Context) -> None:
    """Remove unused pure operations everywhere in the module."""
    for region in module.regions:
        for block in region.blocks:
            sweep(block)


def sweep(block: Block) -> int:
    """Remove unused pure operations of a block, regions inside included; gives how many.

    Going backwards, users go before what they use, so once is enough.
    """
    removed = 0
    for operation in reversed(block):
        is_used = any(value.uses for value in operation.results)
        if operation.results and not is_used and is_removable(operation):
            operation.erase()
            removed += 1
            continue
        removed += sum(sweep(inner) for region in operation.regions for inner in region.blocks)
    return removed
