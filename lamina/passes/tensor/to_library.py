"""Spell tensor operations as library calls, for work that runs once and is not worth a kernel.

%0 = arith.mulf %w, %s      =>      %0 = aten.mul.Tensor(%w, %s)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina.ir.attributes import plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise, record
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.ops.aten import is_extern
from lamina.ir.types import TensorType, i1
from lamina.passes.tensor.library import call
from lamina.passes.tensor.reshape import static_shape
from lamina.passes.tensor.weights import VIEWS

KEPT = VIEWS | {"arith.constant", "tensor.concat"}
"""What the program level has words for."""
ARITHMETIC = {
    "arith.addf": "aten.add.Tensor",
    "arith.subf": "aten.sub.Tensor",
    "arith.mulf": "aten.mul.Tensor",
    "arith.divf": "aten.div.Tensor",
    "arith.addi": "aten.add.Tensor",
    "arith.subi": "aten.sub.Tensor",
    "arith.muli": "aten.mul.Tensor",
    "arith.maxsi": "aten.maximum.default",
    "arith.minsi": "aten.minimum.default",
    "arith.andi": "aten.bitwise_and.Tensor",
    "arith.ori": "aten.bitwise_or.Tensor",
    "arith.xori": "aten.bitwise_xor.Tensor",
    "arith.select": "aten.where.self",
    "math.absi": "aten.abs.default",
}
CASTS = frozenset({"extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi"})
COMPARISONS = {
    "oeq": "eq", "une": "ne", "olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge",
    "eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge",
}  # fmt: skip
"""Predicates whose meaning is torch's."""

Spelling = tuple[str, list[Any], dict[str, Any]]
"""Name, arguments, keywords of a call."""


def can_run(operation: Operation) -> bool:
    """Whether the operation is a library call, has a spelling as one, or needs none."""
    return operation.name in KEPT or is_extern(operation) or _spell(operation) is not None


def to_library(function: Operation) -> None:
    """Replace the computing operations of a function whose operations all `can_run`."""
    for operation in function.body:
        spelling = None if operation.name in KEPT or is_extern(operation) else _spell(operation)
        if spelling is None:
            continue
        name, args, keywords = spelling
        type_ = operation.result.type
        assert isinstance(type_, TensorType)
        value = call(Builder.before_op(operation), name, args, type_, kwargs=keywords)
        operation.replace_with([value])


def _spell(operation: Operation) -> Spelling | None:
    if len(operation.results) != 1 or not isinstance(operation.result.type, TensorType):
        return None
    operands = list(operation.operands)
    structural = STRUCTURAL.get(operation.name)
    if structural is not None:
        return structural(operation, operands)
    if not is_elementwise(operation):
        return None
    element = operation.result.type.element
    dialect, _, name = operation.name.partition(".")
    if dialect == "arith" and name in CASTS:
        # torch has a bool's 1 as 1, extsi and sitofp as -1.
        is_signed_bool = name in ("extsi", "sitofp") and _element(operands[0]) is i1
        is_bit = name == "trunci" and element is i1
        return None if is_signed_bool or is_bit else ("aten._to_copy.default", operands, {"dtype": element})
    if name in ("cmpf", "cmpi"):
        return _spell_comparison(operation, operands)
    if _element(operands[0]) is i1 and name not in ("andi", "ori", "xori", "select"):
        return None
    found = ARITHMETIC.get(operation.name)
    if found is None:
        known = record(operation.name)
        found = known.torch[0] if known is not None and known.torch else None
    return None if found is None else (found, operands, {})


def _spell_comparison(operation: Operation, operands: list[Value]) -> Spelling | None:
    names = CMPF if operation.name == "arith.cmpf" else CMPI
    word = COMPARISONS.get(names[plain(operation.attributes["predicate"])])
    return None if word is None else (f"aten.{word}.Tensor", list(operands), {})


def _spell_index(operation: Operation, operands: list[Value]) -> Spelling:
    dims = plain(operation.attributes["dims"])
    indices: list[Any] = [None] * dims[0] + operands[1:]
    return "aten.index.Tensor", [operands[0], indices], {}


def _spell_iota(operation: Operation, operands: list[Value]) -> Spelling | None:
    shape = static_shape(operation.result)
    if len(shape) != 1:
        return None
    return "aten.arange.default", [shape[0]], {"dtype": _element(operation.result)}


STRUCTURAL: dict[str, Callable[[Operation, list[Value]], Spelling | None]] = {
    "lamina.index": _spell_index,
    "lamina.iota": _spell_iota,
}


def _element(value: Value) -> Any:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return type_.element
