"""Strides of the values of @main that lie in memory: arguments, library results, kernel results, views of
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ir.attributes import ArrayAttr, plain
from lamina.ir.core import Operation, OpResult, Value
from lamina.ir.types import MemRefType
from lamina.passes.fusion.graph import shape_of, tensor_type
from lamina.passes.program.views import is_view, view_of

Strides = tuple[int, ...]


def contiguous(shape: Sequence[int]) -> Strides:
    """Row-major strides in elements; sizes of 0 count as 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def stated_strides(operation: Operation, key: str, position: int) -> Strides | None:
    """What an attribute [[...], ...] says of one value; None when it says nothing."""
    stated = operation.attributes.get(key)
    if not isinstance(stated, ArrayAttr) or position >= len(stated.elements):
        return None
    strides = plain(stated.elements[position])
    return tuple(strides) if isinstance(strides, list) else None


class Layouts:
    """Strides of values, worked out when first asked."""

    def __init__(self, function: Operation) -> None:
        self.known: dict[Value, Strides] = {}
        for position, argument in enumerate(function.body.arguments):
            strides = stated_strides(function, "lamina.arg_strides", position)
            if strides is not None:
                self.known[argument] = strides

    def of(self, value: Value) -> Strides:
        """Strides in elements."""
        found = self.known.get(value)
        if found is None:
            found = self._work_out(value)
            self.known[value] = found
        return found

    def _work_out(self, value: Value) -> Strides:
        operation = value.defining_op
        shape = shape_of(value)
        if operation is None or not isinstance(value, OpResult):
            return contiguous(shape)
        if is_view(operation):
            source = operation.operand()
            type_ = MemRefType.get(shape_of(source), tensor_type(source).element, self.of(source))
            found = view_of(operation, type_)
            # Where a reshape has to move data, the program level copies to row-major memory.
            return contiguous(shape) if found is None else found[0].steps
        return stated_strides(operation, "result_strides", value.position) or contiguous(shape)

    def is_free(self, view: Operation) -> bool:
        """Whether a view moves no data."""
        source = view.operand()
        type_ = MemRefType.get(shape_of(source), tensor_type(source).element, self.of(source))
        return view_of(view, type_) is not None
