"""Reduce in two steps where one step would leave processors idle or walk memory across its grain.

    %0 = lamina.reduce %x {add, dims = [0]} : tensor<1048576xf32> to tensor<f32>
 =>
    %1 = tensor.expand_shape %x : tensor<64x16384xf32>
    %2 = lamina.reduce %1 {add, dims = [1]} : tensor<64xf32>
    %0 = lamina.reduce %2 {add, dims = [0]} : tensor<f32>

Kernels run in parallel over what is kept: a large reduction to few elements is cut into pieces. And where a
short run of innermost elements is reduced together with outer dimensions (group norm of channels-last
images), the outer ones go first, whole rows at a time. Sums of floats are taken in another order, as good as
before.
"""

from __future__ import annotations

from math import prod

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.passes import Context
from lamina.ir.sizes import hint, is_static
from lamina.ir.types import TensorType
from lamina.passes.tensor.reshape import reshape, static_shape

NAME = "split_reduction"
KINDS = frozenset({"add", "mul", "max", "min", "and", "or", "xor"})
LARGE = 1 << 16
"""Elements reduced to one from which on a second kernel costs little beside the first."""
PIECES = 64
"""At most: more than the cores, so that they finish together; few enough for the second step."""
SHORT_RUN = 64
"""Innermost elements below which reducing along them leaves vectors half empty."""


def run(module: Operation, context: Context) -> None:
    """Split reductions everywhere in the module."""
    cores = context.target.cores if context.target is not None else 1
    for operation in module.walk():
        if operation.name != "lamina.reduce" or plain(operation.attributes["kind"]) not in KINDS:
            continue
        made = _outer_first(operation) or _in_pieces(operation, cores)
        if made is None:
            continue
        context.remarks.add(
            NAME, operation.location, f"reduction of {operation.operand().type} in two steps", "applied"
        )
        operation.replace_with([made])


def _outer_first(operation: Operation) -> Value | None:
    """Where dimensions are kept between a short innermost run and the others that are reduced."""
    sizes, dims = static_shape(operation.operand()), plain(operation.attributes["dims"])
    kept = [dim for dim in range(len(sizes)) if dim not in dims and sizes[dim] > 1]
    if not kept:
        return None
    inner = [dim for dim in dims if dim > kept[-1]]
    outer = [dim for dim in dims if dim < kept[-1]]
    if not inner or prod(hint(sizes[dim]) for dim in inner) >= SHORT_RUN:
        return None
    if prod(hint(sizes[dim]) for dim in outer) < SHORT_RUN:
        return None
    builder = Builder.before_op(operation)
    first = _reduce(builder, operation, operation.operand(), outer)
    left = [dim for dim in range(len(sizes)) if dim not in outer]
    return _reduce(builder, operation, first, [left.index(dim) for dim in inner])


def _in_pieces(operation: Operation, cores: int) -> Value | None:
    """Where too few elements are kept to give every core work."""
    sizes, dims = static_shape(operation.operand()), plain(operation.attributes["dims"])
    kept = prod(hint(size) for dim, size in enumerate(sizes) if dim not in dims)
    reduced = prod(hint(sizes[dim]) for dim in dims)
    if kept >= 2 * cores or reduced < LARGE:
        return None
    split = next((dim for dim in dims if _pieces_of(sizes[dim]) > 1), None)
    if split is None:
        return None
    pieces = _pieces_of(sizes[split])
    builder = Builder.before_op(operation)
    shape = [*sizes[:split], pieces, sizes[split] // pieces, *sizes[split + 1 :]]
    cut = reshape(builder, operation.operand(), shape)
    first = _reduce(builder, operation, cut, [dim + (dim >= split) for dim in dims])
    place = sum(dim not in dims for dim in range(split))
    return _reduce(builder, operation, first, [place])


def _pieces_of(size: int) -> int:
    """The largest number of equal pieces, up to PIECES; 1 where the size is known only at run time."""
    if not is_static((size,)):
        return 1
    return next(pieces for pieces in range(min(PIECES, max(size, 1)), 0, -1) if size % pieces == 0)


def _reduce(builder: Builder, operation: Operation, value: Value, dims: list[int]) -> Value:
    sizes = static_shape(value)
    assert isinstance(value.type, TensorType)
    type_ = TensorType.get(
        tuple(size for dim, size in enumerate(sizes) if dim not in dims), value.type.element
    )
    attributes = {**operation.attributes, "dims": integers(*dims)}
    return builder.value("lamina.reduce", [value], type_, attributes)
