"""Buffers of the interpreter, and what `memref` and `vector` operations do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.ir.arrays import dtype_of, round_array
from lamina.ir.attributes import OpaqueAttr, plain
from lamina.ir.core import Operation
from lamina.ir.types import MemRefType, ScalarType, VectorType, element_of

Array = Any
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A memref: elements of `storage` (one dimension) at `offset` + indices * `strides`."""

    storage: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @staticmethod
    def allocate(type_: MemRefType, fill: Array | None = None) -> Buffer:
        """Fresh memory for a type, nan or a large number everywhere unless `fill` says otherwise."""
        dtype = dtype_of(type_.element)
        buffer = Buffer(
            np.empty(0, dtype), _static(type_.shape), _static(type_.layout), _static((type_.offset,))[0]
        )
        storage = np.full(buffer.last_address + 1, GARBAGE[dtype.kind], dtype)
        buffer = Buffer(storage, buffer.shape, buffer.strides, buffer.offset)
        if fill is not None:
            buffer.view()[...] = fill
        return buffer

    @property
    def last_address(self) -> int:
        if 0 in self.shape:
            return self.offset
        steps = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((size - 1) * max(stride, 0) for size, stride in steps)

    def view(self) -> Array:
        """The elements as an array of this shape, writable."""
        width = self.storage.itemsize
        strides = tuple(stride * width for stride in self.strides)
        return np.lib.stride_tricks.as_strided(self.storage[self.offset :], self.shape, strides)

    def addresses(self, indices: Values) -> Array:
        """Places in `storage`; IndexError when an index leaves the shape."""
        address: Array = np.int64(self.offset)
        for index, size, stride in zip(indices, self.shape, self.strides, strict=True):
            if np.any((np.asarray(index) < 0) | (np.asarray(index) >= size)):
                raise IndexError(f"index {index} leaves a dimension of size {size}")
            address = address + np.asarray(index, np.int64) * stride
        return address


GARBAGE = {"f": np.nan, "i": 0x5A, "u": 0x5A, "b": True, "c": np.nan}
"""What fresh memory holds, by kind of dtype."""


def _static(sizes: Sequence[object]) -> tuple[int, ...]:
    if not all(isinstance(size, int) for size in sizes):
        raise NotImplementedError(f"sizes known only at run time: {sizes}")
    return tuple(size for size in sizes if isinstance(size, int))


def _lanes(operation: Operation, type_: object, buffer: Buffer, indices: Values, mask: Array | None) -> Array:
    """Addresses of a vector's lanes: consecutive along the last dimension. Active ones must be in memory."""
    assert isinstance(type_, VectorType)
    start = buffer.offset + sum(int(i) * s for i, s in zip(indices, buffer.strides, strict=True))
    step = buffer.strides[-1] if buffer.strides else 1
    addresses = start + step * np.arange(type_.shape[0])
    active = addresses if mask is None else addresses[mask]
    if np.any((active < 0) | (active >= len(buffer.storage))):
        raise IndexError(f"{operation.name} leaves its buffer: {active.tolist()} of {len(buffer.storage)}")
    return addresses


def _load(operation: Operation, values: Values) -> Array:
    return values[0].storage[values[0].addresses(values[1:])]


def _store(operation: Operation, values: Values) -> None:
    value, buffer, *indices = values
    buffer.storage[buffer.addresses(indices)] = value


def _allocate(operation: Operation, values: Values) -> Buffer:
    type_ = operation.result.type
    assert isinstance(type_, MemRefType)
    return Buffer.allocate(type_)


def _static_columns(operation: Operation) -> list[list[int]]:
    if len(operation.operands) > 1:
        raise NotImplementedError(f"{operation.name} with sizes known only at run time")
    return [plain(operation.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")]


def _reinterpret(operation: Operation, values: Values) -> Buffer:
    offsets, sizes, strides = _static_columns(operation)
    return Buffer(values[0].storage, tuple(sizes), tuple(strides), offsets[0])


def _subview(operation: Operation, values: Values) -> Buffer:
    """Dimensions of size 1 may be dropped: those that the result type does not have."""
    buffer = values[0]
    offsets, sizes, steps = _static_columns(operation)
    offset = buffer.offset + sum(o * s for o, s in zip(offsets, buffer.strides, strict=True))
    strides = [step * stride for step, stride in zip(steps, buffer.strides, strict=True)]
    type_ = operation.result.type
    assert isinstance(type_, MemRefType)
    kept: list[int] = []
    for position, size in enumerate(sizes):
        left = len(sizes) - position
        is_dropped = (
            size == 1
            and left > type_.rank - len(kept)
            and (len(kept) == type_.rank or type_.shape[len(kept)] != 1)
        )
        if not is_dropped:
            kept.append(position)
    return Buffer(buffer.storage, tuple(sizes[k] for k in kept), tuple(strides[k] for k in kept), offset)


def _vector_load(operation: Operation, values: Values) -> Array:
    return values[0].storage[_lanes(operation, operation.result.type, values[0], values[1:], None)]


def _vector_store(operation: Operation, values: Values) -> None:
    value, buffer, *indices = values
    buffer.storage[_lanes(operation, operation.operand(0).type, buffer, indices, None)] = value


def _masked_load(operation: Operation, values: Values) -> Array:
    buffer, *indices, mask, other = values
    result = np.array(other)
    result[mask] = buffer.storage[_lanes(operation, operation.result.type, buffer, indices, mask)[mask]]
    return result


def _masked_store(operation: Operation, values: Values) -> None:
    buffer, *indices, mask, value = values
    addresses = _lanes(operation, operation.operands[-1].type, buffer, indices, mask)
    buffer.storage[addresses[mask]] = value[mask]


def _gather(operation: Operation, values: Values) -> Array:
    buffer, *indices, lanes, mask, other = values
    *outer, last = indices
    result = np.array(other)
    result[mask] = buffer.storage[buffer.addresses([*outer, last + lanes[mask].astype(np.int64)])]
    return result


def _scatter(operation: Operation, values: Values) -> None:
    buffer, *indices, lanes, mask, value = values
    *outer, last = indices
    buffer.storage[buffer.addresses([*outer, last + lanes[mask].astype(np.int64)])] = value[mask]


def _broadcast(operation: Operation, values: Values) -> Array:
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    return np.broadcast_to(values[0], type_.shape)


def _create_mask(operation: Operation, values: Values) -> Array:
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    return np.arange(type_.shape[0]) < int(values[0])


def _step(operation: Operation, values: Values) -> Array:
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    return np.arange(type_.shape[0], dtype=np.int64)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "mul": np.multiply, "minsi": np.minimum, "maxsi": np.maximum, "minimumf": np.minimum,
    "maximumf": np.maximum, "minnumf": np.fmin, "maxnumf": np.fmax, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _reduction(operation: Operation, values: Values) -> Array:
    """In order of the lanes, starting from the accumulator when there is one."""
    kind = operation.attributes["kind"]
    assert isinstance(kind, OpaqueAttr)
    name = kind.spelling.removeprefix("#vector.kind<").removesuffix(">")
    lanes = list(values[0])
    if name in ("minui", "maxui"):
        unsigned = [lane.view(lane.dtype.str.replace("i", "u")) for lane in (*lanes, *values[1:])]
        return np.asarray((min if name == "minui" else max)(unsigned)).view(values[0].dtype)
    element: ScalarType = element_of(operation.result.type)
    with np.errstate(all="ignore"):
        total = values[1] if len(values) > 1 else lanes.pop(0)
        for lane in lanes:
            total = round_array(REDUCTIONS[name](total, lane), element)
    return np.asarray(total)


def _extract(operation: Operation, values: Values) -> Array:
    return np.asarray(values[0][tuple(plain(operation.attributes["static_position"]))])


def _insert(operation: Operation, values: Values) -> Array:
    result = np.array(values[1])
    result[tuple(plain(operation.attributes["static_position"]))] = values[0]
    return result


def _shuffle(operation: Operation, values: Values) -> Array:
    return np.concatenate(values)[plain(operation.attributes["mask"])]


def _address_number(operation: Operation, values: Values) -> Array:
    """Addresses are not modelled; that of every buffer is a multiple of all powers of two."""
    return np.int64(0)


MEMORY: dict[str, Callable[[Operation, Values], Any]] = {
    "memref.alloc": _allocate, "memref.alloca": _allocate, "memref.load": _load, "memref.store": _store,
    "memref.reinterpret_cast": _reinterpret, "memref.subview": _subview, "vector.load": _vector_load,
    "vector.store": _vector_store, "vector.maskedload": _masked_load, "vector.maskedstore": _masked_store,
    "vector.gather": _gather, "vector.scatter": _scatter, "vector.broadcast": _broadcast,
    "vector.create_mask": _create_mask, "vector.step": _step, "vector.reduction": _reduction,
    "memref.extract_aligned_pointer_as_index": _address_number, "vector.extract": _extract,
    "vector.insert": _insert, "vector.shuffle": _shuffle,
}  # fmt: skip
"""One result, or None where the operation has none."""
