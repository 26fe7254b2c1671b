"""Reshapes in `tensor.collapse_shape` and `tensor.expand_shape`: at most one of each, in this order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lamina.ir.attributes import integers
from lamina.ir.core import Builder, Value
from lamina.ir.types import TensorType

Groups = list[list[int]]


def reshape(builder: Builder, value: Value, shape: Sequence[int]) -> Value:
    """`value` with the same elements in row-major order under another shape (of an equal count)."""
    for step in steps(static_shape(value), tuple(shape)):
        value = _step(builder, value, step)
    return value


def extract_slice(builder: Builder, value: Value, offsets: Sequence[int], sizes: Sequence[int]) -> Value:
    """The elements of `value` from `offsets` on, as many as `sizes` in each dimension."""
    assert isinstance(value.type, TensorType)
    attributes = {
        "static_offsets": integers(*offsets),
        "static_sizes": integers(*sizes),
        "static_strides": integers(*[1] * len(sizes)),
    }
    type_ = TensorType.get(tuple(sizes), value.type.element)
    return builder.value("tensor.extract_slice", [value], type_, attributes)


def static_shape(value: Value) -> tuple[int, ...]:
    """The shape of a tensor value; ValueError when it is no tensor."""
    type_ = value.type
    if not isinstance(type_, TensorType):
        raise ValueError(f"needs a tensor, got {type_}")
    return type_.sizes


def steps(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes to go through from `source`, `target` last; empty when they are equal."""
    if source == target:
        return []
    if grouping(source, target) is not None or grouping(target, source) is not None:
        return [target]
    return [_meeting(source, target), target]


def grouping(long: tuple[int, ...], short: tuple[int, ...]) -> Groups | None:
    """Which consecutive dimensions of `long` make each dimension of `short`; None when they do not.

    Ones of `long` go to the group at their left where that is complete, leading ones to the first group.
    """
    if not short:
        return [] if all(size == 1 for size in long) else None
    if len(short) == 1:
        return [list(range(len(long)))] if long and prod(long) == short[0] else None
    groups: Groups = []
    at = 0
    for size in short:
        group: list[int] = []
        product = 1
        while at < len(long) and (not group or product != size):
            group.append(at)
            product *= long[at]
            at += 1
        if not group or product != size:
            return None
        groups.append(group)
    rest = range(at, len(long))
    if any(long[k] != 1 for k in rest):
        return None
    groups[-1].extend(rest)
    return groups


def _meeting(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """The finest shape both shapes can be collapsed to."""
    if 0 in source:
        return (0,)
    shape: list[int] = []
    left = right = 0
    while left < len(source) or right < len(target):
        a = b = 1
        while True:
            if a <= b and left < len(source):
                a *= source[left]
                left += 1
            elif right < len(target):
                b *= target[right]
                right += 1
            if a == b and (a > 1 or (left == len(source) and right == len(target))):
                break
        if a > 1 or not shape:
            shape.append(a)
    return tuple(shape)


def _step(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    source = static_shape(value)
    assert isinstance(value.type, TensorType)
    type_ = TensorType.get(shape, value.type.element)
    collapsed = grouping(source, shape) if len(shape) <= len(source) else None
    if collapsed is not None:
        return builder.value("tensor.collapse_shape", [value], type_, {"reassociation": collapsed})
    attributes = {"reassociation": grouping(shape, source), "static_output_shape": integers(*shape)}
    return builder.value("tensor.expand_shape", [value], type_, attributes)
