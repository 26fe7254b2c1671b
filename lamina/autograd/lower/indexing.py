"""Gathers by index tensors.

Eager raises on an index out of bounds; a kernel cannot. So a gather becomes a kernel's load only where the
indices are known here to be in bounds (`range_of`), or together with an assertion on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.autograd.lower.dtypes import element, shape_of
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir import types
from lamina.ir.attributes import STORAGE, DenseElementsAttr, IntegerAttr
from lamina.ir.core import Value


def range_of(value: Value, depth: int = 12) -> tuple[int, int] | None:
    """Bounds of an integer tensor made of iotas and constants; None when nothing is known."""
    operation = value.defining_op
    if operation is None or depth == 0:
        return None
    if operation.name == "arith.constant":
        dense = operation.attributes["value"]
        if not isinstance(dense, DenseElementsAttr) or not dense.bytes_:
            return None
        numbers = np.frombuffer(dense.bytes_, STORAGE[element(value).name])
        return int(numbers.min()), int(numbers.max())
    if operation.name == "lamina.iota":
        dim = operation.attributes["dim"]
        assert isinstance(dim, IntegerAttr)
        return 0, max(0, shape_of(value)[dim.value] - 1)
    if operation.name in MOVES:
        return range_of(operation.operand(0), depth - 1)
    ranges = [range_of(operand, depth - 1) for operand in operation.operands]
    if len(ranges) != 2 or ranges[0] is None or ranges[1] is None:
        return None
    return _combined(operation.name, ranges[0], ranges[1])


MOVES = frozenset(
    {
        "lamina.broadcast",
        "lamina.permute",
        "lamina.reverse",
        "tensor.extract_slice",
        "tensor.collapse_shape",
        "tensor.expand_shape",
    }
)


def _combined(name: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    if name == "arith.addi":
        result = (a[0] + b[0], a[1] + b[1])
    elif name == "arith.subi":
        result = (a[0] - b[1], a[1] - b[0])
    elif name == "arith.muli":
        products = [x * y for x in a for y in b]
        result = (min(products), max(products))
    else:
        return None
    return result if max(abs(result[0]), abs(result[1])) < 2**62 else None


def bounded(e: Emitter, index: Value, size: int, message: str) -> Value:
    """The index with negative entries counted from the end, asserted to be within `size`."""
    known = range_of(index)
    if known is not None and known[0] >= 0 and known[1] < size:
        return index
    zero, length = e.like(index, 0), e.like(index, size)
    is_negative = e.compare("olt", index, zero)
    wrapped = e.select(is_negative, e.add(index, length), index)
    if known is None or known[0] < -size or known[1] >= size:
        inside = e.op("arith.andi", e.compare("oge", wrapped, zero), e.compare("olt", wrapped, length))
        e.require(inside, message)
        # The load must stay inside whatever happens after the assertion.
        wrapped = e.minimum(e.maximum(wrapped, zero), e.like(index, size - 1))
    return wrapped


def _index(e: Emitter, call: Call) -> Value | None:
    """x[i], x[:, i, j]: index tensors at consecutive dims."""
    value, indices = call["self"], call["indices"]
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    shape = shape_of(value)
    if not dims or dims != list(range(dims[0], dims[0] + len(dims))) or 0 in shape or 0 in call.shape:
        return None
    if any(element(indices[dim]) not in (types.i64, types.i32) for dim in dims):
        return None
    rank = len(call.shape) - (len(shape) - len(dims))
    index_shape = call.shape[dims[0] : dims[0] + rank]
    places = []
    for dim in dims:
        index = bounded(e, e.cast(indices[dim], types.i64), shape[dim], "index: an index is out of bounds")
        places.append(e.broadcast(index, index_shape))
    return e.index(value, places, dims[0])


def _index_select(e: Emitter, call: Call) -> Value | None:
    value, index = call["self"], call["index"]
    shape = shape_of(value)
    if not shape or 0 in shape or 0 in call.shape or len(shape_of(index)) != 1:
        return None
    dim = call["dim"] % len(shape)
    known = range_of(index)
    if known is None or known[0] < 0 or known[1] >= shape[dim]:
        return None
    return e.index(value, [e.cast(index, types.i64)], dim)


def _embedding(e: Emitter, call: Call) -> Value | None:
    weight, index = call["weight"], call["indices"]
    known = range_of(index)
    if known is None or known[0] < 0 or known[1] >= shape_of(weight)[0] or 0 in call.shape:
        return None
    return e.index(weight, [e.cast(index, types.i64)], 0)


LOWERINGS: dict[str, Any] = {
    "aten.index.Tensor": _index,
    "aten.index_select.default": _index_select,
    "aten.embedding.default": _embedding,
}
