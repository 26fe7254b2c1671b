"""Tensors made from nothing: constants, ranges, masks."""

from __future__ import annotations

import math
from typing import Any

from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir import types
from lamina.ir.core import Value
from lamina.ir.sizes import SymbolicSize


def _is_elsewhere(call: Call) -> bool:
    device = call.get("device")
    return (device is not None and device.type != "cpu") or bool(call.get("pin_memory"))


def _filled(number: float | None) -> Any:
    """A constant; its number is fixed, or the argument `fill_value` or `s`."""

    def lower(e: Emitter, call: Call) -> Value | None:
        value = (
            number
            if number is not None
            else next((call[k] for k in ("fill_value", "s", "value") if k in call.arguments), None)
        )
        if _is_elsewhere(call) or value is None or isinstance(value, complex):
            return None
        if isinstance(value, Value):
            return e.broadcast(e.cast(value, call.element), call.shape)
        return e.constant(value, call.shape, call.element)

    return lower


def _arange(e: Emitter, call: Call) -> Value | None:
    start, step = call.get("start", 0), call.get("step", 1)
    if _is_elsewhere(call):
        return None
    numbers = (start, step, call["end"])
    is_whole = all(isinstance(number, int | SymbolicSize) for number in numbers)
    if not is_whole and not call.element.is_float:
        return None
    if call.element.is_float and (call.element is not types.f32 or not _is_exact(numbers, call.shape)):
        return None
    line = e.iota(0, call.shape)
    if step != 1:
        line = e.mul(line, e.like(line, _whole(step)))
    if start != 0:
        line = e.add(line, e.like(line, _whole(start)))
    return e.cast(line, call.element)


def _is_exact(numbers: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether every element is a whole number that f32 holds."""
    limit = 2**24
    return all(number == _whole(number) and abs(number) < limit for number in numbers) and shape[0] < limit


def _whole(number: Any) -> Any:
    return number if isinstance(number, SymbolicSize) else int(number)


def _eye(e: Emitter, call: Call) -> Value | None:
    if _is_elsewhere(call):
        return None
    is_diagonal = e.compare("oeq", e.iota(0, call.shape), e.iota(1, call.shape))
    return e.cast(is_diagonal, call.element)


def _linspace(e: Emitter, call: Call) -> Value | None:
    """Eager counts up from the start in the first half and down from the end in the second."""
    start, end, steps = call["start"], call["end"], call["steps"]
    if _is_elsewhere(call) or call.element not in (types.f32, types.f64) or steps < 2:
        return None
    if isinstance(start, Value) or isinstance(end, Value) or not math.isfinite(end - start):
        return None
    line = e.cast(e.iota(0, call.shape), call.element)
    step = e.div(e.like(line, end - start), e.like(line, float(steps - 1)))
    up = e.add(e.like(line, start), e.mul(step, line))
    down = e.sub(e.like(line, end), e.mul(step, e.sub(e.like(line, float(steps - 1)), line)))
    is_first_half = e.compare("olt", line, e.like(line, float(steps // 2)))
    return e.select(is_first_half, up, down)


LOWERINGS: dict[str, Any] = {
    "aten.full.default": _filled(None),
    "aten.full_like.default": _filled(None),
    "aten.new_full.default": _filled(None),
    "aten.scalar_tensor.default": _filled(None),
    "aten.fill.Scalar": _filled(None),
    "aten.zeros.default": _filled(0),
    "aten.zeros_like.default": _filled(0),
    "aten.new_zeros.default": _filled(0),
    "aten.ones.default": _filled(1),
    "aten.ones_like.default": _filled(1),
    "aten.new_ones.default": _filled(1),
    "aten.empty.memory_format": _filled(0),
    "aten.empty_like.default": _filled(0),
    "aten.new_empty.default": _filled(0),
    "aten.arange.default": _arange,
    "aten.arange.start": _arange,
    "aten.arange.start_step": _arange,
    "aten.eye.default": _eye,
    "aten.eye.m": _eye,
    "aten.linspace.default": _linspace,
}
