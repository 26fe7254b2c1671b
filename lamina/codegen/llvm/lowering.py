"""The frame of the back end: one function being built, its constants, addresses and values.

The tables (`lamina.codegen.llvm.tables`) say how each operation is spelled; this keeps what they share.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from lamina.codegen.llvm.types import lanes_of, like, lower_scalar, lower_type, pointers, stored_type
from lamina.errors import CompilerBug
from lamina.ir.attributes import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    encode_scalar,
)
from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.sizes import Size
from lamina.ir.types import MemRefType, ScalarType, Type, VectorType, bf16, f32, i1, i32, i64, pointer

DYNAMIC_INDEX = DenseArrayAttr((-(1 << 31),), i32)
"""`rawConstantIndices` of an address computation with one index that is an operand."""
INBOUNDS = IntegerAttr(3, i32)
NO_SIGNED_WRAP = IntegerAttr(1, i32)


class Lowering:
    """Builds one `llvm.func` body.

    values: loop-level value -> its `llvm` value (a memref: the address of its element [0, ..., 0]).
    contract: whether a product and a sum may become one fused multiply-add.
    support: functions that the module needs beside the kernels, by name; rules add to it.
    """

    def __init__(
        self,
        region: Region,
        table: Mapping[str, Rule],
        *,
        contract: bool,
        support: dict[str, Operation] | None = None,
    ) -> None:
        self.region = region
        self.table = table
        self.contract = contract
        self.support = {} if support is None else support
        self.values: dict[Value, Value] = {}
        self.entry = region.blocks[0]
        self.builder = Builder(self.entry)
        self._constants: dict[tuple[Type, bytes], Value] = {}
        self._known: dict[Value, int] = {}
        self._last_constant: Operation | None = None

    # building

    def op(
        self, name: str, operands: Iterable[Value], type_: Type, attributes: Mapping[str, Any] | None = None
    ) -> Value:
        """An operation with one result."""
        return self.builder.value(name, operands, type_, attributes)

    def act(
        self,
        name: str,
        operands: Iterable[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        successors: Iterable[Block] = (),
    ) -> None:
        """An operation without results."""
        self.builder.op(name, operands, (), attributes, (), successors)

    def new_block(self, types: Iterable[Type] = ()) -> Block:
        return self.region.append(Block(types))

    def enter(self, block: Block) -> None:
        """Go on building at the end of `block`."""
        self.builder.block = block

    def branch(self, block: Block, arguments: Iterable[Value] = ()) -> None:
        self.act("llvm.br", arguments, None, (block,))

    def branch_if(
        self, condition: Value, then: Block, given: Sequence[Value], otherwise: Block, other: Sequence[Value]
    ) -> None:
        sizes = DenseArrayAttr((1, len(given), len(other)), i32)
        operands = (condition, *given, *other)
        self.act("llvm.cond_br", operands, {"operandSegmentSizes": sizes}, (then, otherwise))

    def lower_block(self, block: Block) -> list[Value]:
        """Lower a block's operations; gives the lowered operands of its terminator."""
        for operation in block:
            self.lower_operation(operation)
        return [self.value(operand) for operand in block.terminator.operands]

    def lower_operation(self, operation: Operation) -> None:
        self.builder.location = operation.location
        rule = self.table.get(operation.name)
        if rule is None:
            raise CompilerBug(f"the llvm back end has no rule for {operation.name}", stage="to_llvm")
        result = rule(self, operation)
        if result is not None:
            self.values[operation.results[0]] = result

    # values

    def value(self, value: Value) -> Value:
        """The lowered value; a constant defined outside of what is lowered here is made anew."""
        found = self.values.get(value)
        if found is not None:
            return found
        source = value.defining_op
        if source is not None and source.name == "arith.constant":
            return self.attribute_constant(source.attributes["value"], value.type)
        raise CompilerBug(f"a value of type {value.type} is used before it is lowered", stage="to_llvm")

    def operands(self, operation: Operation) -> list[Value]:
        return [self.value(operand) for operand in operation.operands]

    def attribute_constant(self, attribute: Attribute, type_: Type) -> Value:
        lowered = lower_type(type_)
        if isinstance(attribute, DenseElementsAttr):
            if not isinstance(lowered, VectorType):
                raise CompilerBug(f"a constant of type {type_} reached the llvm back end", stage="to_llvm")
            return self._constant(
                lowered, attribute.bytes_, DenseElementsAttr(lowered, attribute.bytes_, attribute.is_splat)
            )
        if isinstance(attribute, BoolAttr | IntegerAttr | FloatAttr):
            return self.constant(attribute.value, type_)
        raise CompilerBug(f"no constant for {attribute}", stage="to_llvm")

    def constant(self, value: float | int | bool, type_: Type) -> Value:
        """A scalar, or a vector with `value` in every lane. `type_` is a loop-level or `llvm` type."""
        lowered = lower_type(type_)
        element = type_.element if isinstance(type_, VectorType) else type_
        if not isinstance(element, ScalarType):
            raise CompilerBug(f"no constant of type {type_}", stage="to_llvm")
        data = encode_scalar(value, element)
        if isinstance(lowered, VectorType):
            return self._constant(lowered, data, DenseElementsAttr(lowered, data, True))
        return self._constant(lowered, data, _scalar_attribute(data, lower_scalar(element)))

    def _constant(self, type_: Type, data: bytes, attribute: Attribute) -> Value:
        key = (type_, data)
        found = self._constants.get(key)
        if found is None:
            found = self.at_entry("llvm.mlir.constant", (), type_, {"value": attribute})
            self._constants[key] = found
            if isinstance(attribute, IntegerAttr):
                self._known[found] = attribute.value
        return found

    def known(self, value: Value) -> int | None:
        """The number, when the (lowered) value is an integer constant."""
        return self._known.get(value)

    def index(self, value: int) -> Value:
        return self.constant(value, i64)

    def splat(self, value: Value, type_: Type) -> Value:
        """`value` in every lane of vector type `type_` (already lowered)."""
        if not isinstance(type_, VectorType):
            return value
        known = self._known.get(value)
        if known is not None:
            return self.constant(known, type_)
        poison = self.op("llvm.mlir.poison", (), type_)
        one = self.op("llvm.insertelement", (poison, value, self.constant(0, i32)), type_)
        mask = DenseArrayAttr((0,) * type_.shape[0], i32)
        return self.op("llvm.shufflevector", (one, poison), type_, {"mask": mask})

    def poison(self, type_: Type) -> Value:
        return self.op("llvm.mlir.poison", (), type_)

    # index arithmetic

    def add(self, a: Value, b: Value) -> Value:
        x, y = self._known.get(a), self._known.get(b)
        if x == 0:
            return b
        if y == 0:
            return a
        if x is not None and y is not None:
            return self.constant(x + y, a.type)
        return self.op("llvm.add", (a, b), a.type, {"overflowFlags": NO_SIGNED_WRAP})

    def multiply(self, a: Value, factor: int) -> Value:
        x = self._known.get(a)
        if x is not None:
            return self.constant(x * factor, a.type)
        if factor == 1:
            return a
        return self.op(
            "llvm.mul", (a, self.constant(factor, a.type)), a.type, {"overflowFlags": NO_SIGNED_WRAP}
        )

    # memory

    def address(self, memref: Value, indices: Sequence[Value]) -> Value:
        """The address of element `indices` (loop-level values) of a memref."""
        type_ = memref.type
        if not isinstance(type_, MemRefType):
            raise CompilerBug(f"{type_} is not a memref", stage="to_llvm")
        place = self.index(0)
        for position, stride in zip(indices, static(type_.layout, type_), strict=True):
            place = self.add(place, self.multiply(self.value(position), stride))
        return self.offset(self.value(memref), place, type_.element)

    def offset(self, address: Value, elements: Value, element: ScalarType) -> Value:
        """`address` plus so many elements; a vector of element counts gives a vector of addresses."""
        if self._known.get(elements) == 0:
            return address
        attributes = {
            "elem_type": stored_type(element), "noWrapFlags": INBOUNDS, "rawConstantIndices": DYNAMIC_INDEX,
        }  # fmt: skip
        lanes = lanes_of(elements.type)
        type_ = pointers(lanes) if lanes else pointer
        return self.op("llvm.getelementptr", (address, elements), type_, attributes)

    # bf16 as bits

    def widen(self, value: Value) -> Value:
        """bf16 bits -> f32, exact."""
        wide = self.op("llvm.zext", (value,), like(value.type, i32))
        shifted = self.op("llvm.shl", (wide, self.constant(16, wide.type)), wide.type)
        return self.op("llvm.bitcast", (shifted,), like(value.type, f32))

    def narrow(self, value: Value) -> Value:
        """f32 -> bf16 bits, to nearest even; a nan becomes the quiet one."""
        type_, narrow = like(value.type, i32), lower_type(like(value.type, bf16))
        bits = self.op("llvm.bitcast", (value,), type_)
        high = self.op("llvm.lshr", (bits, self.constant(16, type_)), type_)
        odd = self.op("llvm.and", (high, self.constant(1, type_)), type_)
        rounding = self.op("llvm.add", (odd, self.constant(0x7FFF, type_)), type_)
        rounded = self.op("llvm.add", (bits, rounding), type_)
        shifted = self.op("llvm.lshr", (rounded, self.constant(16, type_)), type_)
        is_nan = self.compare_floats("uno", value, value)
        kept = self.op("llvm.select", (is_nan, self.constant(0x7FC0, type_), shifted), type_)
        return self.op("llvm.trunc", (kept,), narrow)

    def at_entry(
        self, name: str, operands: Iterable[Value], type_: Type, attributes: Mapping[str, Any]
    ) -> Value:
        """An operation whose operands are constants, made once at the function's entry."""
        operation = Operation(name, operands, (type_,), attributes, location=self.builder.location)
        self.entry.insert(operation, self._last_constant.next if self._last_constant else self.entry.first)
        self._last_constant = operation
        return operation.results[0]

    def compare_integers(self, predicate: str, a: Value, b: Value) -> Value:
        return self.op("llvm.icmp", (a, b), like(a.type, i1), {"predicate": CMPI.index(predicate)})

    def compare_floats(self, predicate: str, a: Value, b: Value) -> Value:
        return self.op("llvm.fcmp", (a, b), like(a.type, i1), {"predicate": CMPF.index(predicate)})


Rule: TypeAlias = Callable[[Lowering, Operation], Value | None]
"""How one operation is lowered; gives its result's value, or None when it has none or set them itself."""


def static(sizes: Sequence[Size], type_: Type) -> list[int]:
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != len(sizes):
        raise CompilerBug(f"{type_} has a symbolic stride", stage="to_llvm")
    return known


def _scalar_attribute(data: bytes, type_: ScalarType) -> Attribute:
    if type_.is_float:
        letter = {"f64": "d", "f32": "f", "f16": "e"}[type_.name]
        return FloatAttr(struct.unpack(f"<{letter}", data)[0], type_)
    if type_.bits == 1:
        return BoolAttr(bool(data[0]))
    return IntegerAttr(int.from_bytes(data, "little", signed=True), type_)
