"""The strides that torch's CPU kernels give their results, from sizes and strides alone.

Dimensions of size 0 and 1 have strides too, which no element's place depends on and a program can ask for;
torch's shape rules often give others than its kernels. All strides count elements. Sources: ATen's
TensorIterator.cpp, ExpandUtils.cpp (infer_dense_strides), TensorUtils.cpp (computeStride), TensorImpl.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Ints: TypeAlias = tuple[int, ...]


class Layout(NamedTuple):
    """Sizes and strides of a tensor."""

    size: Ints
    stride: Ints


def contiguous_strides(size: Ints) -> Ints:
    """Strides of a fresh tensor; a size of 0 counts as 1."""
    strides = [1] * len(size)
    for dim in range(len(size) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(size[dim + 1], 1)
    return tuple(strides)


def is_contiguous(layout: Layout) -> bool:
    """Whether the elements stand in order without gaps; strides of dimensions of size 1 are not looked at."""
    if 0 in layout.size:
        return True
    expected = 1
    for size, stride in zip(reversed(layout.size), reversed(layout.stride), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


CHANNELS_LAST = (1, 3, 2, 0)
"""The dimensions of a (batch, channels, height, width) tensor, innermost first."""
CHANNELS_INNERMOST = {4: CHANNELS_LAST, 5: (1, 4, 3, 2, 0)}
"""The same by the number of dimensions."""


def is_channels_last(layout: Layout) -> bool:
    """Whether a tensor of four dimensions is contiguous with channels innermost."""
    if len(layout.size) != 4:
        return False
    expected = 1
    for dim in CHANNELS_LAST:
        if layout.size[dim] != 1:
            if layout.stride[dim] != expected:
                return False
            expected *= layout.size[dim]
    return True


def suggests_channels_last(layout: Layout) -> bool:
    """Whether strides grow as those of channels last do, gaps or not.

    Source: is_channels_last_strides_2d_s4 and _3d_s5 of c10/core/MemoryFormat.h.
    """
    order = CHANNELS_INNERMOST.get(len(layout.size))
    if order is None or layout.stride[1] == 0:
        return False
    least = 0
    for dim in order:
        size, stride = layout.size[dim], layout.stride[dim]
        if size == 0 or stride < least or (dim == 0 and least == layout.stride[1]):
            return False
        least = stride * size
    return True


def channels_last_strides(size: Ints) -> Ints:
    """Strides of a fresh channels-last tensor of four or five dimensions."""
    return _strides_in_order([max(length, 1) for length in size], CHANNELS_INNERMOST[len(size)])


def is_dense(layout: Layout) -> bool:
    """Whether the elements fill a piece of memory, in any order of the dimensions."""
    if is_contiguous(layout):
        return True
    size, stride = layout
    expected = 1
    for dim in sorted((dim for dim in range(len(size)) if size[dim] >= 2), key=stride.__getitem__):
        if stride[dim] != expected:
            return False
        expected *= size[dim]
    return True


def like_strides(layout: Layout) -> Ints:
    """Strides of `empty_like` in preserve_format: the tensor's own, without its gaps and overlaps."""
    if is_dense(layout):
        return layout.stride
    order = list(range(len(layout.size) - 1, -1, -1))
    _sort(order, [layout], layout.size)
    return _strides_in_order([max(length, 1) for length in layout.size], order)


def elementwise_strides(operands: Sequence[Layout]) -> Ints:
    """Strides of an elementwise kernel's fresh result: from the operands' order of dimensions, first comes
    first.
    """
    size = broadcast_size([each.size for each in operands])
    # Ranks first: sizes may be symbolic, and what is asked of them becomes a guard.
    if all(len(each.size) == len(size) and each.size == size for each in operands):
        if all(map(is_contiguous, operands)):
            return contiguous_strides(size)
        if all(map(is_channels_last, operands)):
            return channels_last_strides(size)
        if all(map(is_dense, operands)) and all(each.stride == operands[0].stride for each in operands):
            return operands[0].stride
    order = list(range(len(size) - 1, -1, -1))
    if len(size) > 1:
        _sort(order, [_broadcast(each, size) for each in operands], size)
    if order == list(range(len(size) - 1, -1, -1)):
        return contiguous_strides(size)
    return _strides_in_order(size, order)


def broadcast_size(sizes: Sequence[Ints]) -> Ints:
    """The size that sizes are broadcast to; they must be compatible."""
    rank = max(map(len, sizes), default=0)
    found = [1] * rank
    for size in sizes:
        for dim, length in enumerate(size, rank - len(size)):
            if length != 1:
                found[dim] = length
    return tuple(found)


def _broadcast(layout: Layout, size: Ints) -> Layout:
    """Stride 0 in the dimensions that a tensor is repeated along."""
    missing = len(size) - len(layout.size)
    strides = [
        0 if own == 1 and whole != 1 else stride
        for own, stride, whole in zip(layout.size, layout.stride, size[missing:], strict=True)
    ]
    return Layout(size, (0,) * missing + tuple(strides))


def _sort(order: list[int], operands: Sequence[Layout], size: Ints) -> None:
    """Sort dimensions innermost first, by insertion: the comparison is no total order."""
    for place in range(1, len(order)):
        high = place
        for low in range(place - 1, -1, -1):
            comparison = _compare(order[low], order[high], operands, size)
            if comparison > 0:
                order[low], order[high] = order[high], order[low]
                high = low
            elif comparison < 0:
                break


def _compare(one: int, other: int, operands: Sequence[Layout], size: Ints) -> int:
    """Positive where `other` is the inner one of two dimensions, negative where `one` is, 0 unknown."""
    for operand in operands:
        a, b = operand.stride[one], operand.stride[other]
        if a == 0 or b == 0:
            continue
        if a != b:
            return 1 if a > b else -1
        if size[one] > size[other]:
            return 1
    return 0


def _strides_in_order(size: Sequence[int], order: Sequence[int]) -> Ints:
    strides = [0] * len(size)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= size[dim]
    return tuple(strides)


def view_strides(layout: Layout, size: Ints) -> Ints | None:
    """Strides of a view with another size, None where there is none."""
    if not layout.size:
        return (1,) * len(size)
    if 0 in layout.size:
        return layout.stride if size == layout.size else contiguous_strides(size)
    strides = [0] * len(size)
    dim = len(size) - 1
    chunk, base, taken = 1, layout.stride[-1], 1
    for old in range(len(layout.size) - 1, -1, -1):
        chunk *= layout.size[old]
        if old > 0 and (layout.size[old - 1] == 1 or layout.stride[old - 1] == chunk * base):
            continue
        while dim >= 0 and (taken < chunk or size[dim] == 1):
            strides[dim] = taken * base
            taken *= size[dim]
            dim -= 1
        if taken != chunk:
            return None
        if old > 0:
            base, chunk, taken = layout.stride[old - 1], 1, 1
    return tuple(strides) if dim == -1 else None
