"""Structure: ATen's views and copies that only move elements."""

from __future__ import annotations

from typing import Any

from lamina.autograd.lower.dtypes import element, shape_of
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir import types
from lamina.ir.core import Value
from lamina.ir.sizes import is_static


def _reshape(e: Emitter, call: Call) -> Value:
    return e.reshape(call["self"], call.shape)


def _permute(e: Emitter, call: Call) -> Value:
    rank = len(call.shape)
    return e.permute(call["self"], [dim % rank for dim in call["dims"]])


def _transpose(e: Emitter, call: Call) -> Value:
    rank = len(call.shape)
    order = list(range(rank))
    if rank:
        a, b = call["dim0"] % rank, call["dim1"] % rank
        order[a], order[b] = order[b], order[a]
    return e.permute(call["self"], order)


def _t(e: Emitter, call: Call) -> Value:
    return e.permute(call["self"], list(range(len(call.shape)))[::-1])


def _expand(e: Emitter, call: Call) -> Value:
    return e.broadcast(call["self"], call.shape)


def slice_bounds(size: int, start: int | None, end: int | None, step: int) -> tuple[int, int]:
    """First index and number of elements of a Python slice over `size`."""
    if not is_static([each for each in (size, start, end) if each is not None]):
        begin, stop = _clip(0 if start is None else start, size), _clip(size if end is None else end, size)
        return (begin, -(-(stop - begin) // step)) if stop > begin else (0, 0)
    begin, stop, _ = slice(start, end, step).indices(size)
    return (begin, len(range(begin, stop, step))) if stop > begin else (0, 0)


def _clip(place: int, size: int) -> int:
    """A bound of a slice: counted from the end where it is negative, and within the size."""
    return min(max(place + size, 0), size) if place < 0 else min(place, size)


def _slice(e: Emitter, call: Call) -> Value:
    value, shape = call["self"], shape_of(call["self"])
    dim = call["dim"] % len(shape)
    start, size = slice_bounds(shape[dim], call["start"], call["end"], call["step"])
    return e.slice(value, dim, start, size, call["step"])


def _select(e: Emitter, call: Call) -> Value:
    value, shape = call["self"], shape_of(call["self"])
    dim = call["dim"] % len(shape)
    return e.reshape(e.slice(value, dim, _place(call["index"], shape[dim]), 1), call.shape)


def _place(index: int, size: int) -> int:
    """An index within a dimension, counted from the front."""
    return index + size if index < 0 else index


def _slice_scatter(e: Emitter, call: Call) -> Value | None:
    value, source = call["self"], call["src"]
    shape = shape_of(value)
    dim = call["dim"] % len(shape)
    start, size = slice_bounds(shape[dim], call["start"], call["end"], call["step"])
    source = e.broadcast(e.cast(source, call.element), (*shape[:dim], size, *shape[dim + 1 :]))
    if call["step"] == 1 or size == 0:
        return _replace(e, value, source, dim, start)
    return None


def _replace(e: Emitter, value: Value, source: Value, dim: int, start: int) -> Value:
    """`value` with the elements of `dim` from `start` on replaced by `source`."""
    if 0 in shape_of(source):
        return value
    length, size = shape_of(value)[dim], shape_of(source)[dim]
    stop = start + size
    is_last = not stop < length
    if is_last:
        start = length - size
    before = [e.slice(value, dim, 0, start)] if start else []
    after = [] if is_last else [e.slice(value, dim, stop, length - stop)]
    return e.concat([*before, source, *after], dim)


def _select_scatter(e: Emitter, call: Call) -> Value:
    value, source = call["self"], call["src"]
    shape = shape_of(value)
    dim = call["dim"] % len(shape)
    line = (*shape[:dim], 1, *shape[dim + 1 :])
    source = e.reshape(e.cast(source, call.element), line)
    return _replace(e, value, source, dim, _place(call["index"], shape[dim]))


def _flip(e: Emitter, call: Call) -> Value:
    rank = len(call.shape)
    dims = sorted({dim % rank for dim in call["dims"]}) if rank else []
    return e.reverse(call["self"], dims) if dims else call["self"]


def _cat(e: Emitter, call: Call) -> Value | None:
    # Eager lets one-dimensional empty tensors join anything.
    values = [value for value in call["tensors"] if shape_of(value) != (0,)] or call["tensors"][:1]
    if 0 in call.shape:
        return e.constant(0, call.shape, call.element)
    dim = call["dim"] % len(call.shape)
    return e.concat([e.cast(value, call.element) for value in values], dim)


def _stack(e: Emitter, call: Call) -> Value | None:
    if 0 in call.shape:
        return e.constant(0, call.shape, call.element)
    dim = call["dim"] % len(call.shape)
    line = (*call.shape[:dim], 1, *call.shape[dim + 1 :])
    return e.concat([e.reshape(e.cast(value, call.element), line) for value in call["tensors"]], dim)


def _pad(e: Emitter, call: Call) -> Value | None:
    value, pad = call["self"], call["pad"]
    rank = len(call.shape)
    low, high = [0] * rank, [0] * rank
    for k in range(len(pad) // 2):
        low[rank - 1 - k], high[rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    if 0 in shape_of(value) or 0 in call.shape:
        return None
    for dim in range(rank):  # a negative width cuts
        start = max(0, -low[dim])
        value = e.slice(value, dim, start, shape_of(value)[dim] - start - max(0, -high[dim]))
    filler = e.constant(call["value"], (), call.element)
    return e.pad(value, [max(0, n) for n in low], [max(0, n) for n in high], filler)


def _repeat(e: Emitter, call: Call) -> Value | None:
    value, counts = call["self"], call["repeats"]
    shape = (1,) * (len(counts) - len(shape_of(value))) + shape_of(value)
    if 0 in call.shape:
        return e.constant(0, call.shape, call.element)
    split = [size for size in shape for size in (1, size)]
    wide = [n for count, size in zip(counts, shape, strict=True) for n in (count, size)]
    return e.reshape(e.broadcast(e.reshape(value, split), wide), call.shape)


def _roll(e: Emitter, call: Call) -> Value | None:
    value, shifts, dims = call["self"], call["shifts"], call["dims"]
    if not call.shape or 0 in call.shape or len(shifts) != len(dims):
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        dim %= len(call.shape)
        size = call.shape[dim]
        cut = -shift % size
        if cut:
            parts = [e.slice(value, dim, cut, size - cut), e.slice(value, dim, 0, cut)]
            value = e.concat(parts, dim)
    return value  # type: ignore[no-any-return]


def _triangle(predicate: str) -> Any:
    def lower(e: Emitter, call: Call) -> Value | None:
        value, shape = call["self"], call.shape
        rows, columns = e.iota(len(shape) - 2, shape), e.iota(len(shape) - 1, shape)
        distance = e.sub(columns, rows)
        keeps = e.compare(predicate, distance, e.like(distance, call["diagonal"]))
        return e.select(keeps, value, e.constant(0, shape, element(value)))

    return lower


def _diagonal(e: Emitter, call: Call) -> Value | None:
    """By a gather at places that are in bounds by construction."""
    value, shape = call["self"], shape_of(call["self"])
    a, b = call["dim1"] % len(shape), call["dim2"] % len(shape)
    if 0 in call.shape:
        return None
    order = [k for k in range(len(shape)) if k not in (a, b)] + [a, b]
    value = e.permute(value, order)
    offset, length = call["offset"], call.shape[-1]
    line = e.iota(0, (length,), types.i64)
    rows = e.add(line, e.like(line, max(0, -offset)))
    columns = e.add(line, e.like(line, max(0, offset)))
    return e.index(value, [rows, columns], len(shape) - 2)


LOWERINGS: dict[str, Any] = {
    "aten.reshape.default": _reshape,
    "aten.view.default": _reshape,
    "aten._unsafe_view.default": _reshape,
    "aten.unsqueeze.default": _reshape,
    "aten.squeeze.default": _reshape,
    "aten.squeeze.dim": _reshape,
    "aten.squeeze.dims": _reshape,
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _t,
    "aten.expand.default": _expand,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
    "aten.flip.default": _flip,
    "aten.cat.default": _cat,
    "aten.stack.default": _stack,
    "aten.constant_pad_nd.default": _pad,
    "aten.repeat.default": _repeat,
    "aten.roll.default": _roll,
    "aten.tril.default": _triangle("ole"),
    "aten.triu.default": _triangle("oge"),
    "aten.diagonal.default": _diagonal,
}
