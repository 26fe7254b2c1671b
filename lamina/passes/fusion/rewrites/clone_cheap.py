"""Give each user its own copy of what costs nothing to compute again: casts, iotas, the arithmetic of
indices.

    %1 = arith.extf %x : bf16 to f32          %1 = arith.extf %x        %2 = math.exp %1
    %2 = math.exp %1                     =>
    %3 = aten.mm(%2, ..)                      %4 = arith.extf %x        %5 = arith.addf %4, ...
    %5 = arith.addf %1, ...

Users in different kernels then read the narrow %x; in one kernel the copies become one again.
"""

from __future__ import annotations

from lamina.ir.core import Block, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.passes.fusion.graph import is_splat, kind_of

CASTS = frozenset(
    f"arith.{name}"
    for name in ("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui")
)
LONGEST_INDEX = 16
"""Index arithmetic of more operations than this is shared."""


def clone_cheap(block: Block) -> None:
    """One pass, users first, so that a copy's own operands are copied after it."""
    for operation in reversed(block):
        if operation.name == "lamina.index":
            _own_index_arithmetic(operation)
        elif operation.name in CASTS or operation.name == "lamina.iota":
            _clone_for_each_user(operation)


def _clone_for_each_user(operation: Operation) -> None:
    if kind_of(operation) == "outside":
        return
    for user in operation.result.users[1:]:
        copy = operation.clone()
        assert operation.parent is not None
        operation.parent.insert(copy, operation)
        for position, value in enumerate(user.operands):
            if value is operation.result:
                user.set_operand(position, copy.result)


def _own_index_arithmetic(operation: Operation) -> None:
    """Copy the elementwise operations behind the indices where others (a check of bounds) use them too."""
    for position in range(1, len(operation.operands)):
        chain = _arithmetic_behind(operation.operand(position))
        shared = any(
            user is not operation and user not in chain for inner in chain for user in inner.result.users
        )
        if not shared or len(chain) > LONGEST_INDEX:
            continue
        mapping: dict[Value, Value] = {}
        for inner in chain:
            assert operation.parent is not None
            operation.parent.insert(inner.clone(mapping), operation)
        operation.set_operand(position, mapping[operation.operand(position)])


def _arithmetic_behind(value: Value) -> dict[Operation, None]:
    """The elementwise operations that compute a value, producers first."""
    found: dict[Operation, None] = {}
    waiting = [value]
    while waiting:
        operation = waiting.pop().defining_op
        if operation is None or is_splat(operation.results[0]) or not is_elementwise(operation):
            continue
        found.pop(operation, None)
        found[operation] = None
        waiting.extend(operation.operands)
        if len(found) > LONGEST_INDEX:
            break
    return dict(reversed(found.items()))
