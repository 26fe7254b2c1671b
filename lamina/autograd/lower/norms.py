"""Softmax and normalisation, from reductions and elementwise ops."""

from __future__ import annotations

import math
from typing import Any

from lamina.autograd.lower.dtypes import compute_type, element, shape_of
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.autograd.lower.reductions import centred_squares, mean
from lamina.ir import types
from lamina.ir.core import Value


def _softmax_operand(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    if not call.element.is_float or 0 in shape_of(value):
        return None
    return e.widen(e.cast(value, call.element))


def _softmax(e: Emitter, call: Call) -> Value | None:
    x = _softmax_operand(e, call)
    if x is None or not shape_of(x):
        return None
    dim = call["dim"] % len(shape_of(x))
    exponentials = e.op("math.exp", e.sub(x, e.reduce_kept("max", x, [dim])))
    return e.cast(e.div(exponentials, e.reduce_kept("add", exponentials, [dim])), call.element)


def log_softmax(e: Emitter, x: Value, dim: int) -> Value:
    """x - max - log(sum(exp(x - max))) along `dim`."""
    shape = shape_of(x)
    kept = [k for k in range(len(shape)) if k != dim]
    shifted = e.sub(x, e.reduce_kept("max", x, [dim]))
    total = e.reduce("add", e.op("math.exp", shifted), [dim])
    return e.sub(shifted, e.broadcast(e.op("math.log", total), shape, kept))


def _log_softmax(e: Emitter, call: Call) -> Value | None:
    x = _softmax_operand(e, call)
    if x is None or not shape_of(x):
        return None
    return e.cast(log_softmax(e, x, call["dim"] % len(shape_of(x))), call.element)


def _is_float_or_none(*values: Any) -> bool:
    return all(value is None or element(value).is_float for value in values)


def _layer_norm(e: Emitter, call: Call) -> Value | None:
    value, weight, bias = call["input"], call["weight"], call["bias"]
    shape = shape_of(value)
    dims = list(range(len(shape) - len(call["normalized_shape"]), len(shape)))
    if not _is_float_or_none(value, weight, bias) or 0 in shape or not dims:
        return None
    x = e.widen(value)
    normal = _normalize(e, x, dims, call["eps"])
    return e.cast(_scale_and_shift(e, normal, weight, bias, dims), call.element)


def _normalize(e: Emitter, x: Value, dims: list[int], eps: float) -> Value:
    shape = shape_of(x)
    kept = [k for k in range(len(shape)) if k not in dims]
    centred, total = centred_squares(e, x, mean(e, x, dims), dims)
    spread = e.div(total, e.like(total, math.prod(shape[dim] for dim in dims)))
    scale = e.op("math.rsqrt", e.add(spread, e.like(spread, eps)))
    return e.mul(centred, e.broadcast(scale, shape, kept))


def _scale_and_shift(
    e: Emitter, x: Value, weight: Value | None, bias: Value | None, dims: list[int]
) -> Value:
    """x * weight + bias, each spread over all dims but `dims`. No bias is 0.0: -0.0 becomes 0.0."""
    shape, scalar = shape_of(x), element(x)
    if weight is not None:
        x = e.mul(x, e.broadcast(e.cast(weight, scalar), shape, dims))
    return e.add(x, e.like(x, 0.0) if bias is None else e.broadcast(e.cast(bias, scalar), shape, dims))


def _group_norm(e: Emitter, call: Call) -> Value | None:
    value, weight, bias = call["input"], call["weight"], call["bias"]
    shape, groups = shape_of(value), call["num_groups"]
    if not _is_float_or_none(value, weight, bias) or 0 in shape:
        return None
    # Pixels stay dimensions of their own, so that images may lie with their channels innermost.
    x = e.reshape(e.widen(value), (shape[0], groups, shape[1] // groups, *shape[2:]))
    x = e.reshape(_normalize(e, x, list(range(2, len(shape) + 1)), call["eps"]), shape)
    if weight is not None or bias is not None:
        x = _scale_and_shift(e, x, weight, bias, [1])
    return e.cast(x, call.element)


def _rms_norm(e: Emitter, call: Call) -> Value | None:
    value, weight, eps = call["input"], call["weight"], call["eps"]
    shape = shape_of(value)
    dims = list(range(len(shape) - len(call["normalized_shape"]), len(shape)))
    if not _is_float_or_none(value, weight) or 0 in shape or not dims:
        return None
    if weight is not None and element(weight) is not element(value):
        return None
    if eps is None:
        eps = EPSILON[compute_type(element(value))]
    x = e.widen(value)
    kept = [k for k in range(len(shape)) if k not in dims]
    power = mean(e, e.mul(x, x), dims)
    scale = e.op("math.rsqrt", e.add(power, e.like(power, eps)))
    x = e.mul(x, e.broadcast(scale, shape, kept))
    if weight is not None:
        x = e.mul(x, e.broadcast(e.cast(weight, element(x)), shape, dims))
    return e.cast(x, call.element)


EPSILON = {types.f64: 2.220446049250313e-16, types.f32: 1.1920928955078125e-07}


def _batch_norm(e: Emitter, call: Call) -> Value | None:
    """Outside training: x * alpha + beta, both made of the weights alone, as eager does."""
    value, weight, bias = call["input"], call["weight"], call["bias"]
    average, spread = call["running_mean"], call["running_var"]
    if call["training"] or average is None or spread is None:
        return None
    if not _is_float_or_none(value, weight, bias, average, spread):
        return None
    x = e.widen(value)
    scalar, shape = element(x), shape_of(x)
    average, spread = e.cast(average, scalar), e.cast(spread, scalar)
    alpha = e.op("math.rsqrt", e.add(spread, e.like(spread, call["eps"])))
    if weight is not None:
        alpha = e.mul(alpha, e.cast(weight, scalar))
    shift = e.mul(average, alpha)
    beta = e.sub(e.like(shift, 0.0) if bias is None else e.cast(bias, scalar), shift)
    result = e.add(e.mul(x, e.broadcast(alpha, shape, [1])), e.broadcast(beta, shape, [1]))
    return e.cast(result, call.element)


LOWERINGS: dict[str, Any] = {
    "aten.softmax.int": _softmax,
    "aten._softmax.default": _softmax,
    "aten.log_softmax.int": _log_softmax,
    "aten._log_softmax.default": _log_softmax,
    "aten.layer_norm.default": _layer_norm,
    "aten.group_norm.default": _group_norm,
    "aten.rms_norm.default": _rms_norm,
    "aten.batch_norm.default": _batch_norm,
}
