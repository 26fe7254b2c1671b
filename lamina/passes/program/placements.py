"""Where kernels write right into the buffer of a concatenation.

    %a = func.call @k0(%x)                    %c = program.alloc
    %b = func.call @k1(%y)              =>    program.launch @k0(%x, view of %c)
    %c = tensor.concat %a, %b {dim = 1}       program.launch @k1(%y, view of %c at an offset)

A kernel result is placed when its strides (`lamina.result_strides`, through the views up to the
concatenation) are those of its piece, and each result at most once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lamina.ir.attributes import plain
from lamina.ir.core import Operation, Value
from lamina.ir.types import MemRefType, TensorType
from lamina.passes.program.views import has_equal_strides, is_view, view_of


@dataclass(frozen=True, slots=True)
class Placement:
    """A kernel result lies in the buffer of `concat`, `offset` elements from its start."""

    concat: Operation
    offset: int


def piece_types(concat: Operation) -> list[tuple[MemRefType, int]]:
    """Type and offset of each operand's piece in the row-major buffer of the result."""
    result = concat.result.type
    assert isinstance(result, TensorType)
    whole = MemRefType.get(result.shape, result.element)
    dim = plain(concat.attributes["dim"])
    pieces, start = [], 0
    for value in concat.operands:
        assert isinstance(value.type, TensorType)
        step = whole.steps[dim]
        pieces.append((MemRefType.get(value.type.shape, result.element, whole.layout), start * step))
        start += value.type.sizes[dim]
    return pieces


def find_placements(
    function: Operation, result_type: Callable[[Value], MemRefType | None]
) -> dict[Value, Placement]:
    """Placements of kernel results; `result_type` gives a kernel result's buffer, None for other values."""
    placements: dict[Value, Placement] = {}
    for operation in function.body:
        if operation.name != "tensor.concat":
            continue
        for value, (piece, offset) in zip(operation.operands, piece_types(operation), strict=True):
            root, type_ = _kernel_view(value, result_type)
            if type_ is not None and root not in placements and has_equal_strides(type_, piece):
                placements[root] = Placement(operation, offset)
    return placements


def _kernel_view(
    value: Value, result_type: Callable[[Value], MemRefType | None]
) -> tuple[Value, MemRefType | None]:
    """The kernel result a value is a view of from its first element on, and the view's type."""
    chain: list[Operation] = []
    operation = value.defining_op
    while operation is not None and is_view(operation):
        chain.append(operation)
        value = operation.operand()
        operation = value.defining_op
    type_ = result_type(value)
    for step in reversed(chain):
        if type_ is None:
            break
        found = view_of(step, type_)
        type_ = found[0] if found is not None and found[1] == 0 else None
    return value, type_
