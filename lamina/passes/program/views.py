"""Views of a buffer: the memref type and element offset that a structural tensor operation amounts to.

lamina.permute {perm = [1, 0]} of memref<4x8xf32>   =>   memref<8x4xf32, strided<[1, 8]>>, offset 0
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.ir.attributes import plain
from lamina.ir.core import Operation
from lamina.ir.types import MemRefType, TensorType

View = tuple[tuple[int, ...], int]
"""Strides of the view and its offset from the start of the source, in elements."""


def _permute(operation: Operation, source: MemRefType, target: TensorType) -> View | None:
    return tuple(source.steps[k] for k in plain(operation.attributes["perm"])), 0


def _broadcast(operation: Operation, source: MemRefType, target: TensorType) -> View | None:
    strides = [0] * target.rank
    for position, dim in enumerate(plain(operation.attributes["dims"])):
        if source.shape[position] == target.shape[dim]:
            strides[dim] = source.steps[position]
    return tuple(strides), 0


def _slice(operation: Operation, source: MemRefType, target: TensorType) -> View | None:
    starts, steps = (plain(operation.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
    offset = sum(start * stride for start, stride in zip(starts, source.steps, strict=True))
    return tuple(step * stride for step, stride in zip(steps, source.steps, strict=True)), offset


def _reshape(operation: Operation, source: MemRefType, target: TensorType) -> View | None:
    strides = reshape_strides(source.sizes, source.steps, target.sizes)
    return None if strides is None else (strides, 0)


def reshape_strides(
    old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of a reshape that moves no data, or None when data would have to move.

    Sizes of 1 are free; runs of old dimensions that are contiguous among themselves are split anew.
    """
    if 0 in old:
        steps, step = [], 1
        for size in reversed(new):
            steps.append(step)
            step *= max(size, 1)
        return tuple(reversed(steps))
    runs: list[tuple[int, int]] = []
    for size, stride in zip(old, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    result = [0] * len(new)
    at = len(new) - 1
    for total, stride in reversed(runs):
        while total > 1:
            if at < 0 or total % new[at]:
                return None
            result[at] = stride
            stride *= new[at]
            total //= new[at]
            at -= 1
    step = 1
    for k in range(len(new) - 1, -1, -1):
        if new[k] == 1:
            result[k] = step
        step = result[k] * new[k]
    return tuple(result)


_RULES: dict[str, Callable[[Operation, MemRefType, TensorType], View | None]] = {
    "lamina.permute": _permute,
    "lamina.broadcast": _broadcast,
    "tensor.extract_slice": _slice,
    "tensor.collapse_shape": _reshape,
    "tensor.expand_shape": _reshape,
}


def is_view(operation: Operation) -> bool:
    """Whether the operation can be a view of its operand's buffer (a reshape may still need a copy)."""
    return operation.name in _RULES


def view_of(operation: Operation, source: MemRefType) -> tuple[MemRefType, int] | None:
    """Type of the view and its offset in elements; None when the operation must move data."""
    target = operation.result.type
    assert isinstance(target, TensorType)
    found = _RULES[operation.name](operation, source, target)
    if found is None:
        return None
    strides, offset = found
    return MemRefType.get(target.shape, target.element, strides), offset


def has_equal_strides(have: MemRefType, want: MemRefType) -> bool:
    """Whether both describe the same places: sizes of 1 have a stride that says nothing."""
    pairs = zip(have.shape, have.layout, want.layout, strict=True)
    return have.shape == want.shape and (0 in have.shape or all(size == 1 or a == b for size, a, b in pairs))
