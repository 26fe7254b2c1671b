"""Elementwise ATen ops: unary, binary, comparisons, logic, casts, selection.

Integers promote as in eager; half types are computed in f32 and rounded once where eager rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina.autograd.lower.dtypes import (
    HALVES,
    compute_type,
    default_float,
    element,
    holds_all,
    promote,
    shape_of,
)
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir import types
from lamina.ir.core import Value
from lamina.ir.types import ScalarType

Lowering = Callable[[Emitter, Call], Value | None]

FLOAT_UNARY = {
    "sqrt": "math.sqrt",
    "exp": "math.exp",
    "exp2": "math.exp2",
    "expm1": "math.expm1",
    "log": "math.log",
    "log2": "math.log2",
    "log10": "math.log10",
    "log1p": "math.log1p",
    "sin": "math.sin",
    "cos": "math.cos",
    "tan": "math.tan",
    "asin": "math.asin",
    "acos": "math.acos",
    "atan": "math.atan",
    "sinh": "math.sinh",
    "cosh": "math.cosh",
    "tanh": "math.tanh",
    "asinh": "math.asinh",
    "acosh": "math.acosh",
    "atanh": "math.atanh",
    "erf": "math.erf",
    "erfc": "math.erfc",
}
"""aten name -> op; integers and bools become floats first."""

ROUNDING = {"floor": "math.floor", "ceil": "math.ceil", "trunc": "math.trunc", "round": "math.roundeven"}
"""These leave integers as they are."""

COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
BITWISE = {"bitwise_and": "arith.andi", "bitwise_or": "arith.ori", "bitwise_xor": "arith.xori"}


def float_operand(e: Emitter, call: Call, name: str = "self") -> Value:
    """The operand as floats, in the type eager computes in."""
    value: Value = call[name]
    scalar = element(value)
    return e.widen(value if scalar.is_float else e.cast(value, default_float()))


def _float_unary(op: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value:
        return e.cast(e.op(op, float_operand(e, call)), call.element)

    return lower


def _of_float(body: Callable[[Emitter, Value], Value]) -> Lowering:
    """A unary op that makes floats of integers."""

    def lower(e: Emitter, call: Call) -> Value:
        return e.cast(body(e, float_operand(e, call)), call.element)

    return lower


def _rounding(op: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value | None:
        value = call["self"]
        if not element(value).is_float:
            return e.cast(value, call.element)
        return e.cast(e.op(op, e.widen(value)), call.element)

    return lower


def _reciprocal(e: Emitter, x: Value) -> Value:
    return e.div(e.like(x, 1.0), x)


def _rsqrt(e: Emitter, x: Value) -> Value:
    return e.op("math.rsqrt", x)


def _scaled(factor: float) -> Callable[[Emitter, Value], Value]:
    return lambda e, x: e.mul(x, e.like(x, factor))


def _negate(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    if element(value).is_float:
        return e.cast(e.op("arith.negf", e.widen(value)), call.element)
    return e.sub(e.like(value, 0), value)


def _absolute(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    if element(value) is types.i1:
        return None
    if element(value).is_float:
        return e.cast(e.op("math.absf", e.widen(value)), call.element)
    return e.op("math.absi", value)


def _sign(e: Emitter, call: Call) -> Value | None:
    value: Value = call["self"]
    if element(value) is types.i1:
        return value
    x = e.widen(value)
    zero = e.like(x, 0)
    below = e.select(e.compare("olt", x, zero), e.like(x, -1), zero)
    return e.cast(e.select(e.compare("ogt", x, zero), e.like(x, 1), below), call.element)


def _is_nan(e: Emitter, call: Call) -> Value:
    value = call["self"]
    if not element(value).is_float:
        return e.constant(False, call.shape, types.i1)
    x = e.widen(value)
    return e.compare("une", x, x)


def _is_infinite(e: Emitter, call: Call) -> Value:
    value = call["self"]
    if not element(value).is_float:
        return e.constant(False, call.shape, types.i1)
    x = e.op("math.absf", e.widen(value))
    return e.compare("oeq", x, e.like(x, math.inf))


def _frac(e: Emitter, call: Call) -> Value | None:
    x = e.widen(call["self"])
    return e.cast(e.sub(x, e.op("math.trunc", x)), call.element)


def common_operands(e: Emitter, call: Call, *names: str) -> tuple[list[Value], ScalarType] | None:
    """The named operands broadcast together in the compute type of their common dtype, and that dtype."""
    values = [call[name] for name in names]
    common = promote(values)
    if common is None:
        return None
    return [e.operand(value, common, call.shape) for value in values], common


def second_operand(e: Emitter, value: Any, common: ScalarType, shape: tuple[int, ...]) -> Value:
    """The right operand of * and /: over half types eager keeps a single number in f32."""
    if common not in HALVES:
        return e.operand(value, common, shape)
    if not isinstance(value, Value):
        return e.constant(value, shape, types.f32)
    if math.prod(shape_of(value)) == 1 and element(value).is_float:
        return e.broadcast(e.cast(value, types.f32), shape)
    return e.operand(value, common, shape)


def _arithmetic(word: str, bool_op: str | None) -> Lowering:
    """add, sub, mul. Of half types, add and sub round a number and alpha first; mul keeps them in f32."""

    def lower(e: Emitter, call: Call) -> Value | None:
        alpha = call.get("alpha", 1)
        common = promote([call["self"], call["other"]])
        if common is None or (common is types.i1 and (bool_op is None or alpha != 1)):
            return None
        a = e.operand(call["self"], common, call.shape)
        if word == "mul":
            b = second_operand(e, call["other"], common, call.shape)
        else:
            b = e.operand(call["other"], common, call.shape)
        if alpha != 1:
            b = e.mul(b, e.operand(alpha, common, call.shape))
        if common is types.i1:
            assert bool_op is not None
            return e.op(bool_op, a, b)
        return e.cast(e.op(f"arith.{word}{'f' if common.is_float else 'i'}", a, b), call.element)

    return lower


def _reversed_subtract(e: Emitter, call: Call) -> Value | None:
    common = promote([call["self"], call["other"]])
    if common is None or common is types.i1:
        return None
    b = e.operand(call["self"], common, call.shape)
    alpha = call.get("alpha", 1)
    if alpha != 1:
        b = e.mul(b, e.operand(alpha, common, call.shape))
    return e.cast(e.sub(e.operand(call["other"], common, call.shape), b), call.element)


def _float_binary(op: str) -> Lowering:
    """Over floats; integers become floats first."""

    def lower(e: Emitter, call: Call) -> Value | None:
        common = promote([call["self"], call["other"]])
        if common is None:
            return None
        common = common if common.is_float else default_float()
        operands = [e.operand(call[name], common, call.shape) for name in ("self", "other")]
        return e.cast(e.op(op, *operands), call.element)

    return lower


def _extreme(word: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value | None:
        operands = common_operands(e, call, "self", "other")
        if operands is None:
            return None
        (a, b), _ = operands
        return e.cast(e.maximum(a, b) if word == "max" else e.minimum(a, b), call.element)

    return lower


def _extreme_number(word: str) -> Lowering:
    """fmax, fmin: a nan loses against a number; of zeros the first one wins, of bf16 the second."""

    def lower(e: Emitter, call: Call) -> Value | None:
        operands = common_operands(e, call, "self", "other")
        if operands is None:
            return None
        (a, b), common = operands
        if not common.is_float:
            return e.maximum(a, b) if word == "max" else e.minimum(a, b)
        if common is types.bf16:
            a, b = b, a
        a = e.select(e.compare("une", a, a), b, a)
        return e.cast(e.at_least(a, b) if word == "max" else e.at_most(a, b), call.element)

    return lower


def _comparison(predicate: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value | None:
        operands = common_operands(e, call, "self", "other")
        return None if operands is None else e.compare(predicate, *operands[0])

    return lower


def _bitwise(op: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value | None:
        operands = common_operands(e, call, "self", "other")
        return None if operands is None or operands[1].is_float else e.op(op, *operands[0])

    return lower


def _bitwise_not(e: Emitter, call: Call) -> Value:
    value: Value = call["self"]
    return e.op("arith.xori", value, e.like(value, True if element(value) is types.i1 else -1))


def _shift(op: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value | None:
        operands = common_operands(e, call, "self", "other")
        if operands is None or operands[1].is_float or operands[1] is types.i1:
            return None
        (a, b), common = operands
        # Eager shifts everything out when the count is negative or at least the width.
        is_whole = e.op(
            "arith.ori", e.compare("olt", b, e.like(b, 0)), e.compare("oge", b, e.like(b, common.bits))
        )
        last = e.like(b, common.bits - 1)
        shifted = e.op(op, a, e.select(is_whole, last, b))
        return shifted if op == "arith.shrsi" else e.select(is_whole, e.like(a, 0), shifted)

    return lower


def _logical(op: str) -> Lowering:
    def lower(e: Emitter, call: Call) -> Value:
        operands = [e.broadcast(e.cast(call[name], types.i1), call.shape) for name in ("self", "other")]
        return e.op(op, *operands)

    return lower


def _logical_not(e: Emitter, call: Call) -> Value:
    return e.logical_not(e.cast(call["self"], types.i1))


def _where(e: Emitter, call: Call) -> Value | None:
    operands = common_operands(e, call, "self", "other")
    condition = call["condition"]
    if operands is None or element(condition) is not types.i1:
        return None
    (a, b), _ = operands
    return e.cast(e.select(e.broadcast(condition, call.shape), a, b), call.element)


def _masked_fill(e: Emitter, call: Call) -> Value | None:
    """Eager refuses a tensor's number that the type does not hold: then it may decide."""
    mask, value = call["mask"], call["value"]
    if element(mask) is not types.i1:
        return None
    if isinstance(value, Value) and not holds_all(call.element, element(value)):
        return None
    filler = e.operand(value, call.element, call.shape)
    own = e.operand(call["self"], call.element, call.shape)
    return e.cast(e.select(e.broadcast(mask, call.shape), filler, own), call.element)


def _clamp(e: Emitter, call: Call) -> Value | None:
    """Among zeros of both signs a bound that is a number loses; of tensors eager takes either.

    What a bound of nan does differs between torch's versions.
    """
    low, high = call.get("min"), call.get("max")
    common = promote([call["self"], low, high])
    if common is None or common is types.i1 or is_nan(low) or is_nan(high):
        return None
    value = e.operand(call["self"], common, call.shape)
    if low is not None:
        raise_to = e.maximum if isinstance(low, Value) else e.at_least
        value = raise_to(value, e.operand(low, common, call.shape))
    if high is not None:
        lower_to = e.minimum if isinstance(high, Value) else e.at_most
        value = lower_to(value, e.operand(high, common, call.shape))
    return e.cast(value, call.element)


def is_nan(number: Any) -> bool:
    """Whether an argument is the float nan."""
    return isinstance(number, float) and math.isnan(number)


LEAST_EXPONENT = 1e-37
"""Nearer to 0 an exponent may be 0 in f32; eager keeps it as f64."""
LARGEST_EXPONENT = 2**24
"""Beyond it an odd exponent is even in f32."""


def _power_number(e: Emitter, call: Call) -> Value | None:
    """pow with a number: eager's own shortcuts, which round differently from a general power."""
    exponent = call["exponent"]
    common = promote([call["self"], exponent])
    if common is None or common is types.i1 or isinstance(exponent, complex):
        return None
    if exponent == 0:
        return e.constant(1, call.shape, call.element)
    x = e.operand(call["self"], common, call.shape)
    if exponent == 1:
        return e.cast(x, call.element)
    if exponent == 2:
        return e.cast(e.mul(x, x), call.element)
    # Of f16 eager rounds no square and takes no root.
    is_half = common is types.f16
    square = e.mul(x, x)
    if not is_half:
        square = e.widen(e.cast(square, common))
    if exponent == 3:
        return e.cast(e.mul(square, x), call.element)
    if not common.is_float:
        return None
    if exponent == 0.5 and not is_half:
        return e.cast(e.op("math.sqrt", x), call.element)
    if exponent == -0.5 and not is_half:
        return e.cast(_rsqrt(e, x), call.element)
    if exponent == -1:
        return e.cast(_reciprocal(e, x), call.element)
    if exponent == -2:
        return e.cast(_reciprocal(e, square), call.element)
    if -LEAST_EXPONENT < exponent < LEAST_EXPONENT:
        return None
    is_large = not -LARGEST_EXPONENT < exponent < LARGEST_EXPONENT
    if is_large and common is not types.f64 and exponent % 2 == 1:
        return None
    return e.cast(e.op("math.powf", x, e.operand(exponent, common, call.shape)), call.element)


def _power(e: Emitter, call: Call) -> Value | None:
    operands = common_operands(e, call, "self", "exponent")
    if operands is None or not operands[1].is_float:
        return None
    return e.cast(e.op("math.powf", *operands[0]), call.element)


def _add_product(op: str) -> Lowering:
    """addcmul, addcdiv: self + value * (tensor1 op tensor2)."""

    def lower(e: Emitter, call: Call) -> Value | None:
        operands = common_operands(e, call, "self", "tensor1", "tensor2")
        if operands is None or not operands[1].is_float:
            return None
        (a, b, c), _ = operands
        scale = e.like(b, call["value"])
        scaled = e.mul(scale, b) if call["value"] != 1 else b
        return e.cast(e.add(a, e.mul(scaled, c) if op == "mul" else e.div(scaled, c)), call.element)

    return lower


def _lerp(e: Emitter, call: Call) -> Value | None:
    common = call.element
    if not common.is_float:
        return None
    a, b = (e.operand(call[name], common, call.shape) for name in ("self", "end"))
    weight = call["weight"]
    wide = compute_type(common)
    w = (
        e.operand(weight, common, call.shape)
        if isinstance(weight, Value)
        else e.constant(weight, call.shape, wide)
    )
    difference = e.sub(b, a)
    near = e.add(a, e.mul(w, difference))
    far = e.sub(b, e.mul(difference, e.sub(e.like(w, 1.0), w)))
    is_near = e.compare("olt", e.op("math.absf", w), e.like(w, 0.5))
    return e.cast(e.select(is_near, near, far), common)


def _x_log_y(e: Emitter, call: Call) -> Value | None:
    """x * log(y), 0 where x is 0, nan where y is."""
    common = promote([call["self"], call["other"]])
    if common is None:
        return None
    common = common if common.is_float else default_float()
    x, y = (e.operand(call[name], common, call.shape) for name in ("self", "other"))
    product = e.mul(x, e.op("math.log", y))
    product = e.select(e.compare("oeq", x, e.like(x, 0.0)), e.like(x, 0.0), product)
    return e.cast(e.select(e.compare("une", y, y), y, product), call.element)


def _log_add_exp(e: Emitter, call: Call) -> Value | None:
    operands = common_operands(e, call, "self", "other")
    if operands is None or not operands[1].is_float:
        return None
    (a, b), _ = operands
    largest = e.maximum(a, b)
    tail = e.op("math.log1p", e.op("math.exp", e.sub(e.minimum(a, b), largest)))
    # Equal infinities would make inf - inf.
    is_infinite = e.compare("oeq", e.op("math.absf", largest), e.like(a, math.inf))
    is_same = e.op("arith.andi", is_infinite, e.compare("oeq", a, b))
    return e.cast(e.select(is_same, a, e.add(largest, tail)), call.element)


def _logit(e: Emitter, call: Call) -> Value | None:
    if not element(call["self"]).is_float or call["eps"] is not None:
        return None
    x = e.widen(call["self"])
    return e.cast(e.op("math.log", e.div(x, e.sub(e.like(x, 1.0), x))), call.element)


def _heaviside(e: Emitter, call: Call) -> Value | None:
    operands = common_operands(e, call, "self", "values")
    if operands is None or operands[1] is types.i1:
        return None
    (x, values), _ = operands
    step = e.select(e.compare("ogt", x, e.like(x, 0)), e.like(x, 1), e.like(x, 0))
    return e.cast(e.select(e.compare("oeq", x, e.like(x, 0)), values, step), call.element)


def _nan_to_num(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    scalar = element(value)
    if not scalar.is_float:
        return e.cast(value, call.element)
    x = e.widen(value)
    highest = LARGEST[scalar]
    nan, high, low = call["nan"], call["posinf"], call["neginf"]
    result = e.select(e.compare("une", x, x), e.like(x, 0.0 if nan is None else nan), x)
    is_high = e.compare("oeq", x, e.like(x, math.inf))
    result = e.select(is_high, e.like(x, highest if high is None else high), result)
    is_low = e.compare("oeq", x, e.like(x, -math.inf))
    return e.cast(e.select(is_low, e.like(x, -highest if low is None else low), result), call.element)


LARGEST = {
    types.f64: 1.7976931348623157e308,
    types.f32: 3.4028234663852886e38,
    types.f16: 65504.0,
    types.bf16: 3.3895313892515355e38,
}


def _cast(e: Emitter, call: Call) -> Value | None:
    device = call.get("device")
    if (device is not None and device.type != "cpu") or call.get("pin_memory"):
        return None
    return e.cast(call["self"], call.element)


def _same(e: Emitter, call: Call) -> Value:
    value: Value = call["self"]
    return value


def _both(name: str, lowering: Lowering) -> dict[str, Lowering]:
    return {f"aten.{name}.Tensor": lowering, f"aten.{name}.Scalar": lowering}


def _table() -> dict[str, Lowering]:
    table: dict[str, Lowering] = {}
    for name, op in FLOAT_UNARY.items():
        table[f"aten.{name}.default"] = _float_unary(op)
    for name, op in ROUNDING.items():
        table[f"aten.{name}.default"] = _rounding(op)
    for name, predicate in COMPARISONS.items():
        table |= _both(name, _comparison(predicate))
    for name, op in BITWISE.items():
        table |= _both(name, _bitwise(op)) | {f"aten.{name}.Scalar_Tensor": _bitwise(op)}
    table |= {f"aten.logical_{word}.default": _logical(f"arith.{word}i") for word in ("and", "or", "xor")}
    table |= _both("add", _arithmetic("add", "arith.ori"))
    table |= _both("sub", _arithmetic("sub", None))
    table |= _both("mul", _arithmetic("mul", "arith.andi"))
    table |= _both("rsub", _reversed_subtract)
    for word, op in (("left", "arith.shli"), ("right", "arith.shrsi")):
        table |= _both(f"__{word[0]}shift__", _shift(op))
        for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor"):
            table[f"aten.bitwise_{word}_shift.{overload}"] = _shift(op)
    table |= {f"aten.where.{name}": _where for name in ("self", "Scalar", "ScalarSelf", "ScalarOther")}
    table |= {
        f"aten.clamp{suffix}": _clamp for suffix in (".default", ".Tensor", "_min.default", "_max.default")
    }
    table |= {"aten.clamp_min.Tensor": _clamp, "aten.clamp_max.Tensor": _clamp}
    return table | SINGLE


SINGLE: dict[str, Lowering] = {
    "aten.neg.default": _negate,
    "aten.abs.default": _absolute,
    "aten.sign.default": _sign,
    "aten.sgn.default": _sign,
    "aten.reciprocal.default": _of_float(_reciprocal),
    "aten.rsqrt.default": _of_float(_rsqrt),
    "aten.deg2rad.default": _of_float(_scaled(math.pi / 180)),
    "aten.rad2deg.default": _of_float(_scaled(180 / math.pi)),
    "aten.frac.default": _frac,
    "aten.isnan.default": _is_nan,
    "aten.isinf.default": _is_infinite,
    "aten.atan2.default": _float_binary("math.atan2"),
    "aten.copysign.Tensor": _float_binary("math.copysign"),
    "aten.copysign.Scalar": _float_binary("math.copysign"),
    "aten.maximum.default": _extreme("max"),
    "aten.minimum.default": _extreme("min"),
    "aten.fmax.default": _extreme_number("max"),
    "aten.fmin.default": _extreme_number("min"),
    "aten.bitwise_not.default": _bitwise_not,
    "aten.logical_not.default": _logical_not,
    "aten.masked_fill.Scalar": _masked_fill,
    "aten.masked_fill.Tensor": _masked_fill,
    "aten.pow.Tensor_Scalar": _power_number,
    "aten.pow.Tensor_Tensor": _power,
    "aten.pow.Scalar": _power,
    "aten.addcmul.default": _add_product("mul"),
    "aten.addcdiv.default": _add_product("div"),
    "aten.lerp.Scalar": _lerp,
    "aten.lerp.Tensor": _lerp,
    "aten.xlogy.Tensor": _x_log_y,
    "aten.xlogy.Scalar_Other": _x_log_y,
    "aten.xlogy.Scalar_Self": _x_log_y,
    "aten.logaddexp.default": _log_add_exp,
    "aten.logit.default": _logit,
    "aten.heaviside.default": _heaviside,
    "aten.nan_to_num.default": _nan_to_num,
    "aten._to_copy.default": _cast,
    "aten.clone.default": _same,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "aten.lift_fresh.default": _same,
    "aten.contiguous.default": _same,
    "aten.positive.default": _same,
}
LOWERINGS = _table()
