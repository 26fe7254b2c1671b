"""`cf`: jumps between the blocks of a region, as upstream defines them."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ir.attributes import plain
from lamina.ir.core import Block, Operation, Value
from lamina.ir.record import TERMINATOR, OpRecord
from lamina.ir.types import i1


def branch_operands(operation: Operation) -> list[tuple[Block, tuple[Value, ...]]]:
    """Each successor with the values its block arguments get."""
    if operation.name == "cf.br":
        return [(operation.successors[0], operation.operands)]
    sizes = plain(operation.attributes["operandSegmentSizes"])
    middle = sizes[0] + sizes[1]
    true, false = operation.successors
    return [(true, operation.operands[sizes[0] : middle]), (false, operation.operands[middle:])]


def _verify_branch(operation: Operation) -> None:
    wanted = 1 if operation.name == "cf.br" else 2
    if len(operation.successors) != wanted:
        raise ValueError(f"{operation.name} has {wanted} successors, got {len(operation.successors)}")
    if operation.name == "cf.cond_br":
        sizes = plain(operation.attributes["operandSegmentSizes"])
        if len(sizes) != 3 or sizes[0] != 1 or sum(sizes) != len(operation.operands):
            raise ValueError(f"operandSegmentSizes {sizes} do not divide {len(operation.operands)} operands")
        if operation.operand(0).type is not i1:
            raise ValueError(f"the condition must be i1, got {operation.operand(0).type}")
    for block, values in branch_operands(operation):
        _check_arguments(block, values)


def _check_arguments(block: Block, values: Sequence[Value]) -> None:
    given = [str(value.type) for value in values]
    wanted = [str(argument.type) for argument in block.arguments]
    if given != wanted:
        raise ValueError(f"a successor takes ({', '.join(wanted)}), got ({', '.join(given)})")


RECORDS = (
    OpRecord("cf.br", None, 0, frozenset({TERMINATOR}), verify=_verify_branch),
    OpRecord(
        "cf.cond_br", None, 0, frozenset({TERMINATOR}), ("operandSegmentSizes",), verify=_verify_branch,
        optional=("branch_weights",),
    ),
)  # fmt: skip
