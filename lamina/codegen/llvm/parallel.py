"""Calls, frames, functions of the `llvm` dialect, and the one function that generated code expects to find.

    lamina_parallel(loop, frame, first, last, step, threads)

is the runtime's (`runtime/devices/cpu/library.py`): it calls `loop(frame, first, last)`, or with more than
one thread has each thread call it on one contiguous, static part of the range. `loop` is
`void (ptr frame, i64 first, i64 last)`; its counter goes from `first` to below `last` by `step`. It is not
made in each module because code generation takes a millisecond a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina.codegen.llvm.lowering import Lowering
from lamina.ir.attributes import Attribute, DenseArrayAttr, IntegerAttr, OpaqueAttr, SymbolRefAttr
from lamina.ir.core import Operation, Region, Value
from lamina.ir.types import OpaqueType, Type, i32, i64, pointer

PARALLEL = "lamina_parallel"
PARALLEL_TYPE = "void (ptr, ptr, i64, i64, i64, i64)"
INTERNAL, EXTERNAL = OpaqueAttr("#llvm.linkage<internal>"), OpaqueAttr("#llvm.linkage<external>")
SLOT_BYTES = 8


def make_function(name: str, type_: str, region: Region, linkage: OpaqueAttr, **more: Attribute) -> Operation:
    """A `llvm.func`; a region without blocks makes a declaration."""
    function_type = OpaqueType.get(f"!llvm.func<{type_}>")
    attributes: dict[str, Any] = {"sym_name": name, "function_type": function_type, "linkage": linkage}
    return Operation("llvm.func", (), (), attributes | more, [region])


def add_parallel_support(support: dict[str, Operation]) -> None:
    """Declare what `scf.parallel` needs."""
    support.setdefault(PARALLEL, make_function(PARALLEL, PARALLEL_TYPE, Region(), EXTERNAL))


def call(lowering: Lowering, name: str, operands: Sequence[Value]) -> None:
    """A call of a symbol, without result."""
    lowering.act("llvm.call", operands, _call_attributes(len(operands), name))


def call_for(lowering: Lowering, name: str, operands: Sequence[Value], type_: Type) -> Value:
    """The result of a call of a symbol."""
    return lowering.op("llvm.call", operands, type_, _call_attributes(len(operands), name))


def symbol_address(lowering: Lowering, name: str) -> Value:
    return lowering.op("llvm.mlir.addressof", (), pointer, {"global_name": SymbolRefAttr((name,))})


def slot(lowering: Lowering, frame: Value, position: int) -> Value:
    """The address of an 8-byte slot of a frame."""
    return lowering.offset(frame, lowering.index(position), i64)


def load_slot(lowering: Lowering, frame: Value, position: int, type_: Type) -> Value:
    attributes = {"alignment": IntegerAttr(SLOT_BYTES)}
    return lowering.op("llvm.load", (slot(lowering, frame, position),), type_, attributes)


def store_slot(lowering: Lowering, frame: Value, position: int, value: Value) -> None:
    attributes = {"alignment": IntegerAttr(SLOT_BYTES)}
    lowering.act("llvm.store", (value, slot(lowering, frame, position)), attributes)


def _call_attributes(count: int, name: str) -> dict[str, Any]:
    return {
        "callee": SymbolRefAttr((name,)),
        "operandSegmentSizes": DenseArrayAttr((count, 0), i32),
        "op_bundle_sizes": DenseArrayAttr((), i32),
    }
