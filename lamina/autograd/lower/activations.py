"""Activation functions as eager's CPU kernels compute them: half types in f32, one rounding at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina.autograd.lower.dtypes import element, shape_of
from lamina.autograd.lower.elementwise import Lowering, is_nan
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.autograd.lower.numbers import as_float
from lamina.ir.core import Value


def sigmoid(e: Emitter, x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    one = e.like(x, 1.0)
    return e.div(one, e.add(one, e.op("math.exp", e.op("arith.negf", x))))


def _of_float(body: Callable[[Emitter, Value, Call], Value]) -> Lowering:
    """Lower `body` on the operand in its compute type; only for float operands."""

    def lower(e: Emitter, call: Call) -> Value | None:
        value = call["self"]
        if not element(value).is_float:
            return None
        return e.cast(body(e, e.widen(value), call), call.element)

    return lower


def _relu(e: Emitter, call: Call) -> Value:
    value: Value = call["self"]
    x = e.widen(value)
    return e.cast(e.at_least(x, e.like(x, 0)), call.element)


def _sigmoid(e: Emitter, call: Call) -> Value | None:
    from_integer = not element(call["self"]).is_float
    x = e.cast(call["self"], call.element) if from_integer else call["self"]
    return e.cast(sigmoid(e, e.widen(x)), call.element)


def _silu(e: Emitter, x: Value, call: Call) -> Value:
    return e.div(x, e.add(e.like(x, 1.0), e.op("math.exp", e.op("arith.negf", x))))


def _gelu(e: Emitter, x: Value, call: Call) -> Value:
    half, one = e.like(x, 0.5), e.like(x, 1.0)
    if call["approximate"] == "tanh":
        cube = e.mul(e.mul(x, x), x)
        inner = e.add(x, e.mul(e.like(x, 0.044715), cube))
        inner = e.mul(e.like(x, math.sqrt(2.0 / math.pi)), inner)
        return e.mul(e.mul(half, x), e.add(one, e.op("math.tanh", inner)))
    error = e.op("math.erf", e.mul(x, e.like(x, math.sqrt(0.5))))
    return e.mul(e.mul(x, half), e.add(one, error))


def _clamped(e: Emitter, x: Value, low: float, high: float) -> Value:
    return e.at_most(e.at_least(x, e.like(x, low)), e.like(x, high))


def _hardtanh(e: Emitter, call: Call) -> Value | None:
    if is_nan(call["min_val"]) or is_nan(call["max_val"]):
        return None
    scalar = element(call["self"])
    low, high = (e.operand(call[name], scalar, call.shape) for name in ("min_val", "max_val"))
    x = e.at_most(e.at_least(e.widen(call["self"]), low), high)
    return e.cast(x, call.element)


def _hardsigmoid(e: Emitter, x: Value, call: Call) -> Value:
    return e.div(_clamped(e, e.add(x, e.like(x, 3.0)), 0.0, 6.0), e.like(x, 6.0))


def _hardswish(e: Emitter, x: Value, call: Call) -> Value:
    return e.div(e.mul(x, _clamped(e, e.add(x, e.like(x, 3.0)), 0.0, 6.0)), e.like(x, 6.0))


def _leaky_relu(e: Emitter, x: Value, call: Call) -> Value:
    scaled = e.mul(x, e.like(x, as_float(e, call["negative_slope"])))
    return e.select(e.compare("ogt", x, e.like(x, 0.0)), x, scaled)


def _elu(e: Emitter, x: Value, call: Call) -> Value:
    scale, alpha = as_float(e, call["scale"]), as_float(e, call["alpha"])
    inner = e.op("math.expm1", e.mul(x, e.like(x, as_float(e, call["input_scale"]))))
    negative = e.mul(inner, e.like(x, alpha * scale))
    positive = e.mul(x, e.like(x, scale)) if scale != 1.0 else x
    return e.select(e.compare("ole", x, e.like(x, 0.0)), negative, positive)


def _celu(e: Emitter, x: Value, call: Call) -> Value:
    alpha = as_float(e, call["alpha"])
    negative = e.mul(e.op("math.expm1", e.mul(x, e.like(x, 1.0 / alpha))), e.like(x, alpha))
    return e.select(e.compare("ole", x, e.like(x, 0.0)), negative, x)


def _softplus(e: Emitter, x: Value, call: Call) -> Value:
    beta, threshold = as_float(e, call["beta"]), as_float(e, call["threshold"])
    scaled = e.mul(x, e.like(x, beta))
    soft = e.div(e.op("math.log1p", e.op("math.exp", scaled)), e.like(x, beta))
    return e.select(e.compare("ogt", scaled, e.like(x, threshold)), x, soft)


def _mish(e: Emitter, x: Value, call: Call) -> Value:
    return e.mul(x, e.op("math.tanh", e.op("math.log1p", e.op("math.exp", x))))


def _threshold(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    x = e.widen(value)
    bound = call["threshold"]
    # Torch compares halves, widened, with the number as it is.
    is_float = element(value).is_float
    wide = e.like(x, as_float(e, bound)) if is_float else e.operand(bound, element(value), call.shape)
    keeps = e.compare("ole", x, wide)
    return e.cast(e.select(keeps, e.operand(call["value"], element(value), call.shape), x), call.element)


def _prelu(e: Emitter, call: Call) -> Value | None:
    value, weight = call["self"], call["weight"]
    if element(value) is not element(weight):
        return None
    x, shape = e.widen(value), shape_of(value)
    weight = e.widen(weight)
    if shape_of(weight) == (1,) or not shape_of(weight):
        weight = e.broadcast(weight, shape)
    elif len(shape_of(weight)) == 1:
        weight = e.broadcast(weight, shape, [1])
    else:
        weight = e.broadcast(weight, shape)
    return e.cast(e.select(e.compare("ogt", x, e.like(x, 0.0)), x, e.mul(weight, x)), call.element)


def _glu(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    shape = shape_of(value)
    dim = call["dim"] % len(shape)
    half = shape[dim] // 2
    left, right = (e.widen(e.slice(value, dim, start, half)) for start in (0, half))
    return e.cast(e.mul(left, sigmoid(e, right)), call.element)


def _soft_shrink(e: Emitter, x: Value, call: Call) -> Value:
    width = as_float(e, call["lambd"])
    above, below = e.sub(x, e.like(x, width)), e.add(x, e.like(x, width))
    # nan stays: x * 0 rather than 0.
    inner = e.select(e.compare("olt", x, e.like(x, -width)), below, e.mul(x, e.like(x, 0.0)))
    return e.select(e.compare("ogt", x, e.like(x, width)), above, inner)


def _hard_shrink(e: Emitter, x: Value, call: Call) -> Value:
    width = as_float(e, call["lambd"])
    is_inside = e.op(
        "arith.andi", e.compare("oge", x, e.like(x, -width)), e.compare("ole", x, e.like(x, width))
    )
    return e.select(is_inside, e.like(x, 0.0), x)


def _log_sigmoid(e: Emitter, call: Call) -> Value | None:
    """min(x, 0) - log1p(exp(-|x|))."""
    if not element(call["self"]).is_float:
        return None
    x = e.widen(call["self"])
    tail = e.op("math.log1p", e.op("math.exp", e.op("arith.negf", e.op("math.absf", x))))
    return e.cast(e.sub(e.minimum(x, e.like(x, 0.0)), tail), call.element)


LOWERINGS: dict[str, Any] = {
    "aten.relu.default": _relu,
    "aten.sigmoid.default": _sigmoid,
    "aten.silu.default": _of_float(_silu),
    "aten.gelu.default": _of_float(_gelu),
    "aten.hardtanh.default": _hardtanh,
    "aten.hardsigmoid.default": _of_float(_hardsigmoid),
    "aten.hardswish.default": _of_float(_hardswish),
    "aten.leaky_relu.default": _of_float(_leaky_relu),
    "aten.elu.default": _of_float(_elu),
    "aten.celu.default": _of_float(_celu),
    "aten.softplus.default": _of_float(_softplus),
    "aten.mish.default": _of_float(_mish),
    "aten.log_sigmoid.default": _log_sigmoid,
    "aten.threshold.default": _threshold,
    "aten._prelu_kernel.default": _prelu,
    "aten.glu.default": _glu,
    "aten.softshrink.default": _of_float(_soft_shrink),
    "aten.hardshrink.default": _of_float(_hard_shrink),
}
