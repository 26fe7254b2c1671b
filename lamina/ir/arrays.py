"""Values of the IR as NumPy arrays: storage, rounding, casts, constants, elementwise operations.

An element type's numbers are kept in its own dtype, bf16 in float32 that is rounded after every operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.ir.attributes import (
    STORAGE,
    Attribute,
    BoolAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    bf16_to_f32,
    plain,
    round_to_bf16,
)
from lamina.ir.core import Operation
from lamina.ir.ops import record
from lamina.ir.types import ScalarType, TensorType, Type, VectorType, bf16, element_of, i1

Array = Any


def dtype_of(type_: ScalarType) -> np.dtype[Any]:
    """The dtype that holds the numbers of an element type here."""
    return np.dtype("<f4" if type_ is bf16 else STORAGE[type_.name])


def round_array(values: Array, type_: ScalarType) -> Array:
    """Numbers rounded to nearest even, or wrapped, into an element type."""
    array = np.asarray(values)
    with np.errstate(over="ignore", invalid="ignore"):
        if type_ is bf16:
            narrow = array.astype(np.float32)
            return bf16_to_f32(round_to_bf16(narrow)).reshape(array.shape)
        return array.astype(dtype_of(type_), copy=False)


def constant_array(value: Attribute, type_: Type) -> Array:
    """The numbers of an `arith.constant`."""
    element = element_of(type_)
    if isinstance(value, FloatAttr | IntegerAttr | BoolAttr):
        return np.array(value.value).astype(dtype_of(element))
    if not isinstance(value, DenseElementsAttr) or not isinstance(type_, TensorType | VectorType):
        raise ValueError(f"no constant of type {type_}: {value!r}")
    stored = np.frombuffer(value.bytes_, STORAGE[element.name])
    numbers = bf16_to_f32(stored) if element is bf16 else stored
    if value.is_splat:
        return np.broadcast_to(numbers.reshape(()), type_.shape)  # type: ignore[arg-type]
    return numbers.reshape(type_.shape)


def apply_elementwise(operation: Operation, arrays: list[Array]) -> Array:
    """What an elementwise operation gives for arrays of one shape, whatever the shape in its types."""
    name = operation.name.split(".", 1)[1]
    target = element_of(operation.results[0].type)
    source = element_of(operation.operands[0].type) if operation.operands else target
    if operation.name == "arith.constant":
        return constant_array(operation.attributes["value"], operation.results[0].type)
    # Meanings work on arrays; NumPy turns arrays of no dimensions into scalars on the way.
    is_scalar = all(np.ndim(array) == 0 for array in arrays)
    lifted = [np.reshape(array, 1) if is_scalar else np.asarray(array) for array in arrays]
    with np.errstate(all="ignore"):
        if operation.name in CASTS:
            result = CASTS[operation.name](lifted[0], source, target)
        else:
            result = _apply_meaning(operation, name, lifted, source)
        result = round_array(result, target)
    return result.reshape(()) if is_scalar else result


def _apply_meaning(operation: Operation, name: str, arrays: list[Array], source: ScalarType) -> Array:
    found = record(operation.name)
    if found is None or found.meaning is None:
        raise NotImplementedError(f"{operation.name} has no meaning in NumPy")
    attributes = {key: plain(operation.attributes[key]) for key in found.attributes}
    if source is i1 and name not in ("select", "andi", "ori", "xori"):
        # A signed one-bit integer is 0 or -1, and adding is modulo two.
        result = found.meaning(*[-array.astype(np.int8) for array in arrays], **attributes)
        return result if result.dtype == bool else (result & 1).astype(bool)
    if operation.name.startswith("math.") and source.is_float and source.name != "f64":
        # One rounding, that of the element type.
        arrays = [array.astype(np.float64) for array in arrays]
    return found.meaning(*arrays, **attributes)


def _extend_signed(x: Array, source: ScalarType, target: ScalarType) -> Array:
    return -x.astype(np.int8) if source is i1 else x


def _extend_unsigned(x: Array, source: ScalarType, target: ScalarType) -> Array:
    return x if source is i1 else x.view(x.dtype.str.replace("i", "u"))


def _truncate(x: Array, source: ScalarType, target: ScalarType) -> Array:
    return (x & 1).astype(bool) if target is i1 else x


def _to_signed(x: Array, source: ScalarType, target: ScalarType) -> Array:
    """As x86 converts and eager with it: nan and what does not fit give the smallest integer.

    Integers under 32 bits are the low bits of the 32-bit result.
    """
    wide = np.int64 if target.bits > 32 else np.int32
    limit = float(2 ** (63 if target.bits > 32 else 31))
    fits = (x > -limit - 1) & (x < limit) if target.bits <= 32 else (x >= -limit) & (x < limit)
    whole = np.where(fits, np.trunc(x.astype(np.float64)), 0).astype(wide)
    return np.where(fits, whole, np.iinfo(wide).min)


def _to_unsigned(x: Array, source: ScalarType, target: ScalarType) -> Array:
    """The low bits of the signed 64-bit result; up from 2**63 of the unsigned one."""
    low = _to_signed(np.where(x >= 2.0**63, x - 2.0**63, x), source, ScalarType.get("i64", 64))
    return np.where((x >= 2.0**63) & (x < 2.0**64), low ^ np.int64(-(2**63)), low)


def _bitcast(x: Array, source: ScalarType, target: ScalarType) -> Array:
    bits = (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16) if source is bf16 else x
    if target is bf16:
        return bf16_to_f32(np.ascontiguousarray(bits).view(np.uint16))
    return np.ascontiguousarray(bits).view(STORAGE[target.name])


def _same(x: Array, source: ScalarType, target: ScalarType) -> Array:
    return x


CASTS: dict[str, Callable[[Array, ScalarType, ScalarType], Array]] = {
    "arith.extf": _same,
    "arith.truncf": _same,
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _truncate,
    "arith.sitofp": _extend_signed,
    "arith.uitofp": _extend_unsigned,
    "arith.fptosi": _to_signed,
    "arith.fptoui": _to_unsigned,
    "arith.bitcast": _bitcast,
    "arith.index_cast": _extend_signed,
    "arith.index_castui": _extend_unsigned,
}
"""Numbers of the source type to numbers that are then rounded or wrapped to the target type."""
