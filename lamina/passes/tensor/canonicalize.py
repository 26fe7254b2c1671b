"""Bring every operation into its simplest form, by equations and rules, until nothing changes.

    %0 = lamina.broadcast dense<2.0> : tensor<f32> to tensor<4x4xf32>
    %1 = arith.divf %x, %0                        %0 = arith.constant dense<0.5> : tensor<4x4xf32>
    %2 = lamina.permute %1 {perm = [0, 1]}   =>   %1 = arith.mulf %x, %0

The rules are listed in `algebra`, `structure` and `casts`; constants are folded, and those of commutative
operations go to the right.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_commutative, is_pure
from lamina.ir.ops.aten import is_extern
from lamina.ir.passes import Context
from lamina.ir.types import Symbol, TensorType
from lamina.passes.tensor import algebra, casts, structure
from lamina.passes.tensor.dce import sweep
from lamina.passes.tensor.equations import apply
from lamina.passes.tensor.fold import dense_constant, fold

NAME = "canonicalize"


def run(module: Operation, context: Context) -> None:
    """Rewrite all operations of the module to a fixed point; unused ones go."""
    pending = {operation: None for operation in module.walk() if operation.parent is not None}
    while pending:
        # First in, first out: on the first round producers come before users.
        operation = next(iter(pending))
        del pending[operation]
        if operation.parent is not None and _may_change(operation):
            pending.update(dict.fromkeys(_simplify(operation)))
    for region in module.regions:
        for block in region.blocks:
            sweep(block)


def _may_change(operation: Operation) -> bool:
    if len(operation.results) != 1 or operation.regions or is_extern(operation) or not is_pure(operation):
        return False
    types = [operation.result.type, *(value.type for value in operation.operands)]
    return not any(
        isinstance(size, Symbol) for type_ in types if isinstance(type_, TensorType) for size in type_.shape
    )


def _simplify(operation: Operation) -> Iterator[Operation]:
    """Apply one rule, if any applies; gives the operations to look at again."""
    makers = [maker for value in operation.operands if (maker := value.defining_op) is not None]
    if not operation.result.uses:
        operation.erase()
        yield from makers
        return
    _put_constants_right(operation)
    before, users = operation.previous, operation.result.users
    value = fold(operation)
    if value is None:
        value = _rewrite(operation)
        if value is None:
            return
        yield from _made_between(before, operation)
        operation.replace_with([value])
    yield from users
    yield from makers


def _put_constants_right(operation: Operation) -> None:
    if not is_commutative(operation) or len(operation.operands) != 2:
        return
    left, right = operation.operands
    if dense_constant(left) is not None and dense_constant(right) is None:
        operation.set_operands([right, left])


def _made_between(before: Operation | None, operation: Operation) -> Iterator[Operation]:
    assert operation.parent is not None
    at = operation.parent.first if before is None else before.next
    while at is not None and at is not operation:
        yield at
        at = at.next


def _rewrite(operation: Operation) -> Value | None:
    for compiled in algebra.BY_OPERATION.get(operation.name, ()):
        value = apply(compiled, operation)
        if value is not None:
            return value
    builder = Builder.before_op(operation)
    for rule in (*casts.BY_OPERATION.get(operation.name, ()), *structure.rules_of(operation)):
        value = rule(operation, builder)
        if value is not None:
            return value
    return None
