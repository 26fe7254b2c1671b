"""Loop level -> `llvm` dialect.

    func.func @kernel_0(%x: memref<1024xf32>, %y: memref<1024xf32>)
 => llvm.func @kernel_0(%args: !llvm.ptr, %threads: i64)     args: the data pointers of the memrefs, in order

A `scf.parallel` at the top of a function is outlined. Its loop is in `@kernel_0.loop(pointers..., first, last)`,
which is not inlined: LLVM would otherwise optimise a copy for each of its two callers. With more than one
thread the kernel packs what the loop uses into a frame on its stack and enters libgomp's `GOMP_parallel` with
`@kernel_0.share`, where each thread takes one contiguous, static share of the iterations.

A function marked `lamina.noalias` promises that no memref argument overlaps another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.codegen.llvm.lowering import Lowering
from lamina.codegen.llvm.tables import TABLE
from lamina.codegen.llvm.tables.memref import SCRATCH_ALIGNMENT, memref_type
from lamina.codegen.llvm.tables.scf import build_parallel_body, parallel_bounds
from lamina.codegen.llvm.types import lower_type
from lamina.errors import CompilerBug
from lamina.ir.attributes import (
    UNIT,
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DictAttr,
    IntegerAttr,
    OpaqueAttr,
    SymbolRefAttr,
)
from lamina.ir.core import Block, Operation, Region, Value, make_module, symbol_name
from lamina.ir.types import MemRefType, OpaqueType, Type, VectorType, i32, i64, pointer

NAME = "to_llvm"
RUNTIME = {
    "GOMP_parallel": "void (ptr, ptr, i32, i32)",
    "omp_get_thread_num": "i32 ()",
    "omp_get_num_threads": "i32 ()",
}
"""Functions of libgomp that generated code calls."""
INTERNAL, EXTERNAL = OpaqueAttr("#llvm.linkage<internal>"), OpaqueAttr("#llvm.linkage<external>")
SLOT_BYTES = 8


def to_llvm(functions: Iterable[Operation], *, contract: bool = True) -> Operation:
    """A module of `llvm` operations from loop-level functions.

    contract: whether products and sums may be fused where an operation does not say. Raises CompilerBug that
    names every operation the back end lacks.
    """
    functions = list(functions)
    missing = missing_operations(functions)
    if missing:
        raise CompilerBug(f"the llvm back end lacks: {', '.join(missing)}", stage=NAME)
    module = make_module()
    for function in functions:
        _Kernel(module, function, contract).lower()
    if any(operation.name == "llvm.call" for operation in module.walk()):
        for name, type_ in RUNTIME.items():
            module.body.append(make_function(name, type_, Region(), EXTERNAL))
    return module


def missing_operations(functions: Iterable[Operation]) -> list[str]:
    """Names of operations inside the functions that no table knows, in order of name."""
    names = {operation.name for function in functions for operation in function.walk()}
    return sorted(names - TABLE.keys() - {"func.func"})


def make_function(
    name: str, type_: str, region: Region, linkage: OpaqueAttr, **attributes: Attribute
) -> Operation:
    """A `llvm.func`; a region without blocks makes a declaration."""
    function_type = OpaqueType.get(f"!llvm.func<{type_}>")
    given: dict[str, Any] = {"sym_name": name, "function_type": function_type, "linkage": linkage}
    return Operation("llvm.func", (), (), given | attributes, [region])


@dataclass(slots=True)
class _Captures:
    """What the body of a parallel loop uses from outside, the bounds' values among them."""

    values: list[Value]

    @property
    def types(self) -> list[Type]:
        return [lower_type(value.type) for value in self.values]

    def offsets(self) -> tuple[list[int], int]:
        """The byte offset of each in the frame, and the frame's size in bytes."""
        offsets, at = [], 0
        for type_ in self.types:
            size = type_.shape[0] * type_.element.bytes if isinstance(type_, VectorType) else SLOT_BYTES
            at = -(-at // size) * size
            offsets.append(at)
            at += size
        return offsets, at


class _Kernel:
    """One loop-level function and the `llvm` functions made from it."""

    def __init__(self, module: Operation, function: Operation, contract: bool) -> None:
        self.module = module
        self.function = function
        self.contract = contract
        self.name = symbol_name(function) or ""
        self.source = function.region.blocks[0]

    def lower(self) -> None:
        self._check()
        region = Region([Block([pointer, i64])])
        lowering = self._lowering(region)
        self._load_arguments(lowering)
        parallel = next((op for op in self.source if op.name == "scf.parallel"), None)
        if parallel is None:
            lowering.lower_block(self.source)
        else:
            self._lower_around(lowering, parallel)
        lowering.act("llvm.return")
        self.module.body.append(make_function(self.name, "void (ptr, i64)", region, EXTERNAL))

    def _check(self) -> None:
        for argument in self.source.arguments:
            if not isinstance(argument.type, MemRefType):
                raise CompilerBug(f"{self.name} takes a {argument.type}: kernels take memrefs", stage=NAME)

    def _lowering(self, region: Region) -> Lowering:
        return Lowering(region, TABLE, contract=self.contract)

    def _load_arguments(self, lowering: Lowering) -> None:
        """One pointer a memref; a static offset of its type is added here, once."""
        table = lowering.entry.arguments[0]
        for position, argument in enumerate(self.source.arguments):
            slot = lowering.offset(table, lowering.index(position), i64)
            address = lowering.op("llvm.load", (slot,), pointer, {"alignment": IntegerAttr(SLOT_BYTES)})
            type_ = memref_type(argument)
            if not isinstance(type_.offset, int):
                raise CompilerBug(f"{self.name}: {type_} has a symbolic offset", stage=NAME)
            lowering.values[argument] = lowering.offset(address, lowering.index(type_.offset), type_.element)

    def _lower_around(self, lowering: Lowering, parallel: Operation) -> None:
        """The operations before the parallel loop, the loop, and what comes after it."""
        for operation in self.source:
            if operation is parallel:
                self._lower_parallel(lowering, parallel)
                continue
            lowering.builder.location = operation.location
            result = TABLE[operation.name](lowering, operation)
            if result is not None:
                lowering.values[operation.results[0]] = result

    def _lower_parallel(self, lowering: Lowering, parallel: Operation) -> None:
        captures = _captured(parallel)
        self._build_loop(parallel, captures)
        self._build_share(parallel, captures)
        bounds = parallel_bounds(parallel)[0]
        many, alone, after = Block(), Block(), Block()
        threads = lowering.entry.arguments[1]
        for block in (many, alone, after):
            lowering.region.append(block)
        is_many = lowering.compare_integers("sgt", threads, lowering.index(1))
        values = [lowering.value(value) for value in captures.values]
        lowering.branch_if(is_many, many, (), alone, ())
        lowering.enter(many)
        self._enter_threads(lowering, captures, values, threads)
        lowering.branch(after)
        lowering.enter(alone)
        first, last = lowering.value(bounds[0]), lowering.value(bounds[1])
        _call(lowering, f"{self.name}.loop", [*values, first, last])
        lowering.branch(after)
        lowering.enter(after)

    def _enter_threads(
        self, lowering: Lowering, captures: _Captures, values: Sequence[Value], threads: Value
    ) -> None:
        offsets, size = captures.offsets()
        attributes = {"alignment": IntegerAttr(SCRATCH_ALIGNMENT), "elem_type": i64}
        slots = lowering.index(max(1, -(-size // SLOT_BYTES)))
        frame = lowering.at_entry("llvm.alloca", (slots,), pointer, attributes)
        for value, offset in zip(values, offsets, strict=True):
            slot = _slot(lowering, frame, offset)
            lowering.act("llvm.store", (value, slot), _natural_alignment(value.type))
        share = lowering.op(
            "llvm.mlir.addressof", (), pointer, {"global_name": _symbol(f"{self.name}.share")}
        )
        count = lowering.op("llvm.trunc", (threads,), i32)
        _call(lowering, "GOMP_parallel", [share, frame, count, lowering.constant(0, i32)])

    def _build_loop(self, parallel: Operation, captures: _Captures) -> None:
        types = [*captures.types, i64, i64]
        region = Region([Block(types)])
        lowering = self._lowering(region)
        *given, first, last = lowering.entry.arguments
        lowering.values.update(zip(captures.values, given, strict=True))
        step = lowering.value(parallel_bounds(parallel)[0][2])
        build_parallel_body(lowering, parallel, (first, last, step))
        lowering.act("llvm.return")
        spelled = ", ".join(_spell(type_) for type_ in types)
        promises = [*map(self._promise, captures.values), DictAttr(()), DictAttr(())]
        function = make_function(
            f"{self.name}.loop", f"void ({spelled})", region, INTERNAL,
            no_inline=UNIT, arg_attrs=ArrayAttr(tuple(promises)),
        )  # fmt: skip
        self.module.body.append(function)

    def _promise(self, value: Value) -> DictAttr:
        """Parameter attributes of a captured value."""
        if not isinstance(value.type, MemRefType):
            return DictAttr(())
        entries: list[tuple[str, Attribute]] = [("llvm.nonnull", UNIT), ("llvm.noundef", UNIT)]
        if "lamina.noalias" in self.function.attributes and value in self.source.arguments:
            entries.insert(0, ("llvm.noalias", UNIT))
        return DictAttr(tuple(entries))

    def _build_share(self, parallel: Operation, captures: _Captures) -> None:
        """`share(frame)`: unpack the frame, take this thread's part of the iterations, run the loop on it."""
        region = Region([Block([pointer])])
        lowering = self._lowering(region)
        frame = lowering.entry.arguments[0]
        offsets, _ = captures.offsets()
        for value, type_, offset in zip(captures.values, captures.types, offsets, strict=True):
            slot = _slot(lowering, frame, offset)
            lowering.values[value] = lowering.op("llvm.load", (slot,), type_, _natural_alignment(type_))
        first, last = _share_of(lowering, parallel)
        given = [lowering.value(value) for value in captures.values]
        _call(lowering, f"{self.name}.loop", [*given, first, last])
        lowering.act("llvm.return")
        self.module.body.append(make_function(f"{self.name}.share", "void (ptr)", region, INTERNAL))


def _share_of(lowering: Lowering, parallel: Operation) -> tuple[Value, Value]:
    """Iterations [n * t / T, n * (t + 1) / T) of n, for thread t of T, as values of the counter."""
    lower, upper, step = map(lowering.value, parallel_bounds(parallel)[0])

    def operation(name: str, a: Value, b: Value) -> Value:
        return lowering.op(f"llvm.{name}", (a, b), i64)

    count = _iterations(lowering, lower, upper, step)
    thread = _call_for(lowering, "omp_get_thread_num")
    threads = _call_for(lowering, "omp_get_num_threads")
    begin = operation("sdiv", operation("mul", count, thread), threads)
    following = operation("add", thread, lowering.index(1))
    end = operation("sdiv", operation("mul", count, following), threads)
    first = operation("add", lower, operation("mul", begin, step))
    last = operation("add", lower, operation("mul", end, step))
    return first, lowering.op("llvm.intr.smin", (last, upper), i64)


def _iterations(lowering: Lowering, lower: Value, upper: Value, step: Value) -> Value:
    """How often a loop with these bounds runs (never a negative number when lower <= upper)."""
    first, last, stride = lowering.known(lower), lowering.known(upper), lowering.known(step)
    if first is not None and last is not None and stride is not None:
        return lowering.index(max(0, -((first - last) // stride)))
    length = lowering.op("llvm.sub", (upper, lower), i64)
    rounded = lowering.op("llvm.add", (length, lowering.op("llvm.sub", (step, lowering.index(1)), i64)), i64)
    return lowering.op("llvm.sdiv", (rounded, step), i64)


def _captured(parallel: Operation) -> _Captures:
    """Values from outside used inside, in order of first use; constants are made anew instead."""
    found: dict[Value, None] = {}
    for operation in parallel.walk():
        for value in operation.operands:
            source = value.defining_op
            if source is not None and source.name == "arith.constant":
                continue
            owner = value.owner
            block = owner.parent if isinstance(owner, Operation) else owner
            if not _is_inside(block, parallel):
                found[value] = None
    return _Captures(list(found))


def _is_inside(block: Block | None, parallel: Operation) -> bool:
    while block is not None:
        parent = block.parent_op
        if parent is parallel:
            return True
        block = parent.parent if parent is not None else None
    return False


def _slot(lowering: Lowering, frame: Value, offset: int) -> Value:
    return lowering.offset(frame, lowering.index(offset // SLOT_BYTES), i64)


def _natural_alignment(type_: Type) -> dict[str, IntegerAttr]:
    size = type_.shape[0] * type_.element.bytes if isinstance(type_, VectorType) else SLOT_BYTES
    return {"alignment": IntegerAttr(min(size, SCRATCH_ALIGNMENT))}


def _spell(type_: Type) -> str:
    return "ptr" if type_ is pointer else str(type_)


def _symbol(name: str) -> SymbolRefAttr:
    return SymbolRefAttr((name,))


def _call_attributes(name: str, count: int) -> dict[str, Any]:
    sizes, bundles = DenseArrayAttr((count, 0), i32), DenseArrayAttr((), i32)
    return {"callee": _symbol(name), "operandSegmentSizes": sizes, "op_bundle_sizes": bundles}


def _call(lowering: Lowering, name: str, operands: Sequence[Value]) -> None:
    lowering.act("llvm.call", operands, _call_attributes(name, len(operands)))


def _call_for(lowering: Lowering, name: str) -> Value:
    """The result of a libgomp function without arguments, as i64."""
    return lowering.op("llvm.sext", (lowering.op("llvm.call", (), i32, _call_attributes(name, 0)),), i64)
