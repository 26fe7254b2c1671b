"""The structural rules `canonicalize` applies: operations that only place elements.

    %0 = lamina.permute %x {perm = [1, 0]}
    %1 = lamina.permute %0 {perm = [1, 0]}      =>      %x

Each rule gets an operation and a builder before it, and gives the value to use instead, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.types import TensorType, i64
from lamina.passes.tensor.fold import make_splat, splat_constant
from lamina.passes.tensor.reshape import reshape, static_shape, steps

Rule: TypeAlias = Callable[[Operation, Builder], Value | None]


def drop_identity_permute(operation: Operation, builder: Builder) -> Value | None:
    """permute x {0, 1, ..} => x"""
    perm = _ints(operation, "perm")
    return operation.operand() if perm == list(range(len(perm))) else None


def merge_permutes(operation: Operation, builder: Builder) -> Value | None:
    """permute (permute x {p}) {q} => permute x {p[q]}"""
    inner = _made_by(operation.operand(), "lamina.permute")
    if inner is None:
        return None
    before = _ints(inner, "perm")
    perm = [before[k] for k in _ints(operation, "perm")]
    return builder.value(
        "lamina.permute", [inner.operand()], operation.result.type, {"perm": integers(*perm)}
    )


def permute_of_ones(operation: Operation, builder: Builder) -> Value | None:
    """permute x that moves only dimensions of size 1 => reshape x"""
    sizes = static_shape(operation.operand())
    moved = [k for k in _ints(operation, "perm") if sizes[k] != 1]
    if moved != sorted(moved):
        return None
    return reshape(builder, operation.operand(), static_shape(operation.result))


def merge_reshapes(operation: Operation, builder: Builder) -> Value | None:
    """reshape (reshape x) => the shortest way, collapse first"""
    shapes = [static_shape(operation.result)]
    source = operation.operand()
    chain = [source]
    while (inner := _made_by(source, "tensor.collapse_shape", "tensor.expand_shape")) is not None:
        shapes.append(static_shape(source))
        source = inner.operand()
        chain.append(source)
    for origin in reversed(chain):
        way = steps(static_shape(origin), shapes[0])
        taken = shapes[: chain.index(origin) + 1][::-1]
        if way != taken:
            return reshape(builder, origin, shapes[0])
    return None


def drop_identity_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """broadcast x to its own shape => x"""
    return operation.operand() if operation.operand().type is operation.result.type else None


def broadcast_of_ones(operation: Operation, builder: Builder) -> Value | None:
    """broadcast x that adds only dimensions of size 1 => reshape x"""
    source, target = static_shape(operation.operand()), static_shape(operation.result)
    if [size for size in source if size != 1] != [size for size in target if size != 1]:
        return None
    return reshape(builder, operation.operand(), target)


def merge_broadcasts(operation: Operation, builder: Builder) -> Value | None:
    """broadcast (broadcast x {p}) {q} => broadcast x {q[p]}"""
    inner = _made_by(operation.operand(), "lamina.broadcast")
    if inner is None:
        return None
    outer = _ints(operation, "dims")
    dims = [outer[k] for k in _ints(inner, "dims")]
    return builder.value(
        "lamina.broadcast", [inner.operand()], operation.result.type, {"dims": integers(*dims)}
    )


def broadcast_without_ones(operation: Operation, builder: Builder) -> Value | None:
    """broadcast (expand x by ones) => broadcast x"""
    inner = _made_by(operation.operand(), "tensor.expand_shape")
    if inner is None:
        return None
    dims, long = _ints(operation, "dims"), static_shape(operation.operand())
    short = static_shape(inner.operand())
    kept: list[int] = []
    for group, size in zip(plain(inner.attributes["reassociation"]), short, strict=True):
        real = [k for k in group if long[k] != 1] or group[:1]
        if len(real) != 1 or long[real[0]] != size:
            return None
        kept.append(dims[real[0]])
    return builder.value(
        "lamina.broadcast", [inner.operand()], operation.result.type, {"dims": integers(*kept)}
    )


def drop_identity_slice(operation: Operation, builder: Builder) -> Value | None:
    """extract_slice of all of x => x"""
    return operation.operand() if operation.operand().type is operation.result.type else None


def merge_slices(operation: Operation, builder: Builder) -> Value | None:
    """extract_slice (extract_slice x) => extract_slice x"""
    inner = _made_by(operation.operand(), "tensor.extract_slice")
    if inner is None:
        return None
    (start, sizes, step), (first, _, pace) = _slice_of(operation), _slice_of(inner)
    offsets = [f + s * p for f, s, p in zip(first, start, pace, strict=True)]
    strides = [s * p for s, p in zip(step, pace, strict=True)]
    return _make_slice(builder, inner.operand(), offsets, sizes, strides)


def slice_of_concat(operation: Operation, builder: Builder) -> Value | None:
    """extract_slice (concat a b), all within b => extract_slice b"""
    inner = _made_by(operation.operand(), "tensor.concat")
    if inner is None:
        return None
    offsets, sizes, strides = _slice_of(operation)
    dim, start = plain(inner.attributes["dim"]), 0
    for part in inner.operands:
        size = static_shape(part)[dim]
        last = offsets[dim] + (sizes[dim] - 1) * strides[dim]
        if sizes[dim] and start <= offsets[dim] and last < start + size:
            moved = [at - start if k == dim else at for k, at in enumerate(offsets)]
            return _make_slice(builder, part, moved, sizes, strides)
        start += size
    return None


def slice_of_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """extract_slice (broadcast x) => broadcast (extract_slice x)"""
    inner = _made_by(operation.operand(), "lamina.broadcast")
    if inner is None:
        return None
    source, dims = inner.operand(), _ints(inner, "dims")
    shape, target = static_shape(source), static_shape(operation.operand())
    columns = list(zip(*_slice_of(operation), strict=True))
    # A dimension of size 1 that is repeated is taken whole.
    chosen = [
        (0, 1, 1) if size == 1 and target[dim] != 1 else columns[dim]
        for size, dim in zip(shape, dims, strict=True)
    ]
    offsets, sizes, strides = zip(*chosen, strict=True) if chosen else ((), (), ())
    if 0 in sizes or 0 in static_shape(operation.result):
        return None
    part = _make_slice(builder, source, offsets, sizes, strides)
    return builder.value("lamina.broadcast", [part], operation.result.type, {"dims": integers(*dims)})


def drop_single_concat(operation: Operation, builder: Builder) -> Value | None:
    """concat x => x; empty parts are left out"""
    dim = plain(operation.attributes["dim"])
    parts = [value for value in operation.operands if static_shape(value)[dim] != 0]
    if len(parts) == 1:
        return parts[0]
    if not parts or len(parts) == len(operation.operands):
        return None
    return builder.value("tensor.concat", parts, operation.result.type, {"dim": dim})


def merge_concats(operation: Operation, builder: Builder) -> Value | None:
    """concat a (concat b c) => concat a b c, where only this one uses the inner"""
    dim = plain(operation.attributes["dim"])
    parts: list[Value] = []
    for value in operation.operands:
        inner = _made_by(value, "tensor.concat")
        is_same = inner is not None and value.has_one_use and plain(inner.attributes["dim"]) == dim
        parts.extend(inner.operands if inner is not None and is_same else [value])
    if len(parts) == len(operation.operands):
        return None
    return builder.value("tensor.concat", parts, operation.result.type, {"dim": dim})


def join_slices(operation: Operation, builder: Builder) -> Value | None:
    """concat of neighbouring slices of x => one slice of x"""
    dim = plain(operation.attributes["dim"])
    slices = [_made_by(value, "tensor.extract_slice") for value in operation.operands]
    known = [piece for piece in slices if piece is not None]
    if len(known) != len(slices) or len({piece.operand() for piece in known}) != 1:
        return None
    columns = [_slice_of(piece) for piece in known]
    for before, after in pairwise(columns):
        (start, sizes, strides), (next_start, next_sizes, next_strides) = before, after
        if strides[dim] != 1 or strides != next_strides or next_start[dim] != start[dim] + sizes[dim]:
            return None
        others = [k for k in range(len(start)) if k != dim]
        if any(start[k] != next_start[k] or sizes[k] != next_sizes[k] for k in others):
            return None
    offsets, _, strides = columns[0]
    return _make_slice(builder, known[0].operand(), offsets, static_shape(operation.result), strides)


def drop_identity_reverse(operation: Operation, builder: Builder) -> Value | None:
    """reverse x along dimensions of size 1 => x; reverse (reverse x) => x"""
    sizes, dims = static_shape(operation.operand()), _ints(operation, "dims")
    if all(sizes[dim] <= 1 for dim in dims):
        return operation.operand()
    inner = _made_by(operation.operand(), "lamina.reverse")
    return inner.operand() if inner is not None and sorted(_ints(inner, "dims")) == sorted(dims) else None


def drop_zero_pad(operation: Operation, builder: Builder) -> Value | None:
    """pad x by nothing => x"""
    is_zero = not any(_ints(operation, "low")) and not any(_ints(operation, "high"))
    return operation.operand() if is_zero else None


def reduce_over_ones(operation: Operation, builder: Builder) -> Value | None:
    """reduce x over dimensions of size 1 => reshape x

    The position of a largest one is 0. A sum of floats is x + 0.0, which is 0.0 where x is -0.0.
    """
    value = operation.operand()
    sizes, dims, type_ = static_shape(value), _ints(operation, "dims"), value.type
    if any(sizes[dim] != 1 for dim in dims) or not isinstance(type_, TensorType):
        return None
    kind = plain(operation.attributes["kind"])
    if kind.startswith("arg"):
        return make_splat(builder, 0, TensorType.get(static_shape(operation.result), i64))
    if kind == "add" and type_.element.is_float:
        value = builder.value("arith.addf", [value, make_splat(builder, 0.0, type_)], type_)
    return reshape(builder, value, static_shape(operation.result))


def merge_reductions(operation: Operation, builder: Builder) -> Value | None:
    """reduce (reduce x) of one kind => reduce x, where no rounding is involved"""
    inner = _made_by(operation.operand(), "lamina.reduce")
    kind = plain(operation.attributes["kind"])
    if inner is None or plain(inner.attributes["kind"]) != kind or kind.startswith("arg"):
        return None
    type_ = operation.result.type
    is_rounding = kind in ("add", "mul") and isinstance(type_, TensorType) and type_.element.is_float
    if is_rounding or not operation.operand().has_one_use:
        return None
    gone = _ints(inner, "dims")
    left = [k for k in range(len(static_shape(inner.operand()))) if k not in gone]
    dims = sorted(gone + [left[k] for k in _ints(operation, "dims")])
    return builder.value("lamina.reduce", [inner.operand()], type_, {"kind": kind, "dims": integers(*dims)})


def hoist_from_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """op (broadcast x) (broadcast y) splat => broadcast (op x y splat): less to compute"""
    operands = operation.operands
    numbers = [splat_constant(value) for value in operands]
    inner = [_made_by(value, "lamina.broadcast") for value in operands]
    made = [found for found in inner if found is not None]
    is_open = any(one is None and number is None for one, number in zip(inner, numbers, strict=True))
    result = operation.result.type
    if not made or is_open or not isinstance(result, TensorType) or len(operation.results) != 1:
        return None
    dims, shape = _ints(made[0], "dims"), static_shape(made[0].operand())
    if any(_ints(found, "dims") != dims or static_shape(found.operand()) != shape for found in made):
        return None
    if not all(found.result.has_one_use or len(made) == 1 for found in made):
        return None
    small: list[Value] = []
    for value, found, number in zip(operands, inner, numbers, strict=True):
        if found is not None:
            small.append(found.operand())
        elif number is not None and isinstance(value.type, TensorType):
            small.append(make_splat(builder, number, TensorType.get(shape, value.type.element)))
    part = builder.value(operation.name, small, TensorType.get(shape, result.element), operation.attributes)
    return builder.value("lamina.broadcast", [part], result, {"dims": integers(*dims)})


BY_OPERATION: dict[str, tuple[Rule, ...]] = {
    "lamina.permute": (drop_identity_permute, merge_permutes, permute_of_ones),
    "tensor.collapse_shape": (merge_reshapes,),
    "tensor.expand_shape": (merge_reshapes,),
    "lamina.broadcast": (
        drop_identity_broadcast, merge_broadcasts, broadcast_of_ones, broadcast_without_ones,
    ),
    "tensor.extract_slice": (drop_identity_slice, merge_slices, slice_of_concat, slice_of_broadcast),
    "tensor.concat": (drop_single_concat, merge_concats, join_slices),
    "lamina.reverse": (drop_identity_reverse,),
    "lamina.pad": (drop_zero_pad,),
    "lamina.reduce": (reduce_over_ones, merge_reductions),
}  # fmt: skip
"""The rules of each operation, tried in order; `hoist_from_broadcast` is for every elementwise one."""


def rules_of(operation: Operation) -> tuple[Rule, ...]:
    """The structural rules that may apply to an operation."""
    rules = BY_OPERATION.get(operation.name, ())
    return (hoist_from_broadcast,) if is_elementwise(operation) and operation.operands else rules


def _ints(operation: Operation, name: str) -> list[int]:
    values: Any = plain(operation.attributes[name])
    return list(values)


def _made_by(value: Value, *names: str) -> Operation | None:
    operation = value.defining_op
    return operation if operation is not None and operation.name in names else None


def _slice_of(operation: Operation) -> tuple[list[int], list[int], list[int]]:
    return (
        _ints(operation, "static_offsets"),
        _ints(operation, "static_sizes"),
        _ints(operation, "static_strides"),
    )


def _make_slice(builder: Builder, source: Value, offsets: Any, sizes: Any, strides: Any) -> Value:
    assert isinstance(source.type, TensorType)
    attributes = {
        "static_offsets": integers(*offsets),
        "static_sizes": integers(*sizes),
        "static_strides": integers(*strides),
    }
    type_ = TensorType.get(tuple(sizes), source.type.element)
    return builder.value("tensor.extract_slice", [source], type_, attributes)
