"""`arith`: integer and floating-point arithmetic on scalars, vectors and tensors, as upstream defines it.

Integers are signless and wrap; signedness is in the operation's name. Division by zero and shifts by
the width or more are undefined upstream: whoever builds them guards them first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lamina.ir.attributes import Attribute, DenseElementsAttr, FloatAttr, IntegerAttr
from lamina.ir.core import Operation
from lamina.ir.record import COMMUTATIVE, CONSTANT, ELEMENTWISE, PURE, Meaning, OpRecord
from lamina.ir.types import Type, element_of, i1, with_element

Array = Any

CMPF = (
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
"""Predicates of `arith.cmpf`, at their number."""
CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Predicates of `arith.cmpi`, at their number."""


def same_type(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (types[0],)


def boolean_of_same_shape(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (with_element(types[0], i1),)


def _second_type(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (types[1],)


def verify_same_operands(operation: Operation) -> None:
    first = operation.operand(0).type
    for value in operation.operands[1:]:
        if value.type is not first:
            raise ValueError(f"operands must have one type, got {first} and {value.type}")


def _verify_float(operation: Operation) -> None:
    verify_same_operands(operation)
    if not element_of(operation.operand(0).type).is_float:
        raise ValueError(f"needs floating-point operands, got {operation.operand(0).type}")


def _verify_integer(operation: Operation) -> None:
    verify_same_operands(operation)
    if element_of(operation.operand(0).type).is_float:
        raise ValueError(f"needs integer operands, got {operation.operand(0).type}")


def _verify_select(operation: Operation) -> None:
    condition, true, false = (value.type for value in operation.operands)
    if true is not false:
        raise ValueError(f"both choices must have one type, got {true} and {false}")
    if condition is not i1 and condition is not with_element(true, i1):
        raise ValueError(f"the condition must be i1 or {with_element(true, i1)}, got {condition}")


def _verify_cast(operation: Operation) -> None:
    source, target = operation.operand(0).type, operation.result.type
    if with_element(source, element_of(target)) is not target:
        raise ValueError(f"a cast keeps the shape, got {source} to {target}")


def _verify_constant(operation: Operation) -> None:
    value, type_ = operation.attributes["value"], operation.result.type
    if isinstance(value, DenseElementsAttr | FloatAttr | IntegerAttr) and value.type is not type_:
        raise ValueError(f"value of type {value.type} for a result of type {type_}")


def _unsigned(values: Array) -> Array:
    return values.view(values.dtype.str.replace("i", "u")) if values.dtype.kind == "i" else values


def _truncated_division(a: Array, b: Array) -> Array:
    # In Python's integers: the absolute value of the least integer does not fit.
    wide_a, wide_b = a.astype(object), np.where(b == 0, 1, b).astype(object)
    quotient = np.abs(wide_a) // np.abs(wide_b)
    return (np.sign(a).astype(object) * np.sign(b).astype(object) * quotient).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    return np.fmod(a, np.where(b == 0, np.ones_like(b), b))


def compare_floats(a: Array, b: Array, *, predicate: int) -> Array:
    """`arith.cmpf`: the first letter says whether nan makes it false (`o`) or true (`u`)."""
    unordered = np.isnan(a) | np.isnan(b)
    name = CMPF[predicate]
    if name in ("false", "true"):
        return np.full(np.shape(a), name == "true")
    if name in ("ord", "uno"):
        return unordered if name == "uno" else ~unordered
    compare = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": a != b}[name[1:]]
    return compare | unordered if name[0] == "u" else compare & ~unordered


def compare_integers(a: Array, b: Array, *, predicate: int) -> Array:
    name = CMPI[predicate]
    if name[0] == "u":
        a, b = _unsigned(a), _unsigned(b)
    operation = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                 "ge": np.greater_equal}[name if len(name) == 2 else name[1:]]  # fmt: skip
    return operation(a, b)


def _float(
    name: str, meaning: Meaning, torch: tuple[str, ...] = (), *, operands: int = 2, swap: bool = False
) -> OpRecord:
    traits = {PURE, ELEMENTWISE} | ({COMMUTATIVE} if swap else set())
    return OpRecord(
        f"arith.{name}", operands, 1, frozenset(traits), infer=same_type, meaning=meaning, torch=torch,
        verify=_verify_float, optional=("fastmath",),
    )  # fmt: skip


def _integer(name: str, meaning: Meaning, *, swap: bool = False) -> OpRecord:
    traits = {PURE, ELEMENTWISE} | ({COMMUTATIVE} if swap else set())
    return OpRecord(
        f"arith.{name}", 2, 1, frozenset(traits), infer=same_type, meaning=meaning, verify=_verify_integer,
        optional=("overflowFlags",),
    )  # fmt: skip


def _cast(name: str, meaning: Meaning | None = None) -> OpRecord:
    """A cast's target type is not a function of its operands: no `infer`; the interpreter casts."""
    return OpRecord(
        f"arith.{name}", 1, 1, frozenset({PURE, ELEMENTWISE}), meaning=meaning, verify=_verify_cast,
        optional=("fastmath", "roundingmode", "nonNeg", "overflowFlags"),
    )  # fmt: skip


CASTS = (
    "extf",
    "truncf",
    "extsi",
    "extui",
    "trunci",
    "sitofp",
    "uitofp",
    "fptosi",
    "fptoui",
    "bitcast",
    "index_cast",
)

RECORDS = (
    OpRecord("arith.constant", 0, 1, frozenset({PURE, CONSTANT}), ("value",), verify=_verify_constant),
    _float("addf", np.add, swap=True),
    _float("subf", np.subtract),
    _float("mulf", np.multiply, swap=True),
    _float("divf", np.divide),
    _float("remf", np.fmod, ("aten.fmod.Tensor",)),
    _float("negf", np.negative, ("aten.neg.default",), operands=1),
    _float("maximumf", np.maximum, ("aten.maximum.default",), swap=True),
    _float("minimumf", np.minimum, ("aten.minimum.default",), swap=True),
    _float("maxnumf", np.fmax, ("aten.fmax.default",), swap=True),
    _float("minnumf", np.fmin, ("aten.fmin.default",), swap=True),
    _integer("addi", np.add, swap=True),
    _integer("subi", np.subtract),
    _integer("muli", np.multiply, swap=True),
    _integer("divsi", _truncated_division),
    _integer("divui", lambda a, b: (_unsigned(a) // np.where(b == 0, 1, _unsigned(b))).astype(a.dtype)),
    _integer("floordivsi", lambda a, b: np.floor_divide(a, np.where(b == 0, np.ones_like(b), b))),
    _integer("remsi", _remainder),
    _integer("remui", lambda a, b: _remainder(_unsigned(a), _unsigned(b)).astype(a.dtype)),
    _integer("andi", np.bitwise_and, swap=True),
    _integer("ori", np.bitwise_or, swap=True),
    _integer("xori", np.bitwise_xor, swap=True),
    _integer("shli", np.left_shift),
    _integer("shrsi", np.right_shift),
    _integer("shrui", lambda a, b: np.right_shift(_unsigned(a), _unsigned(b)).view(a.dtype)),
    _integer("maxsi", np.maximum, swap=True),
    _integer("minsi", np.minimum, swap=True),
    _integer("maxui", lambda a, b: np.maximum(_unsigned(a), _unsigned(b)).view(a.dtype), swap=True),
    _integer("minui", lambda a, b: np.minimum(_unsigned(a), _unsigned(b)).view(a.dtype), swap=True),
    OpRecord(
        "arith.cmpf", 2, 1, frozenset({PURE, ELEMENTWISE}), ("predicate",), infer=boolean_of_same_shape,
        meaning=compare_floats, verify=_verify_float, optional=("fastmath",),
    ),
    OpRecord(
        "arith.cmpi", 2, 1, frozenset({PURE, ELEMENTWISE}), ("predicate",), infer=boolean_of_same_shape,
        meaning=compare_integers, verify=_verify_integer,
    ),
    OpRecord(
        "arith.select", 3, 1, frozenset({PURE, ELEMENTWISE}), infer=_second_type, meaning=np.where,
        verify=_verify_select,
    ),
    *(_cast(name) for name in CASTS),
)  # fmt: skip
