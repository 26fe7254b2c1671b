"""`math`: elementary functions on scalars, vectors and tensors, as upstream defines them."""

from __future__ import annotations

import math as python_math
from typing import Any

import numpy as np

from lamina.ir.core import Operation
from lamina.ir.ops.arith import boolean_of_same_shape, same_type, verify_same_operands
from lamina.ir.record import ELEMENTWISE, PURE, Meaning, OpRecord
from lamina.ir.types import element_of

Array = Any
TRAITS = frozenset({PURE, ELEMENTWISE})


def _verify_float(operation: Operation) -> None:
    verify_same_operands(operation)
    if not element_of(operation.operand(0).type).is_float:
        raise ValueError(f"needs floating-point operands, got {operation.operand(0).type}")


def _elementwise(function: Meaning) -> Meaning:
    """A scalar Python function over arrays of floats, computed in float64."""

    def apply(*arrays: Array) -> Array:
        wide = [np.asarray(array, np.float64) for array in arrays]
        return np.vectorize(function, otypes=[np.float64])(*wide).astype(arrays[0].dtype)

    return apply


def _round_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _unary(name: str, meaning: Meaning, *torch: str) -> OpRecord:
    return OpRecord(
        f"math.{name}", 1, 1, TRAITS, infer=same_type, meaning=meaning, torch=torch,
        verify=_verify_float, optional=("fastmath",),
    )  # fmt: skip


def _binary(name: str, meaning: Meaning, *torch: str, operands: int = 2) -> OpRecord:
    return OpRecord(
        f"math.{name}", operands, 1, TRAITS, infer=same_type, meaning=meaning, torch=torch,
        verify=_verify_float, optional=("fastmath",),
    )  # fmt: skip


def _predicate(name: str, meaning: Meaning, *torch: str) -> OpRecord:
    return OpRecord(
        f"math.{name}", 1, 1, TRAITS, infer=boolean_of_same_shape, meaning=meaning, torch=torch,
        verify=_verify_float, optional=("fastmath",),
    )  # fmt: skip


RECORDS = (
    _unary("absf", np.abs, "aten.abs.default"),
    OpRecord("math.absi", 1, 1, TRAITS, infer=same_type, meaning=np.abs),
    _unary("ceil", np.ceil, "aten.ceil.default"),
    _unary("floor", np.floor, "aten.floor.default"),
    _unary("trunc", np.trunc, "aten.trunc.default"),
    _unary("round", _round_away),
    _unary("roundeven", np.rint, "aten.round.default"),
    _unary("sqrt", np.sqrt, "aten.sqrt.default"),
    _unary("rsqrt", lambda x: (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype), "aten.rsqrt.default"),
    _unary("cbrt", np.cbrt),
    _unary("exp", np.exp, "aten.exp.default"),
    _unary("exp2", np.exp2, "aten.exp2.default"),
    _unary("expm1", np.expm1, "aten.expm1.default"),
    _unary("log", np.log, "aten.log.default"),
    _unary("log2", np.log2, "aten.log2.default"),
    _unary("log10", np.log10, "aten.log10.default"),
    _unary("log1p", np.log1p, "aten.log1p.default"),
    _unary("sin", np.sin, "aten.sin.default"),
    _unary("cos", np.cos, "aten.cos.default"),
    _unary("tan", np.tan, "aten.tan.default"),
    _unary("asin", np.arcsin, "aten.asin.default"),
    _unary("acos", np.arccos, "aten.acos.default"),
    _unary("atan", np.arctan, "aten.atan.default"),
    _unary("sinh", np.sinh, "aten.sinh.default"),
    _unary("cosh", np.cosh, "aten.cosh.default"),
    _unary("tanh", np.tanh, "aten.tanh.default"),
    _unary("asinh", np.arcsinh, "aten.asinh.default"),
    _unary("acosh", np.arccosh, "aten.acosh.default"),
    _unary("atanh", np.arctanh, "aten.atanh.default"),
    _unary("erf", _elementwise(python_math.erf), "aten.erf.default"),
    _unary("erfc", _elementwise(python_math.erfc), "aten.erfc.default"),
    _binary("atan2", np.arctan2, "aten.atan2.default"),
    _binary("copysign", np.copysign, "aten.copysign.Tensor"),
    _binary("powf", np.power),
    _binary("fma", lambda a, b, c: (a.astype(np.float64) * b + c).astype(a.dtype), operands=3),
    _predicate("isnan", np.isnan, "aten.isnan.default"),
    _predicate("isinf", np.isinf, "aten.isinf.default"),
    _predicate("isfinite", np.isfinite),
)
