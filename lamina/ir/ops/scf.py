"""`scf`: structured control flow. One outermost `scf.parallel`, `scf.for` with carried values, `scf.if`."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.ops.linalg import segment_sizes
from lamina.ir.record import TERMINATOR, OpRecord
from lamina.ir.types import index


def make_for(
    builder: Builder, lower: Value, upper: Value, step: Value, carried: Sequence[Value]
) -> Operation:
    """An `scf.for`, not yet inserted; its block takes the induction variable and the carried values."""
    block = Block([index, *(value.type for value in carried)])
    return Operation(
        "scf.for",
        [lower, upper, step, *carried],
        [value.type for value in carried],
        None,
        [Region([block])],
        location=builder.location,
    )


def make_parallel(builder: Builder, lower: Value, upper: Value, step: Value) -> Operation:
    """An `scf.parallel` over one range, not yet inserted, with an empty body that takes the index."""
    return Operation(
        "scf.parallel",
        [lower, upper, step],
        (),
        {"operandSegmentSizes": segment_sizes(1, 1, 1, 0)},
        [Region([Block([index])])],
        location=builder.location,
    )


def make_if(builder: Builder, condition: Value) -> Operation:
    """An `scf.if` without results, not yet inserted, with two empty blocks."""
    regions = [Region([Block()]), Region([Block()])]
    return Operation("scf.if", [condition], (), None, regions, location=builder.location)


def end_parallel(builder: Builder) -> None:
    """The terminator of an `scf.parallel` that reduces nothing."""
    builder.op("scf.reduce")


def _verify_for(operation: Operation) -> None:
    if len(operation.operands) < 3:
        raise ValueError("needs a lower bound, an upper bound and a step")
    carried = [value.type for value in operation.operands[3:]]
    arguments = [argument.type for argument in operation.body.arguments]
    if arguments[1:] != carried or [value.type for value in operation.results] != carried:
        raise ValueError("initial values, block arguments and results must have the same types")
    if [value.type for value in operation.body.terminator.operands] != carried:
        raise ValueError("must yield one value for each carried one, of its type")


def _verify_parallel(operation: Operation) -> None:
    if len(operation.operands) != 3 * len(operation.body.arguments):
        raise ValueError("needs a lower bound, an upper bound and a step for each index")


RECORDS = (
    OpRecord("scf.for", None, None, regions=1, verify=_verify_for),
    OpRecord("scf.if", 1, None, regions=2),
    OpRecord(
        "scf.parallel", None, 0, attributes=("operandSegmentSizes",), regions=1, verify=_verify_parallel
    ),
    OpRecord("scf.reduce", 0, 0, frozenset({TERMINATOR})),
    OpRecord("scf.yield", None, 0, frozenset({TERMINATOR})),
)
