"""Compute once what the loops of a kernel compute twice, and load once what memory still holds.

    %0 = arith.muli %i, %n                         %0 = arith.muli %i, %n
    %1 = vector.load %a[%0]                        %1 = vector.load %a[%0]
    scf.for %j ... {                        =>     scf.for %j ... {
      %2 = arith.muli %i, %n                         %4 = arith.addf %1, %1
      %3 = vector.load %a[%2]                      }
      %4 = arith.addf %1, %3
    }

By available expressions: an operation goes where an equal one was computed on every path and, if it reads,
nothing was written since. Buffers may lie over one another, so any write ends every load.
"""

from __future__ import annotations

from collections.abc import Hashable

from lamina.ir.core import Operation, Region
from lamina.ir.facts import available_expressions, expression_of, is_expression, may_write, without_reads
from lamina.ir.passes import Context

NAME = "reuse"


def run(module: Operation, context: Context) -> None:
    """Merge equal computations in every function of the module."""
    for function in module.body:
        for region in function.regions:
            _merge(region, frozenset(), {})


def _merge(region: Region, outside: frozenset[Operation], equal: dict[Hashable, list[Operation]]) -> None:
    """`equal` has the operations seen so far, by what they compute."""
    available = available_expressions(region, outside)
    for block in region.blocks:
        for operation, known, _ in available.walk(block):
            if known is None:
                continue
            if operation.regions:
                # A loop comes back to its beginning after its own writes.
                entering = without_reads(known) if may_write(operation) else known
                for inner in operation.regions:
                    _merge(inner, entering, equal)
            elif is_expression(operation):
                same = equal.setdefault(expression_of(operation), [])
                earlier = next((each for each in same if each in known), None)
                if earlier is None:
                    same.append(operation)
                else:
                    operation.replace_with(earlier.results)
