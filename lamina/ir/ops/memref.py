"""`memref`: buffers. Strides and offsets count elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina.ir.attributes import integers
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops.linalg import segment_sizes
from lamina.ir.record import PURE, READS, WRITES, OpRecord
from lamina.ir.sizes import Size, UndecidedSize
from lamina.ir.types import MemRefType, Type


def as_memref(type_: Type) -> MemRefType:
    if not isinstance(type_, MemRefType):
        raise ValueError(f"needs a memref, got {type_}")
    return type_


DYNAMIC = -(1 << 63)
"""Stands for "an operand" in `static_offsets` and its like."""
Numbers = Callable[[Size], Value]
"""Gives the index value of a size."""


def no_numbers(size: Size) -> Value:
    """For buffers whose sizes are all known."""
    raise UndecidedSize(f"the size {size} has no value here")


def reinterpret(
    builder: Builder,
    source: Value,
    offset: Size,
    sizes: Sequence[Size],
    strides: Sequence[Size],
    numbers: Numbers = no_numbers,
) -> Value:
    """A view of the buffer behind `source` with this layout, whatever that of `source`."""
    element = as_memref(source.type).element
    result = MemRefType.get(tuple(sizes), element, tuple(strides), offset)
    parts = ((offset,), sizes, strides)
    operands = [[numbers(size) for size in part if not isinstance(size, int)] for part in parts]
    names = ("static_offsets", "static_sizes", "static_strides")
    attributes: dict[str, Any] = {
        name: integers(*(size if isinstance(size, int) else DYNAMIC for size in part))
        for name, part in zip(names, parts, strict=True)
    }
    attributes["operandSegmentSizes"] = segment_sizes(1, *map(len, operands))
    flat = [value for part in operands for value in part]
    return builder.value("memref.reinterpret_cast", [source, *flat], result, attributes)


def allocate(builder: Builder, name: str, type_: MemRefType, numbers: Numbers = no_numbers) -> Value:
    """`name` is `memref.alloc` or `memref.alloca`."""
    sizes = [numbers(size) for size in type_.shape if not isinstance(size, int)]
    return builder.value(name, sizes, type_, {"operandSegmentSizes": segment_sizes(len(sizes), 0)})


def _verify_load(operation: Operation) -> None:
    _verify_access(as_memref(operation.operand(0).type), operation.result.type, len(operation.operands) - 1)


def _verify_store(operation: Operation) -> None:
    _verify_access(
        as_memref(operation.operand(1).type), operation.operand(0).type, len(operation.operands) - 2
    )


def _verify_access(memory: MemRefType, value: Type, indices: int) -> None:
    if memory.element is not value:
        raise ValueError(f"accesses {value} in {memory}")
    if indices != memory.rank:
        raise ValueError(f"{indices} indices for {memory}")


def _verify_reinterpret(operation: Operation) -> None:
    result = as_memref(operation.result.type)
    if as_memref(operation.operand(0).type).element is not result.element:
        raise ValueError(f"must keep the element type, got {operation.operand(0).type} to {result}")


RECORDS = (
    OpRecord("memref.extract_aligned_pointer_as_index", 1, 1, frozenset({PURE})),
    OpRecord("memref.alloc", None, 1, attributes=("operandSegmentSizes",), optional=("alignment",)),
    OpRecord("memref.alloca", 0, 1, attributes=("operandSegmentSizes",), optional=("alignment",)),
    OpRecord("memref.load", None, 1, frozenset({READS}), verify=_verify_load, optional=("nontemporal",)),
    OpRecord("memref.store", None, 0, frozenset({WRITES}), verify=_verify_store, optional=("nontemporal",)),
    OpRecord(
        "memref.reinterpret_cast",
        None,
        1,
        frozenset({PURE}),
        ("operandSegmentSizes", "static_offsets", "static_sizes", "static_strides"),
        verify=_verify_reinterpret,
    ),
    OpRecord(
        "memref.subview",
        1,
        1,
        frozenset({PURE}),
        ("operandSegmentSizes", "static_offsets", "static_sizes", "static_strides"),
    ),
)
