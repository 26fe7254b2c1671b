"""Two functions that every module with parallel kernels gets: they run a loop on libgomp's threads.

    @lamina.parallel(loop, frame, first, last, step, threads)     calls loop(frame, first, last), or with more
                                                                  than one thread enters GOMP_parallel
    @lamina.share(job)                                            what each thread runs: loop(frame, a, b) on
                                                                  one contiguous, static part of the range

`loop` is `void (ptr frame, i64 first, i64 last)`; its counter goes from `first` to below `last` by `step`.
One copy for all kernels: code generation takes a millisecond a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina.codegen.llvm.lowering import Lowering
from lamina.ir.attributes import UNIT, Attribute, DenseArrayAttr, IntegerAttr, OpaqueAttr, SymbolRefAttr
from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.types import OpaqueType, Type, i32, i64, pointer

PARALLEL, SHARE = "lamina.parallel", "lamina.share"
RUNTIME = {
    "GOMP_parallel": "void (ptr, ptr, i32, i32)",
    "omp_get_thread_num": "i32 ()",
    "omp_get_num_threads": "i32 ()",
}
"""Functions of libgomp that generated code calls."""
INTERNAL, EXTERNAL = OpaqueAttr("#llvm.linkage<internal>"), OpaqueAttr("#llvm.linkage<external>")
SLOT_BYTES = 8
JOB = (pointer, pointer, i64, i64, i64)
"""What `@lamina.share` is given, a slot each: loop, frame, first, last, step."""


def make_function(name: str, type_: str, region: Region, linkage: OpaqueAttr, **more: Attribute) -> Operation:
    """A `llvm.func`; a region without blocks makes a declaration."""
    function_type = OpaqueType.get(f"!llvm.func<{type_}>")
    attributes: dict[str, Any] = {"sym_name": name, "function_type": function_type, "linkage": linkage}
    return Operation("llvm.func", (), (), attributes | more, [region])


def add_parallel_support(support: dict[str, Operation]) -> None:
    """Add the two functions, and the declarations of what they call, where they are missing."""
    if PARALLEL in support:
        return
    support[PARALLEL] = _build_parallel()
    support[SHARE] = _build_share()
    for name, type_ in RUNTIME.items():
        support[name] = make_function(name, type_, Region(), EXTERNAL)


def call(lowering: Lowering, callee: str | Value, operands: Sequence[Value]) -> None:
    """A call without result, of a symbol or of an address."""
    count = len(operands)
    if isinstance(callee, str):
        lowering.act("llvm.call", operands, _call_attributes(count, callee))
    else:
        lowering.act("llvm.call", (callee, *operands), _call_attributes(count + 1, ""))


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
    attributes: dict[str, Any] = {
        "operandSegmentSizes": DenseArrayAttr((count, 0), i32), "op_bundle_sizes": DenseArrayAttr((), i32),
    }  # fmt: skip
    return attributes | {"callee": SymbolRefAttr((name,))} if name else attributes


def _build_parallel() -> Operation:
    region = Region([Block([*JOB, i64])])
    lowering = Lowering(region, {}, contract=False)
    loop, frame, first, last, _, threads = arguments = lowering.entry.arguments
    attributes = {"elem_type": i64, "alignment": IntegerAttr(SLOT_BYTES)}
    job = lowering.at_entry("llvm.alloca", (lowering.index(len(JOB)),), pointer, attributes)
    many, alone = lowering.new_block(), lowering.new_block()
    is_many = lowering.compare_integers("sgt", threads, lowering.index(1))
    lowering.branch_if(is_many, many, (), alone, ())
    lowering.enter(many)
    for position, value in enumerate(arguments[: len(JOB)]):
        store_slot(lowering, job, position, value)
    count = lowering.op("llvm.trunc", (threads,), i32)
    operands = [symbol_address(lowering, SHARE), job, count, lowering.constant(0, i32)]
    call(lowering, "GOMP_parallel", operands)
    lowering.act("llvm.return")
    lowering.enter(alone)
    call(lowering, loop, [frame, first, last])
    lowering.act("llvm.return")
    types = "ptr, ptr, i64, i64, i64, i64"
    return make_function(PARALLEL, f"void ({types})", region, INTERNAL, no_inline=UNIT)


def _build_share() -> Operation:
    """Iterations [n * t / T, n * (t + 1) / T) of n, for thread t of T."""
    region = Region([Block([pointer])])
    lowering = Lowering(region, {}, contract=False)
    job = lowering.entry.arguments[0]
    loop, frame, lower, upper, step = (load_slot(lowering, job, k, type_) for k, type_ in enumerate(JOB))

    def operation(name: str, a: Value, b: Value) -> Value:
        return lowering.op(f"llvm.{name}", (a, b), i64)

    one = lowering.index(1)
    length = operation("add", operation("sub", upper, lower), operation("sub", step, one))
    count = operation("sdiv", length, step)
    thread, threads = (_ask(lowering, name) for name in ("omp_get_thread_num", "omp_get_num_threads"))
    begin = operation("sdiv", operation("mul", count, thread), threads)
    end = operation("sdiv", operation("mul", count, operation("add", thread, one)), threads)
    first = operation("add", lower, operation("mul", begin, step))
    last = operation("add", lower, operation("mul", end, step))
    call(lowering, loop, [frame, first, lowering.op("llvm.intr.smin", (last, upper), i64)])
    lowering.act("llvm.return")
    return make_function(SHARE, "void (ptr)", region, INTERNAL)


def _ask(lowering: Lowering, name: str) -> Value:
    """The result of a libgomp function without arguments, as i64."""
    return lowering.op("llvm.sext", (call_for(lowering, name, (), i32),), i64)
