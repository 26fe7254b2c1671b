"""`vector` -> LLVM vectors: loads and stores, masked and gathered ones, reductions, lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina.codegen.llvm.lowering import Lowering, Rule
from lamina.codegen.llvm.tables.arith import EITHER_ZERO
from lamina.codegen.llvm.tables.memref import alignment, from_memory, memref_type, to_memory
from lamina.codegen.llvm.types import lanes_of, lower_type, stored_type
from lamina.errors import CompilerBug
from lamina.ir.attributes import (
    Attribute,
    DenseArrayAttr,
    DenseElementsAttr,
    OpaqueAttr,
    UnitAttr,
    plain,
)
from lamina.ir.core import Operation, Value
from lamina.ir.types import ScalarType, VectorType, bf16, element_of, f32, i32, i64

TREE = OpaqueAttr("#llvm.fastmath<reassoc>")
"""A horizontal sum adds halves: lane k to lane k + n/2, and so on; without it LLVM adds lane after lane."""


def vector_type(value: Value) -> VectorType:
    if not isinstance(value.type, VectorType) or value.type.rank != 1:
        raise CompilerBug(f"{value.type} is not a vector of rank 1", stage="to_llvm")
    return value.type


def _memory_vector(vector: VectorType) -> VectorType:
    return VectorType.get(vector.shape, stored_type(vector.element))


def _contiguous(memref: Value, indices: Sequence[Value], lowering: Lowering) -> Value:
    type_ = memref_type(memref)
    if type_.rank and type_.layout[-1] != 1:
        raise CompilerBug(f"a vector access to {type_}, whose last stride is not 1", stage="to_llvm")
    return lowering.address(memref, indices)


def _load(lowering: Lowering, operation: Operation) -> Value:
    memref, *indices = operation.operands
    type_ = vector_type(operation.result)
    address = _contiguous(memref, indices, lowering)
    attributes: dict[str, Attribute] = {**alignment(type_.element, operation), **_streaming(operation)}
    value = lowering.op("llvm.load", (address,), _memory_vector(type_), attributes)
    return from_memory(lowering, value, type_.element)


def _store(lowering: Lowering, operation: Operation) -> None:
    vector, memref, *indices = operation.operands
    type_ = vector_type(vector)
    address = _contiguous(memref, indices, lowering)
    value = to_memory(lowering, lowering.value(vector), type_.element)
    attributes: dict[str, Attribute] = {**alignment(type_.element, operation), **_streaming(operation)}
    lowering.act("llvm.store", (value, address), attributes)


def _streaming(operation: Operation) -> dict[str, Attribute]:
    """`nontemporal`: the data will not be read soon (has an effect with `alignment` of the whole vector)."""
    value = operation.attributes.get("nontemporal")
    is_set = isinstance(value, UnitAttr) or getattr(value, "value", False) is True
    return {"nontemporal": UnitAttr()} if is_set else {}


def _masked_load(lowering: Lowering, operation: Operation) -> Value:
    memref, *indices, mask, otherwise = operation.operands
    type_ = vector_type(operation.result)
    address = _contiguous(memref, indices, lowering)
    operands = (address, lowering.value(mask), to_memory(lowering, lowering.value(otherwise), type_.element))
    value = lowering.op("llvm.intr.masked.load", operands, _memory_vector(type_), alignment(type_.element))
    return from_memory(lowering, value, type_.element)


def _masked_store(lowering: Lowering, operation: Operation) -> None:
    memref, *indices, mask, vector = operation.operands
    type_ = vector_type(vector)
    address = _contiguous(memref, indices, lowering)
    value = to_memory(lowering, lowering.value(vector), type_.element)
    lowering.act("llvm.intr.masked.store", (value, address, lowering.value(mask)), alignment(type_.element))


def _lane_addresses(lowering: Lowering, memref: Value, indices: Sequence[Value], lanes: Value) -> Value:
    """Addresses of elements `lanes` (a vector of counts along the last dimension) from element `indices`."""
    type_ = memref_type(memref)
    address = lowering.address(memref, indices)
    stride = type_.layout[-1] if type_.rank else 1
    if stride != 1:
        factor = lowering.constant(int(str(stride)), lanes.type)
        lanes = lowering.op("llvm.mul", (lanes, factor), lanes.type)
    return lowering.offset(address, lanes, type_.element)


def _gather(lowering: Lowering, operation: Operation) -> Value:
    memref, *indices, lanes, mask, otherwise = operation.operands
    type_ = vector_type(operation.result)
    addresses = _lane_addresses(lowering, memref, indices, lowering.value(lanes))
    operands = (
        addresses,
        lowering.value(mask),
        to_memory(lowering, lowering.value(otherwise), type_.element),
    )
    value = lowering.op("llvm.intr.masked.gather", operands, _memory_vector(type_), alignment(type_.element))
    return from_memory(lowering, value, type_.element)


def _scatter(lowering: Lowering, operation: Operation) -> None:
    memref, *indices, lanes, mask, vector = operation.operands
    type_ = vector_type(vector)
    addresses = _lane_addresses(lowering, memref, indices, lowering.value(lanes))
    value = to_memory(lowering, lowering.value(vector), type_.element)
    operands = (value, addresses, lowering.value(mask))
    lowering.act("llvm.intr.masked.scatter", operands, alignment(type_.element))


def _broadcast(lowering: Lowering, operation: Operation) -> Value:
    source = operation.operand()
    type_ = lower_type(operation.result.type)
    value = lowering.value(source)
    if isinstance(source.type, VectorType):
        if lanes_of(source.type) == lanes_of(type_):
            return value
        value = lowering.op("llvm.extractelement", (value, lowering.constant(0, i32)), element_of(value.type))
    return lowering.splat(value, type_)


def _lane_numbers(lowering: Lowering, type_: VectorType) -> Value:
    dtype = {32: np.int32, 64: np.int64}[type_.element.bits]
    values = DenseElementsAttr.from_array(np.arange(type_.shape[0], dtype=dtype), type_)
    return lowering.attribute_constant(values, type_)


def _create_mask(lowering: Lowering, operation: Operation) -> Value:
    """Lane k is on when k < n. In 32 bits, so that one comparison serves a whole vector."""
    count = lowering.value(operation.operand())
    lanes = lanes_of(operation.result.type)
    known = lowering.known(count)
    if known is None:
        most = lowering.op("llvm.intr.smin", (count, lowering.index(lanes)), i64)
        short = lowering.op("llvm.trunc", (most,), i32)
    else:
        short = lowering.constant(min(known, lanes), i32)
    type_ = VectorType.get((lanes,), i32)
    return lowering.compare_integers("slt", _lane_numbers(lowering, type_), lowering.splat(short, type_))


def _constant_mask(lowering: Lowering, operation: Operation) -> Value:
    sizes = operation.attributes["mask_dim_sizes"]
    assert isinstance(sizes, DenseArrayAttr)
    type_ = vector_type(operation.result)
    values = DenseElementsAttr.from_array(np.arange(type_.shape[0]) < int(sizes.values[0]), type_)
    return lowering.attribute_constant(values, type_)


def _step(lowering: Lowering, operation: Operation) -> Value:
    return _lane_numbers(lowering, VectorType.get(vector_type(operation.result).shape, i64))


REDUCTIONS = {
    "add": ("fadd", "add"), "mul": ("fmul", "mul"), "maximumf": ("fmaximum", ""), "minimumf": ("fminimum",
    ""), "maxnumf": ("fmax", ""), "minnumf": ("fmin", ""), "maxsi": ("", "smax"), "minsi": ("", "smin"),
    "maxui": ("", "umax"), "minui": ("", "umin"), "and": ("", "and"), "or": ("", "or"), "xor": ("", "xor"),
}  # fmt: skip
"""Kinds of `vector.reduction`: the intrinsic for floats, and for integers."""
COMBINE = {
    "fadd": "llvm.fadd", "fmul": "llvm.fmul", "fmaximum": "llvm.intr.maximum",
    "fminimum": "llvm.intr.minimum", "fmax": "llvm.intr.maxnum", "fmin": "llvm.intr.minnum",
    "add": "llvm.add", "mul": "llvm.mul", "smax": "llvm.intr.smax", "smin": "llvm.intr.smin",
    "umax": "llvm.intr.umax", "umin": "llvm.intr.umin", "and": "llvm.and", "or": "llvm.or",
    "xor": "llvm.xor",
}  # fmt: skip


def _reduction(lowering: Lowering, operation: Operation) -> Value:
    kind = (
        getattr(operation.attributes["kind"], "spelling", "").removeprefix("#vector.kind<").removesuffix(">")
    )
    element = element_of(operation.operand().type)
    name = REDUCTIONS.get(kind, ("", ""))[0 if element.is_float else 1]
    if not name:
        raise CompilerBug(f"vector.reduction <{kind}> of {operation.operand().type}", stage="to_llvm")
    values = lowering.operands(operation)
    if element is bf16:
        values = [lowering.widen(value) for value in values]
    scalar = f32 if element is bf16 else element_of(values[0].type)
    result = _reduce(lowering, name, values[0], scalar)
    if len(values) == 2:
        flags = {"fastmathFlags": EITHER_ZERO} if name in ("fmaximum", "fminimum", "fmax", "fmin") else None
        result = lowering.op(COMBINE[name], (values[1], result), scalar, flags)
    return lowering.narrow(result) if element is bf16 else result


def _reduce(lowering: Lowering, name: str, vector: Value, scalar: ScalarType) -> Value:
    intrinsic = f"llvm.intr.vector.reduce.{name}"
    if name in ("fadd", "fmul"):
        start = lowering.constant(-0.0 if name == "fadd" else 1.0, scalar)
        return lowering.op(intrinsic, (start, vector), scalar, {"fastmathFlags": TREE})
    flags = {"fastmathFlags": EITHER_ZERO} if scalar.is_float else None
    return lowering.op(intrinsic, (vector,), scalar, flags)


def _position(operation: Operation) -> int:
    position = operation.attributes["static_position"]
    if not isinstance(position, DenseArrayAttr) or len(position) != 1 or int(position.values[0]) < 0:
        raise CompilerBug(f"{operation.name} needs one static position", stage="to_llvm")
    return int(position.values[0])


def _extract(lowering: Lowering, operation: Operation) -> Value:
    value = lowering.value(operation.operand())
    lane = lowering.constant(_position(operation), i32)
    return lowering.op("llvm.extractelement", (value, lane), element_of(value.type))


def _insert(lowering: Lowering, operation: Operation) -> Value:
    value, vector = lowering.operands(operation)
    lane = lowering.constant(_position(operation), i32)
    return lowering.op("llvm.insertelement", (vector, value, lane), vector.type)


def _shuffle(lowering: Lowering, operation: Operation) -> Value:
    a, b = lowering.operands(operation)
    mask = operation.attributes["mask"]
    assert isinstance(mask, DenseArrayAttr)
    lanes = DenseArrayAttr(tuple(int(lane) for lane in mask.values), i32)
    return lowering.op("llvm.shufflevector", (a, b), lower_type(operation.result.type), {"mask": lanes})


def _slice(lowering: Lowering, operation: Operation) -> Value:
    value = lowering.value(operation.operand())
    first = int(plain(operation.attributes["offsets"])[0])
    type_ = lower_type(operation.result.type)
    lanes = DenseArrayAttr(tuple(range(first, first + lanes_of(type_))), i32)
    return lowering.op("llvm.shufflevector", (value, lowering.poison(value.type)), type_, {"mask": lanes})


def _fma(lowering: Lowering, operation: Operation) -> Value:
    values = lowering.operands(operation)
    return lowering.op("llvm.intr.fma", values, values[0].type)


def _bitcast(lowering: Lowering, operation: Operation) -> Value:
    return lowering.op("llvm.bitcast", lowering.operands(operation), lower_type(operation.result.type))


TABLE: dict[str, Rule] = {
    "vector.load": _load,
    "vector.store": _store,
    "vector.maskedload": _masked_load,
    "vector.maskedstore": _masked_store,
    "vector.gather": _gather,
    "vector.scatter": _scatter,
    "vector.broadcast": _broadcast,
    "vector.create_mask": _create_mask,
    "vector.constant_mask": _constant_mask,
    "vector.step": _step,
    "vector.reduction": _reduction,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.shuffle": _shuffle,
    "vector.extract_strided_slice": _slice,
    "vector.fma": _fma,
    "vector.bitcast": _bitcast,
}
