"""Loop level -> `llvm` dialect.

    func.func @kernel_0(%x: memref<1024xf32>, %y: memref<1024xf32>)
 => llvm.func @kernel_0(%args: !llvm.ptr, %threads: i64)    args: the data pointers of the memrefs, in order,
                                                            then the sizes that are arguments

The first `scf.parallel` at the top of a function is outlined: `@kernel_0.loop(frame, first, last)` runs a
part of its iterations, and `@lamina_parallel` (see `parallel`) runs that on the calling thread or on many.
The frame is `args` itself, or, when the loop uses other values from before it, a block of 8-byte slots:
`args`, then the values.
"""

from __future__ import annotations

from collections.abc import Iterable

from lamina.codegen.llvm.lowering import Lowering
from lamina.codegen.llvm.parallel import (
    EXTERNAL,
    INTERNAL,
    PARALLEL,
    SLOT_BYTES,
    add_parallel_support,
    call,
    load_slot,
    make_function,
    store_slot,
    symbol_address,
)
from lamina.codegen.llvm.tables import TABLE
from lamina.codegen.llvm.tables.memref import SCRATCH_ALIGNMENT, memref_type
from lamina.codegen.llvm.tables.scf import build_parallel_body, parallel_bounds
from lamina.codegen.llvm.types import lower_type
from lamina.errors import CompilerBug
from lamina.ir.attributes import IntegerAttr
from lamina.ir.core import Block, Operation, Region, Value, make_module, symbol_name
from lamina.ir.types import MemRefType, VectorType, i64, index, pointer

NAME = "to_llvm"
SEQUENTIALLY_CONSISTENT = IntegerAttr(7)
"""The strongest of LLVM's atomic orderings."""


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
    support: dict[str, Operation] = {}
    for function in functions:
        _Kernel(module, support, function, contract).lower()
    for function in support.values():
        module.body.append(function)
    return module


def missing_operations(functions: Iterable[Operation]) -> list[str]:
    """Names of operations inside the functions that no table knows, in order of name."""
    names = {operation.name for function in functions for operation in function.walk()}
    return sorted(names - TABLE.keys() - {"func.func"})


class _Kernel:
    """One loop-level function and the `llvm` functions made from it."""

    def __init__(
        self, module: Operation, support: dict[str, Operation], function: Operation, contract: bool
    ) -> None:
        self.module = module
        self.support = support
        self.contract = contract
        self.name = symbol_name(function) or ""
        self.source = function.region.blocks[0]
        for argument in self.source.arguments:
            if not isinstance(argument.type, MemRefType) and argument.type is not index:
                raise CompilerBug(
                    f"{self.name} takes a {argument.type}: kernels take memrefs and sizes", stage=NAME
                )

    def lower(self) -> None:
        """Append the functions to the module."""
        region = Region([Block([pointer, i64])])
        lowering = Lowering(region, TABLE, contract=self.contract, support=self.support)
        parallel = next((op for op in self.source if op.name == "scf.parallel"), None)
        self._load_arguments(lowering, lowering.entry.arguments[0], except_in=parallel)
        for operation in self.source:
            if operation is parallel:
                self._lower_parallel(lowering, operation)
            else:
                lowering.lower_operation(operation)
        self._finish(lowering)
        self.module.body.append(make_function(self.name, "void (ptr, i64)", region, EXTERNAL))

    def _load_arguments(self, lowering: Lowering, table: Value, except_in: Operation | None = None) -> None:
        """One pointer a memref, to which a static offset of its type is added here, once; the sizes.

        What only `except_in` uses is left out.
        """
        for position, argument in enumerate(self.source.arguments):
            if all(except_in is not None and _is_inside(user.parent, except_in) for user in argument.users):
                continue
            if argument.type is index:
                lowering.values[argument] = load_slot(lowering, table, position, i64)
                continue
            type_ = memref_type(argument)
            if not isinstance(type_.offset, int):
                raise CompilerBug(f"{self.name}: {type_} has a symbolic offset", stage=NAME)
            address = load_slot(lowering, table, position, pointer)
            lowering.values[argument] = lowering.offset(address, lowering.index(type_.offset), type_.element)

    def _finish(self, lowering: Lowering) -> None:
        """Return; streaming stores are first made visible, as no lock or barrier orders them on x86."""
        blocks = lowering.region.blocks
        if any("nontemporal" in operation.attributes for block in blocks for operation in block):
            lowering.act("llvm.fence", (), {"ordering": SEQUENTIALLY_CONSISTENT})
        lowering.act("llvm.return")

    def _lower_parallel(self, lowering: Lowering, parallel: Operation) -> None:
        add_parallel_support(self.support)
        captured = [value for value in _captured(parallel) if value not in self.source.arguments]
        lower, upper, step = map(lowering.value, parallel_bounds(parallel)[0])
        args, threads = lowering.entry.arguments
        frame = self._pack(lowering, args, captured) if captured else args
        self._build_loop(parallel, captured)
        loop = symbol_address(lowering, f"{self.name}.loop")
        call(lowering, PARALLEL, [loop, frame, lower, upper, step, threads])

    def _pack(self, lowering: Lowering, args: Value, captured: list[Value]) -> Value:
        places, slots = _places(captured)
        attributes = {"alignment": IntegerAttr(SCRATCH_ALIGNMENT), "elem_type": i64}
        frame = lowering.at_entry("llvm.alloca", (lowering.index(slots),), pointer, attributes)
        store_slot(lowering, frame, 0, args)
        for value, place in zip(captured, places, strict=True):
            store_slot(lowering, frame, place, lowering.value(value))
        return frame

    def _build_loop(self, parallel: Operation, captured: list[Value]) -> None:
        region = Region([Block([pointer, i64, i64])])
        lowering = Lowering(region, TABLE, contract=self.contract, support=self.support)
        frame, first, last = lowering.entry.arguments
        self._load_arguments(lowering, load_slot(lowering, frame, 0, pointer) if captured else frame)
        for value, place in zip(captured, _places(captured)[0], strict=True):
            lowering.values[value] = load_slot(lowering, frame, place, lower_type(value.type))
        step = lowering.value(parallel_bounds(parallel)[0][2])
        build_parallel_body(lowering, parallel, (first, last, step))
        self._finish(lowering)
        self.module.body.append(make_function(f"{self.name}.loop", "void (ptr, i64, i64)", region, INTERNAL))


def _places(captured: list[Value]) -> tuple[list[int], int]:
    """The slot of each captured value (slot 0 is for `args`), and the number of slots."""
    places, at = [], 1
    for value in captured:
        places.append(at)
        type_ = lower_type(value.type)
        at += -(-type_.shape[0] * type_.element.bytes // SLOT_BYTES) if isinstance(type_, VectorType) else 1
    return places, at


def _captured(parallel: Operation) -> list[Value]:
    """Values from outside used inside, in order of first use; constants are made anew instead."""
    found: dict[Value, None] = {}
    for operation in parallel.walk():
        for value in operation.operands:
            source = value.defining_op
            if source is not None and source.name == "arith.constant":
                continue
            owner = value.owner
            if not _is_inside(owner.parent if isinstance(owner, Operation) else owner, parallel):
                found[value] = None
    return list(found)


def _is_inside(block: Block | None, parallel: Operation) -> bool:
    while block is not None:
        parent = block.parent_op
        if parent is parallel:
            return True
        block = parent.parent if parent is not None else None
    return False
