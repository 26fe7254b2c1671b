"""`lamina`: the tensor operations that upstream lacks as values.

`lamina.kernel` is a fused region: one generated kernel, isolated from what is around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lamina.ir.attributes import Attribute, plain
from lamina.ir.core import Operation
from lamina.ir.ops.tensor import as_tensor
from lamina.ir.record import ISOLATED, PURE, TERMINATOR, Infer, Meaning, OpRecord
from lamina.ir.sizes import Size
from lamina.ir.types import TensorType, Type, i64

Array = Any
REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "xor", "argmax", "argmin")
"""Kinds of `lamina.reduce`. Float max and min give nan when any element is nan; argmax and argmin give
the i64 position of the first such element along the one reduced dimension (nan counts as largest, or
smallest). An empty sum is 0, an empty product 1."""


def _broadcast(x: Array, *, dims: list[int], shape: tuple[int, ...]) -> Array:
    expanded = [1] * len(shape)
    for position, dim in enumerate(dims):
        expanded[dim] = x.shape[position]
    return np.broadcast_to(x.reshape(expanded), shape)


def _verify_broadcast(operation: Operation) -> None:
    source, target = as_tensor(operation.operand().type), as_tensor(operation.result.type)
    dims = plain(operation.attributes["dims"])
    if len(dims) != source.rank or sorted(set(dims)) != dims or any(not 0 <= d < target.rank for d in dims):
        raise ValueError(f"dims {dims} must be increasing, one for each of {source.rank} operand dimensions")
    for size, dim in zip(source.shape, dims, strict=True):
        if size not in (1, target.shape[dim]):
            raise ValueError(f"size {size} does not broadcast to {target.shape[dim]} (dimension {dim})")


def _infer_permute(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    source = as_tensor(types[0])
    return (TensorType.get(tuple(source.shape[k] for k in plain(attributes["perm"])), source.element),)


def _same_type(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (types[0],)


def _infer_pad(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    source = as_tensor(types[0])
    columns = zip(source.shape, plain(attributes["low"]), plain(attributes["high"]), strict=True)
    return (TensorType.get(tuple(size + low + high for size, low, high in columns), source.element),)


def _pad(x: Array, value: Array, *, low: list[int], high: list[int]) -> Array:
    widths = np.array(list(zip(low, high, strict=True)), np.int64).reshape(-1, 2)
    return np.pad(x, widths, constant_values=value.reshape(())) if x.ndim else x


def _infer_reduce(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    source, dims = as_tensor(types[0]), plain(attributes["dims"])
    shape = tuple(size for k, size in enumerate(source.shape) if k not in dims)
    is_position = plain(attributes["kind"]).startswith("arg")
    return (TensorType.get(shape, i64 if is_position else source.element),)


def reduce_meaning(x: Array, *, kind: str, dims: list[int]) -> Array:
    """Sums in float64 for float32 and narrower (an oracle, not a model of the order of additions)."""
    axes = tuple(dims)
    if kind in ("argmax", "argmin"):
        return (np.argmax if kind == "argmax" else np.argmin)(x, axis=axes[0]).astype(np.int64)
    if kind in ("add", "mul"):
        wide = np.float64 if x.dtype.kind == "f" else x.dtype
        # NumPy's sum of -0.0 alone is -0.0 where it is not told to start at 0.
        total = x.sum(axes, wide, initial=0) if kind == "add" else x.prod(axes, wide)
        return total.astype(x.dtype)
    ufunc = {
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[kind]
    return ufunc.reduce(x, axis=axes)


def _verify_reduce(operation: Operation) -> None:
    kind, dims = plain(operation.attributes["kind"]), plain(operation.attributes["dims"])
    rank = as_tensor(operation.operand().type).rank
    if kind not in REDUCTIONS:
        raise ValueError(f"kind must be one of {', '.join(REDUCTIONS)}, got {kind!r}")
    if sorted(set(dims)) != dims or any(not 0 <= dim < rank for dim in dims):
        raise ValueError(f"dims {dims} must be increasing dimensions of a rank-{rank} tensor")
    if kind.startswith("arg") and len(dims) != 1:
        raise ValueError(f"{kind} reduces one dimension, got {dims}")


def _iota(*, dim: int, shape: tuple[int, ...], dtype: Any) -> Array:
    steps = np.arange(shape[dim], dtype=dtype).reshape([-1 if k == dim else 1 for k in range(len(shape))])
    return np.broadcast_to(steps, shape)


def _size(*, value: Size, shape: tuple[int, ...], dtype: Any) -> Array:
    if not isinstance(value, int):
        raise ValueError(f"the size {value} is known only at run time")
    return np.full(shape, value, dtype)


def infer_index(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    """Dimensions `dims` of the source are replaced, at the place of the first, by the index shape."""
    source, dims = as_tensor(types[0]), plain(attributes["dims"])
    index_shape = as_tensor(types[1]).shape
    before = [size for k, size in enumerate(source.shape) if k < dims[0]]
    after = [size for k, size in enumerate(source.shape) if k > dims[0] and k not in dims]
    return (TensorType.get((*before, *index_shape, *after), source.element),)


def index_meaning(x: Array, *indices: Array, dims: list[int]) -> Array:
    """Advanced indexing at consecutive `dims`; indices already lie within bounds (not negative)."""
    selection: list[Any] = [slice(None)] * x.ndim
    for dim, positions in zip(dims, indices, strict=True):
        selection[dim] = positions
    return x[tuple(selection)]


def _verify_index(operation: Operation) -> None:
    dims = plain(operation.attributes["dims"])
    if dims != list(range(dims[0], dims[0] + len(dims))) or len(operation.operands) != 1 + len(dims):
        raise ValueError(f"dims {dims} must be consecutive, with one index operand each")
    if len({value.type for value in operation.operands[1:]}) != 1:
        raise ValueError("index operands must have one type (broadcast them first)")


def _pure(
    name: str,
    operands: int | None,
    infer: Infer | None,
    meaning: Meaning | None,
    *attributes: str,
    verify: Any = None,
) -> OpRecord:
    return OpRecord(
        f"lamina.{name}", operands, 1, frozenset({PURE}), attributes, 0, infer, meaning, verify=verify
    )


RECORDS = (
    _pure("broadcast", 1, None, _broadcast, "dims", verify=_verify_broadcast),
    _pure("permute", 1, _infer_permute, lambda x, *, perm: np.transpose(x, perm), "perm"),
    _pure("reverse", 1, _same_type, lambda x, *, dims: np.flip(x, tuple(dims)), "dims"),
    _pure("size", 0, None, _size, "value"),
    _pure("iota", 0, None, _iota, "dim"),
    _pure("pad", 2, _infer_pad, _pad, "low", "high"),
    _pure("reduce", 1, _infer_reduce, reduce_meaning, "kind", "dims", verify=_verify_reduce),
    _pure("index", None, infer_index, index_meaning, "dims", verify=_verify_index),
    OpRecord(
        "lamina.kernel", None, None, frozenset({PURE, ISOLATED}), regions=1, optional=("kind", "sym_name")
    ),
    OpRecord("lamina.yield", None, 0, frozenset({TERMINATOR})),
)
"""`iota` counts 0, 1, 2, ... along `dim` in the result's integer type. `index` gathers: `index_meaning`.
`size` is a size that is known at run time, as an i64 of rank 0."""
