"""Reductions: sums, extremes, positions, logic, moments.

Half types are accumulated in f32, the moments of f32 and bf16 in f64.
"""

from __future__ import annotations

import math
from typing import Any

from lamina.autograd.lower.dtypes import default_float, element, shape_of
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir import types
from lamina.ir.core import Value
from lamina.ir.sizes import Size, UndecidedSize, is_known_equal


def reduced_dims(dim: Any, rank: int) -> list[int]:
    """The dims of an ATen `dim` argument: one, a list, or all for None and for an empty list."""
    if rank == 0:
        return []
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return list(range(rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return sorted({d % rank for d in dims})


def _finish(e: Emitter, call: Call, value: Value) -> Value:
    """To the result's element type and, with keepdim, its shape."""
    return e.reshape(e.cast(value, call.element), call.shape)


def _count(shape: tuple[int, ...], dims: list[int]) -> int:
    return math.prod(shape[dim] for dim in dims)


def _sum(e: Emitter, call: Call) -> Value | None:
    value = e.widen(e.cast(call["self"], call.element))
    return _finish(e, call, e.reduce("add", value, reduced_dims(call.get("dim"), len(shape_of(value)))))


def _product(e: Emitter, call: Call) -> Value | None:
    value = e.widen(e.cast(call["self"], call.element))
    return _finish(e, call, e.reduce("mul", value, reduced_dims(call.get("dim"), len(shape_of(value)))))


def _mean(e: Emitter, call: Call) -> Value | None:
    if not call.element.is_float:
        return None
    value = e.widen(e.cast(call["self"], call.element))
    return _finish(e, call, mean(e, value, reduced_dims(call.get("dim"), len(shape_of(value)))))


def mean(e: Emitter, value: Value, dims: list[int]) -> Value:
    """The mean over `dims` of a float tensor; nan where there is nothing to average."""
    total = e.reduce("add", value, dims)
    return e.div(total, e.like(total, _count(shape_of(value), dims)))


def _extreme(kind: str) -> Any:
    def lower(e: Emitter, call: Call) -> Value | None:
        value = call["self"]
        shape = shape_of(value)
        dims = reduced_dims(call.get("dim"), len(shape))
        if element(value) is types.i1 or 0 in shape:
            return None
        return _finish(e, call, e.reduce(kind, value, dims))

    return lower


def _position(kind: str) -> Any:
    def lower(e: Emitter, call: Call) -> Value | None:
        value, dim = call["self"], call["dim"]
        shape = shape_of(value)
        if element(value) is types.i1 or 0 in shape or not shape:
            return None
        if dim is None:
            value, dim = e.reshape(value, (math.prod(shape),)), 0
        return _finish(e, call, e.reduce(kind, e.widen(value), [dim % len(shape_of(value))]))

    return lower


def _logic(kind: str) -> Any:
    def lower(e: Emitter, call: Call) -> Value | None:
        value = e.cast(call["self"], types.i1)
        return _finish(e, call, e.reduce(kind, value, reduced_dims(call.get("dim"), len(shape_of(value)))))

    return lower


def centred_squares(e: Emitter, value: Value, average: Value, dims: list[int]) -> tuple[Value, Value]:
    """value - average, the mean over `dims`, and the sum over `dims` of its squares."""
    shape = shape_of(value)
    kept = [k for k in range(len(shape)) if k not in dims]
    distance = e.sub(value, e.broadcast(average, shape, kept))
    return distance, e.reduce("add", e.mul(distance, distance), dims)


def _degrees(count: Size, correction: float) -> Any:
    """count - correction, at least 0."""
    if isinstance(count, int):
        return max(0.0, count - correction)
    if not correction.is_integer():
        raise UndecidedSize(f"the correction {correction} of a count that is known at run time")
    return max(0, count - int(correction))


def _correction(call: Call) -> float:
    if "unbiased" in call.arguments:
        return 1.0 if call["unbiased"] else 0.0
    correction = call.get("correction")
    return 1.0 if correction is None else float(correction)


def _spread(e: Emitter, call: Call, average_of: Any, is_deviation: bool) -> tuple[Value, Value] | None:
    """Variance or deviation, by the mean of squared distances from the mean, and mean.

    As in eager's Welford pass f32 is accumulated in f64, and so is bf16, whose squares f32 may not hold.
    """
    value = call["self"]
    scalar = element(value)
    if not scalar.is_float or 0 in shape_of(value):
        return None
    value = e.cast(value, types.f64) if scalar in (types.f32, types.bf16) else e.widen(value)
    dims = reduced_dims(call.get("dim"), len(shape_of(value)))
    average = average_of(e, value, dims)
    _, total = centred_squares(e, value, average, dims)
    spread = e.div(total, e.like(total, _degrees(_count(shape_of(value), dims), _correction(call))))
    return e.op("math.sqrt", spread) if is_deviation else spread, average


def _running_mean(e: Emitter, value: Value, dims: list[int]) -> Value:
    """The mean as eager's Welford pass leaves it: nan after an infinity that is not the last element.

    To an infinite mean the next element is at an infinite distance: inf + -inf.
    """
    shape = shape_of(value)
    is_last = e.constant(True, shape, types.i1)
    for dim in dims:
        line = e.iota(dim, shape)
        is_last = e.op("arith.andi", is_last, e.compare("oeq", line, e.like(line, shape[dim] - 1)))
    zero_or_nan = e.select(is_last, e.like(value, 0.0), e.sub(value, value))
    return mean(e, e.add(value, zero_or_nan), dims)


def _variance(is_deviation: bool) -> Any:
    def lower(e: Emitter, call: Call) -> Value | None:
        moments = _spread(e, call, mean, is_deviation)
        return None if moments is None else _finish(e, call, moments[0])

    return lower


def _moments(is_deviation: bool) -> Any:
    """(variance or deviation, mean)."""

    def lower(e: Emitter, call: Call) -> list[Value] | None:
        moments = _spread(e, call, _running_mean, is_deviation)
        return None if moments is None else [_finish(e, call, moment) for moment in moments]

    return lower


def _extreme_with_position(kind: str) -> Any:
    """(value, position) along one dim."""

    def lower(e: Emitter, call: Call) -> list[Value] | None:
        value = call["self"]
        shape = shape_of(value)
        if element(value) is types.i1 or 0 in shape or not shape:
            return None
        dims = [call["dim"] % len(shape)]
        best = e.reshape(e.reduce(kind, value, dims), call.shape)
        return [best, e.reshape(e.reduce(f"arg{kind}", e.widen(value), dims), call.shape)]

    return lower


def _extremes(e: Emitter, call: Call) -> list[Value] | None:
    value = call["self"]
    if element(value) is types.i1 or 0 in shape_of(value):
        return None
    dims = reduced_dims(call["dim"], len(shape_of(value)))
    return [e.reshape(e.reduce(kind, value, dims), call.shape) for kind in ("min", "max")]


def _nan_sum(e: Emitter, call: Call) -> Value | None:
    value = e.widen(e.cast(call["self"], call.element))
    if element(value).is_float:
        value = e.select(e.compare("une", value, value), e.like(value, 0.0), value)
    return _finish(e, call, e.reduce("add", value, reduced_dims(call.get("dim"), len(shape_of(value)))))


def _norm(e: Emitter, call: Call) -> Value | None:
    order = 2 if call["p"] is None else call["p"]
    arguments = {**call.arguments, "ord": order, "dim": call.get("dim")}
    return _vector_norm(e, Call(call.name, arguments, call.results))


def _log_sum_exp(e: Emitter, call: Call) -> Value | None:
    value = call["self"]
    value = e.widen(value if element(value).is_float else e.cast(value, default_float()))
    shape = shape_of(value)
    dims = reduced_dims(call["dim"], len(shape))
    if 0 in shape:
        return None
    largest = e.reduce("max", value, dims)
    # An infinite maximum would make inf - inf.
    is_infinite = e.compare("oeq", e.op("math.absf", largest), e.like(largest, math.inf))
    shift = e.select(is_infinite, e.like(largest, 0.0), largest)
    kept = [k for k in range(len(shape)) if k not in dims]
    exponentials = e.op("math.exp", e.sub(value, e.broadcast(shift, shape, kept)))
    total = e.op("math.log", e.reduce("add", exponentials, dims))
    return _finish(e, call, e.add(total, shift))


def _vector_norm(e: Emitter, call: Call) -> Value | None:
    value, order = call["self"], call["ord"]
    if not element(value).is_float or not call.element.is_float or 0 in shape_of(value):
        return None
    x = e.widen(e.cast(value, call.element))
    dims = reduced_dims(call["dim"], len(shape_of(value)))
    if order != 0 and all(is_known_equal(shape_of(value)[dim], 1) for dim in dims):
        # Eager squares nothing where there is one element, which a square might be too large for.
        return _finish(e, call, e.reduce("add", e.op("math.absf", x), dims))
    if order == 2:
        return _finish(e, call, e.op("math.sqrt", e.reduce("add", e.mul(x, x), dims)))
    if order == 1:
        return _finish(e, call, e.reduce("add", e.op("math.absf", x), dims))
    if order in (math.inf, -math.inf):
        kind = "max" if order > 0 else "min"
        return _finish(e, call, e.reduce(kind, e.op("math.absf", x), dims))
    return None


LOWERINGS: dict[str, Any] = {
    "aten.sum.default": _sum,
    "aten.sum.dim_IntList": _sum,
    "aten.prod.default": _product,
    "aten.prod.dim_int": _product,
    "aten.mean.default": _mean,
    "aten.mean.dim": _mean,
    "aten.amax.default": _extreme("max"),
    "aten.amin.default": _extreme("min"),
    "aten.max.default": _extreme("max"),
    "aten.min.default": _extreme("min"),
    "aten.argmax.default": _position("argmax"),
    "aten.argmin.default": _position("argmin"),
    "aten.any.default": _logic("or"),
    "aten.any.dim": _logic("or"),
    "aten.any.dims": _logic("or"),
    "aten.all.default": _logic("and"),
    "aten.all.dim": _logic("and"),
    "aten.all.dims": _logic("and"),
    "aten.var.default": _variance(is_deviation=False),
    "aten.var.dim": _variance(is_deviation=False),
    "aten.var.correction": _variance(is_deviation=False),
    "aten.std.default": _variance(is_deviation=True),
    "aten.std.dim": _variance(is_deviation=True),
    "aten.std.correction": _variance(is_deviation=True),
    "aten.logsumexp.default": _log_sum_exp,
    "aten.linalg_vector_norm.default": _vector_norm,
    "aten.norm.ScalarOpt_dim": _norm,
    "aten.norm.Scalar": _norm,
    "aten.var_mean.correction": _moments(is_deviation=False),
    "aten.std_mean.correction": _moments(is_deviation=True),
    "aten.max.dim": _extreme_with_position("max"),
    "aten.min.dim": _extreme_with_position("min"),
    "aten.aminmax.default": _extremes,
    "aten.nansum.default": _nan_sum,
}
