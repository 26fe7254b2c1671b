"""Pooling and resampling that are plain reductions or broadcasts."""

from __future__ import annotations

from typing import Any

from lamina.autograd.lower.dtypes import element, shape_of
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.autograd.lower.reductions import mean
from lamina.ir.core import Value
from lamina.ir.sizes import Size, is_static

POWERS = tuple(2**exponent for exponent in range(16))


def _average_all(e: Emitter, call: Call) -> Value | None:
    """Adaptive average pooling to one element: a mean."""
    value, sizes = call["self"], call["output_size"]
    if any(size != 1 for size in sizes) or 0 in shape_of(value) or not element(value).is_float:
        return None
    rank = len(shape_of(value))
    result = mean(e, e.widen(value), list(range(rank - len(sizes), rank)))
    return e.reshape(e.cast(result, call.element), call.shape)


def _factor(narrow: Size, wide: Size) -> int | None:
    """The power of two that a size is multiplied by; None where it is another number or not known."""
    if is_static((narrow, wide)):
        return next((factor for factor in POWERS if narrow * factor == wide), None)
    return next((factor for factor in POWERS if narrow * factor is wide), None)


def _nearest(e: Emitter, call: Call) -> Value | None:
    """Upsampling by powers of two repeats each element; other factors round positions in floats."""
    value, scales = call["input"], call["scale_factors"]
    source, target = shape_of(value), call.shape
    if 0 in source or not element(value).is_float:
        return None
    found = [_factor(narrow, wide) for narrow, wide in zip(source, target, strict=True)]
    factors = [factor for factor in found if factor is not None]
    if len(factors) < len(found):
        return None
    if scales is not None and list(scales) != factors[2:]:
        return None
    split = [size for narrow in source for size in (narrow, 1)]
    wide = [size for narrow, factor in zip(source, factors, strict=True) for size in (narrow, factor)]
    return e.reshape(e.broadcast(e.reshape(value, split), wide), target)


def _pixel_shuffle(e: Emitter, call: Call) -> Value | None:
    value, factor = call["self"], call["upscale_factor"]
    *batch, channels, height, width = shape_of(value)
    k = len(batch)
    split = (*batch, channels // factor**2, factor, factor, height, width)
    if 0 in split:
        return None
    order = [*range(k + 1), k + 3, k + 1, k + 4, k + 2]
    return e.reshape(e.permute(e.reshape(value, split), order), call.shape)


LOWERINGS: dict[str, Any] = {
    "aten.adaptive_avg_pool1d.default": _average_all,
    "aten.adaptive_avg_pool2d.default": _average_all,
    "aten.adaptive_avg_pool3d.default": _average_all,
    "aten.upsample_nearest1d.vec": _nearest,
    "aten.upsample_nearest2d.vec": _nearest,
    "aten.upsample_nearest3d.vec": _nearest,
    "aten.pixel_shuffle.default": _pixel_shuffle,
}
