"""Divisions and remainders.

Eager raises on integer division by zero: only divisors known here become kernels.
"""

from __future__ import annotations

from lamina.autograd.lower.dtypes import HALVES, default_float, promote
from lamina.autograd.lower.elementwise import Lowering, second_operand
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir import types
from lamina.ir.core import Value
from lamina.ir.types import ScalarType


def _divide(e: Emitter, call: Call) -> Value | None:
    common = promote([call["self"], call["other"]])
    if common is None:
        return None
    common = common if common.is_float else default_float()
    a = e.operand(call["self"], common, call.shape)
    return e.cast(e.div(a, second_operand(e, call["other"], common, call.shape)), call.element)


def _divide_mode(e: Emitter, call: Call) -> Value | None:
    mode = call["rounding_mode"]
    if mode is None:
        return _divide(e, call)
    common = promote([call["self"], call["other"]])
    if common is None or common in HALVES or common is types.i1:
        return None
    if not common.is_float:
        return _divide_integers(e, call, common, "arith.divsi" if mode == "trunc" else "arith.floordivsi")
    a, b = (e.operand(call[name], common, call.shape) for name in ("self", "other"))
    return e.op("math.trunc", e.div(a, b)) if mode == "trunc" else _floor_divide_floats(e, a, b)


def _divide_integers(e: Emitter, call: Call, common: ScalarType, op: str) -> Value | None:
    """Integer division by a number known here and not 0 nor -1: eager raises or overflows on those."""
    if not _is_safe_divisor(call["other"]):
        return None
    a, b = (e.operand(call[name], common, call.shape) for name in ("self", "other"))
    return e.op(op, a, b)


def _is_safe_divisor(value: object) -> bool:
    return isinstance(value, int) and value not in (0, -1, False)


def _floor_divide(e: Emitter, call: Call) -> Value | None:
    return _divide_mode(e, Call(call.name, {**call.arguments, "rounding_mode": "floor"}, call.results))


def _floor_divide_floats(e: Emitter, a: Value, b: Value) -> Value:
    """Python's floor division as c10 spells it: from the exact remainder, so that it never rounds up."""
    zero, one = e.like(a, 0.0), e.like(a, 1.0)
    remainder = e.op("arith.remf", a, b)
    quotient = e.div(e.sub(a, remainder), b)
    differs = e.op("arith.xori", e.compare("olt", b, zero), e.compare("olt", remainder, zero))
    is_lower = e.op("arith.andi", e.compare("une", remainder, zero), differs)
    quotient = e.select(is_lower, e.sub(quotient, one), quotient)
    floor = e.op("math.floor", quotient)
    floor = e.select(e.compare("ogt", e.sub(quotient, floor), e.like(a, 0.5)), e.add(floor, one), floor)
    floor = e.select(e.compare("oeq", quotient, zero), e.op("math.copysign", zero, e.div(a, b)), floor)
    return e.select(e.compare("oeq", b, zero), e.div(a, b), floor)


def _remainder(e: Emitter, call: Call) -> Value | None:
    common = promote([call["self"], call["other"]])
    if common is None or common in HALVES or common is types.i1:
        return None
    if not common.is_float and not _is_safe_divisor(call["other"]):
        return None
    a, b = (e.operand(call[name], common, call.shape) for name in ("self", "other"))
    zero = e.like(a, 0)
    rest = e.op("arith.remf" if common.is_float else "arith.remsi", a, b)
    differs = e.op("arith.xori", e.compare("olt", b, zero), e.compare("olt", rest, zero))
    return e.select(e.op("arith.andi", e.compare("une", rest, zero), differs), e.add(rest, b), rest)


def _fmod(e: Emitter, call: Call) -> Value | None:
    common = promote([call["self"], call["other"]])
    if common is None or common in HALVES or common is types.i1:
        return None
    if not common.is_float and not _is_safe_divisor(call["other"]):
        return None
    a, b = (e.operand(call[name], common, call.shape) for name in ("self", "other"))
    return e.op("arith.remf" if common.is_float else "arith.remsi", a, b)


LOWERINGS: dict[str, Lowering] = {
    "aten.div.Tensor": _divide,
    "aten.div.Scalar": _divide,
    "aten.div.Tensor_mode": _divide_mode,
    "aten.div.Scalar_mode": _divide_mode,
    "aten.floor_divide.default": _floor_divide,
    "aten.floor_divide.Scalar": _floor_divide,
    "aten.remainder.Tensor": _remainder,
    "aten.remainder.Scalar": _remainder,
    "aten.remainder.Scalar_Tensor": _remainder,
    "aten.fmod.Tensor": _fmod,
    "aten.fmod.Scalar": _fmod,
}
