"""Bring every operation into its simplest form, by equations and rules, until nothing changes.

    %0 = lamina.broadcast dense<2.0> : tensor<f32> to tensor<4x4xf32>
    %1 = arith.divf %x, %0                        %0 = arith.constant dense<0.5> : tensor<4x4xf32>
    %2 = lamina.permute %1 {perm = [0, 1]}   =>   %1 = arith.mulf %x, %0

The rules are listed in `algebra`, `structure` and `casts`; constants are folded, and those of commutative
operations go to the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_commutative, is_pure
from lamina.ir.ops.aten import is_extern
from lamina.ir.passes import Context
from lamina.ir.rewrite import ANY, Pattern, Rewriter, rewrite
from lamina.ir.sizes import ANONYMOUS, SymbolicSize
from lamina.ir.types import TensorType
from lamina.passes.tensor import algebra, casts, structure
from lamina.passes.tensor.equations import Compiled, apply
from lamina.passes.tensor.fold import dense_constant, fold

NAME = "canonicalize"
Rule: TypeAlias = Callable[[Operation, Builder], Value | None]


def run(module: Operation, context: Context) -> None:
    """Rewrite all operations of the module to a fixed point; unused ones go."""
    rewrite(module, [SIMPLIFY], pass_name=NAME)


def _simplify(operation: Operation, rewriter: Rewriter) -> bool:
    """Apply one rule, if any applies."""
    if not _may_change(operation):
        return False
    if _has_constant_left(operation):
        left, right = operation.operands
        rewriter.change(operation, lambda: operation.set_operands([right, left]))
        return True
    return any(rewriter.replace_by(operation, rule) for rule in _rules_of(operation))


SIMPLIFY = Pattern(NAME, ANY, _simplify)


def _may_change(operation: Operation) -> bool:
    if len(operation.results) != 1 or operation.regions or is_extern(operation) or not is_pure(operation):
        return False
    types = [operation.result.type, *(value.type for value in operation.operands)]
    return not any(
        isinstance(size, SymbolicSize) and size.name == ANONYMOUS
        for type_ in types
        if isinstance(type_, TensorType)
        for size in type_.shape
    )


def _has_constant_left(operation: Operation) -> bool:
    if not is_commutative(operation) or len(operation.operands) != 2:
        return False
    left, right = operation.operands
    return dense_constant(left) is not None and dense_constant(right) is None


def _apply(equation: Compiled, operation: Operation, builder: Builder) -> Value | None:
    return apply(equation, operation)


def _rules_of(operation: Operation) -> Iterator[Rule]:
    yield fold
    for equation in algebra.BY_OPERATION.get(operation.name, ()):
        yield partial(_apply, equation)
    yield from casts.BY_OPERATION.get(operation.name, ())
    yield from structure.rules_of(operation)
