"""Compute before a concatenation instead of after it, piece by piece.

    %0 = tensor.concat %a, %b                 %0 = arith.addf %a, 10
    %1 = arith.addf %0, 10            =>      %1 = arith.addf %b, 10
                                              %2 = tensor.concat %0, %1

The pieces then go to their place in one step, with what is computed from them.
"""

from __future__ import annotations

from lamina.ir.attributes import DenseElementsAttr, integers, plain
from lamina.ir.core import Block, Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.types import TensorType
from lamina.passes.fusion.graph import is_splat, kind_of, shape_of, tensor_type

MOST_PIECES = 8
"""Each piece computes everything anew: the code grows with them."""


def concat_last(block: Block) -> None:
    """One pass in program order, so that a chain of operations moves as a whole."""
    for operation in block:
        concat = _movable_concat(operation)
        if concat is not None:
            _move(operation, concat)


def _movable_concat(operation: Operation) -> Operation | None:
    """The concatenation that only this elementwise operation reads; the other operands are then sliced."""
    if not is_elementwise(operation) or kind_of(operation) == "outside":
        return None
    found: Operation | None = None
    for value in operation.operands:
        owner = value.defining_op
        if owner is None or owner.name != "tensor.concat":
            continue
        is_alone = found in (None, owner) and all(user is operation for user in value.users)
        if not is_alone or len(owner.operands) > MOST_PIECES:
            return None
        found = owner
    return found


def _move(operation: Operation, concat: Operation) -> None:
    builder = Builder.before_op(operation)
    dim, start = plain(concat.attributes["dim"]), 0
    element = tensor_type(operation.result).element
    pieces: list[Value] = []
    for piece in concat.operands:
        builder.location = operation.location
        operands = [
            piece if value is concat.result else _part(builder, value, dim, start, shape_of(piece)[dim])
            for value in operation.operands
        ]
        type_ = TensorType.get(shape_of(piece), element)
        pieces.append(builder.value(operation.name, operands, type_, operation.attributes))
        start += shape_of(piece)[dim]
    builder.location = concat.location
    moved = builder.value("tensor.concat", pieces, operation.result.type, {"dim": dim})
    operation.replace_with([moved])
    concat.erase()


def _part(builder: Builder, value: Value, dim: int, start: int, size: int) -> Value:
    """The slice [start, start + size) of a value along `dim`."""
    shape = shape_of(value)
    if is_splat(value):
        return _smaller_splat(builder, value, (*shape[:dim], size, *shape[dim + 1 :]))
    sizes = tuple(size if k == dim else whole for k, whole in enumerate(shape))
    offsets = tuple(start if k == dim else 0 for k in range(len(shape)))
    attributes = {
        "static_offsets": integers(*offsets),
        "static_sizes": integers(*sizes),
        "static_strides": integers(*(1 for _ in shape)),
    }
    type_ = TensorType.get(sizes, tensor_type(value).element)
    return builder.value("tensor.extract_slice", (value,), type_, attributes)


def _smaller_splat(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    operation = value.defining_op
    assert operation is not None
    dense = operation.attributes["value"]
    assert isinstance(dense, DenseElementsAttr)
    type_ = TensorType.get(shape, dense.type.element)
    splat = DenseElementsAttr.splat(dense.splat_value(), type_)
    return builder.value("arith.constant", (), type_, {"value": splat})
