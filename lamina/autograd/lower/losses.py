"""Loss functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina.autograd.lower.dtypes import element, promote, shape_of
from lamina.autograd.lower.elementwise import Lowering
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.autograd.lower.norms import log_softmax
from lamina.autograd.lower.numbers import as_float
from lamina.ir import types
from lamina.ir.core import Value

NONE, MEAN = 0, 1
"""torch's codes for `reduction`; 2 is the sum."""


def _cross_entropy(e: Emitter, call: Call) -> Value | None:
    """Class indices, no weights, no smoothing. A target outside the classes is asserted against."""
    logits, target = call["self"], call["target"]
    shape, target_shape = shape_of(logits), shape_of(target)
    if call["weight"] is not None or call["label_smoothing"] or element(target) is not types.i64:
        return None
    if not element(logits).is_float or not shape or 0 in shape or len(target_shape) != len(shape) - 1:
        return None
    dim = 0 if len(shape) == 1 else 1
    scores = log_softmax(e, e.widen(logits), dim)
    kept = [k for k in range(len(shape)) if k != dim]
    is_target = e.compare("oeq", e.iota(dim, shape), e.broadcast(target, shape, kept))
    loss = e.reduce("add", e.select(is_target, scores, e.like(scores, 0.0)), [dim])
    loss = e.op("arith.negf", loss)
    counts = e.compare("une", target, e.like(target, call["ignore_index"]))
    _assert_classes(e, target, counts, shape[dim])
    loss = e.select(counts, loss, e.like(loss, 0.0))
    if call["reduction"] == 0:
        return e.cast(loss, call.element)
    everything = list(range(len(target_shape)))
    total = e.reduce("add", loss, everything)
    if call["reduction"] == 1:
        number = e.reduce("add", e.cast(counts, types.i64), everything)
        total = e.div(total, e.cast(number, element(total)))
    return e.cast(total, call.element)


def _assert_classes(e: Emitter, target: Value, counts: Value, classes: int) -> None:
    is_class = e.op(
        "arith.andi",
        e.compare("oge", target, e.like(target, 0)),
        e.compare("olt", target, e.like(target, classes)),
    )
    is_right = e.op("arith.ori", is_class, e.logical_not(counts))
    e.require(is_right, "cross_entropy: a target is out of bounds")


def _pointwise(body: Callable[[Emitter, Value, Value, Call], Value | None]) -> Lowering:
    """A loss of each pair of elements, then `reduction`. Half types stay library calls."""

    def lower(e: Emitter, call: Call) -> Value | None:
        value, target = call["self"], call["target"]
        common = promote([value, target])
        if common not in (types.f32, types.f64) or shape_of(value) != shape_of(target):
            return None
        assert common is not None
        a, b = (e.operand(v, common, shape_of(value)) for v in (value, target))
        loss = body(e, a, b, call)
        if loss is None or call["reduction"] == NONE:
            return loss
        dims = list(range(len(shape_of(loss))))
        total = e.reduce("add", loss, dims)
        if call["reduction"] == MEAN:
            total = e.div(total, e.like(total, math.prod(shape_of(loss))))
        return total

    return lower


def _squared(e: Emitter, a: Value, b: Value, call: Call) -> Value:
    distance = e.sub(a, b)
    return e.mul(distance, distance)


def _smooth_l1(e: Emitter, a: Value, b: Value, call: Call) -> Value:
    beta = as_float(e, call["beta"])
    distance = e.op("math.absf", e.sub(a, b))
    if beta == 0:
        return distance
    square = e.div(e.mul(e.mul(e.like(a, 0.5), distance), distance), e.like(a, beta))
    is_near = e.compare("olt", distance, e.like(a, beta))
    return e.select(is_near, square, e.sub(distance, e.like(a, 0.5 * beta)))


def _huber(e: Emitter, a: Value, b: Value, call: Call) -> Value:
    delta = as_float(e, call["delta"])
    distance = e.op("math.absf", e.sub(a, b))
    square = e.mul(e.mul(e.like(a, 0.5), distance), distance)
    far = e.mul(e.like(a, delta), e.sub(distance, e.like(a, 0.5 * delta)))
    return e.select(e.compare("ole", distance, e.like(a, delta)), square, far)


def _binary_cross_entropy_with_logits(e: Emitter, a: Value, b: Value, call: Call) -> Value | None:
    """(1 - target) * x + log1p(exp(-|x|)) + max(-x, 0)."""
    if call["weight"] is not None or call["pos_weight"] is not None:
        return None
    tail = e.op("math.log1p", e.op("math.exp", e.op("arith.negf", e.op("math.absf", a))))
    hinge = e.maximum(e.op("arith.negf", a), e.like(a, 0.0))
    return e.add(e.mul(e.sub(e.like(a, 1.0), b), a), e.add(hinge, tail))


LOWERINGS: dict[str, Any] = {
    "aten.cross_entropy_loss.default": _cross_entropy,
    "aten.mse_loss.default": _pointwise(_squared),
    "aten.smooth_l1_loss.default": _pointwise(_smooth_l1),
    "aten.huber_loss.default": _pointwise(_huber),
    "aten.binary_cross_entropy_with_logits.default": _pointwise(_binary_cross_entropy_with_logits),
}
