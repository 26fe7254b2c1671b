"""Spell elementwise operations whose record has an expansion in terms of other operations.

    %1 = lamina.relu6 %0      =>      %1 = arith.minimumf (arith.maximumf %0, 0), 6

The expansion is the record's own `expand`, so an operation added that way needs nothing in any back end.
"""

from __future__ import annotations

from typing import Any

from lamina.ir.core import Builder, Operation
from lamina.ir.ops import record

NAME = "expand"


def run(module: Operation, context: Any = None) -> None:
    """Expand until no operation with an expansion is left."""
    pending = list(module.walk())
    while pending:
        operation = pending.pop()
        found = record(operation.name)
        if found is None or found.expand is None or operation.parent is None:
            continue
        builder = Builder.before_op(operation)
        before = operation.previous
        operation.replace_with([found.expand(builder, operation.operands)])
        made = before.next if before is not None else builder.block.first
        while made is not None and made is not builder.before:
            pending.append(made)
            made = made.next
