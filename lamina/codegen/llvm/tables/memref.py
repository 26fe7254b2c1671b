"""`memref` -> addresses: loads, stores, scratch and views. A view's value is its first element's address."""

from __future__ import annotations

from lamina.codegen.llvm.lowering import Lowering, Rule, static
from lamina.codegen.llvm.types import like, lower_type, stored_type
from lamina.errors import CompilerBug
from lamina.ir.attributes import DenseArrayAttr, IntegerAttr
from lamina.ir.core import Operation, Value
from lamina.ir.ops.memref import DYNAMIC
from lamina.ir.types import MemRefType, ScalarType, element_count, i1, index, pointer

SCRATCH_ALIGNMENT = 64


def memref_type(value: Value) -> MemRefType:
    if not isinstance(value.type, MemRefType):
        raise CompilerBug(f"{value.type} is not a memref", stage="to_llvm")
    return value.type


def alignment(element: ScalarType, operation: Operation | None = None) -> dict[str, IntegerAttr]:
    """What a load or store may assume: the operation's own `alignment`, else one element's."""
    asked = operation.attributes.get("alignment") if operation is not None else None
    return {"alignment": IntegerAttr(asked.value if isinstance(asked, IntegerAttr) else element.bytes)}


def from_memory(lowering: Lowering, value: Value, element: ScalarType) -> Value:
    """A byte of memory as `i1`; anything else as it is."""
    return (
        lowering.compare_integers("ne", value, lowering.constant(0, value.type)) if element is i1 else value
    )


def to_memory(lowering: Lowering, value: Value, element: ScalarType) -> Value:
    if element is not i1:
        return value
    return lowering.op("llvm.zext", (value,), like(value.type, stored_type(element)))


def _load(lowering: Lowering, operation: Operation) -> Value:
    memref, *indices = operation.operands
    element = memref_type(memref).element
    address = lowering.address(memref, indices)
    value = lowering.op("llvm.load", (address,), stored_type(element), alignment(element, operation))
    return from_memory(lowering, value, element)


def _store(lowering: Lowering, operation: Operation) -> None:
    value, memref, *indices = operation.operands
    element = memref_type(memref).element
    address = lowering.address(memref, indices)
    stored = to_memory(lowering, lowering.value(value), element)
    lowering.act("llvm.store", (stored, address), alignment(element, operation))


def _allocate(lowering: Lowering, operation: Operation) -> Value:
    """Scratch on the stack, made once at the function's entry, however deep in loops it is asked for."""
    type_ = memref_type(operation.result)
    size = lowering.index(max(1, element_count(type_)))
    attributes = {"alignment": IntegerAttr(SCRATCH_ALIGNMENT), "elem_type": stored_type(type_.element)}
    return lowering.at_entry("llvm.alloca", (size,), pointer, attributes)


def _mixed(lowering: Lowering, operation: Operation, name: str, operands: list[Value]) -> list[Value]:
    """Static and dynamic numbers of a view, in order, as lowered values; takes operands off the front."""
    numbers = operation.attributes[name]
    assert isinstance(numbers, DenseArrayAttr)
    return [
        lowering.value(operands.pop(0)) if number == DYNAMIC else lowering.index(int(number))
        for number in numbers.values
    ]


def _subview(lowering: Lowering, operation: Operation) -> Value:
    source, *operands = operation.operands
    type_ = memref_type(source)
    place = lowering.index(0)
    offsets = _mixed(lowering, operation, "static_offsets", operands)
    for offset, stride in zip(offsets, static(type_.layout, type_), strict=True):
        place = lowering.add(place, lowering.multiply(offset, stride))
    return lowering.offset(lowering.value(source), place, type_.element)


def _reinterpret(lowering: Lowering, operation: Operation) -> Value:
    """The new offset counts from the buffer's start; the source's own static offset is taken off."""
    source, *operands = operation.operands
    type_ = memref_type(source)
    (place,) = _mixed(lowering, operation, "static_offsets", operands)
    if isinstance(type_.offset, int) and type_.offset:
        place = lowering.add(place, lowering.index(-type_.offset))
    return lowering.offset(lowering.value(source), place, type_.element)


def _same_address(lowering: Lowering, operation: Operation) -> Value:
    return lowering.value(operation.operand())


def _address_number(lowering: Lowering, operation: Operation) -> Value:
    return lowering.op("llvm.ptrtoint", (lowering.value(operation.operand()),), lower_type(index))


def _dimension(lowering: Lowering, operation: Operation) -> Value:
    source, position = operation.operands
    axis = lowering.known(lowering.value(position))
    size = memref_type(source).shape[axis] if axis is not None else None
    if not isinstance(size, int):
        raise CompilerBug(f"memref.dim of {source.type}", stage="to_llvm")
    return lowering.constant(size, lower_type(index))


TABLE: dict[str, Rule] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloca": _allocate,
    "memref.subview": _subview,
    "memref.reinterpret_cast": _reinterpret,
    "memref.cast": _same_address,
    "memref.collapse_shape": _same_address,
    "memref.expand_shape": _same_address,
    "memref.dim": _dimension,
    "memref.extract_aligned_pointer_as_index": _address_number,
}
