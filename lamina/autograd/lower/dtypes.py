"""torch's dtypes beside the IR's scalar types, and eager's rules for the dtype of mixed operands."""

from __future__ import annotations

from typing import Any

import torch

from lamina.autograd.lower.numbers import OpenNumber
from lamina.ir import types
from lamina.ir.attributes import decode_scalar, encode_scalar
from lamina.ir.core import Value
from lamina.ir.sizes import SymbolicSize
from lamina.ir.types import KERNEL_SCALARS, ScalarType, TensorType

SCALAR_OF: dict[torch.dtype, ScalarType] = {
    torch.float64: types.f64,
    torch.float32: types.f32,
    torch.float16: types.f16,
    torch.bfloat16: types.bf16,
    torch.bool: types.i1,
    torch.int8: types.i8,
    torch.int16: types.i16,
    torch.int32: types.i32,
    torch.int64: types.i64,
    torch.uint8: types.ui8,
    torch.uint16: types.ui16,
    torch.uint32: types.ui32,
    torch.uint64: types.ui64,
    torch.complex32: types.complex32,
    torch.complex64: types.complex64,
    torch.complex128: types.complex128,
    torch.float8_e4m3fn: types.f8e4m3fn,
    torch.float8_e5m2: types.f8e5m2,
}
DTYPE_OF = {scalar: dtype for dtype, scalar in SCALAR_OF.items()}

HALVES = (types.f16, types.bf16)


def tensor_type(value: Value) -> TensorType:
    """The type of a tensor value."""
    type_ = value.type
    assert isinstance(type_, TensorType)
    return type_


def element(value: Value) -> ScalarType:
    """The element type of a tensor value."""
    return tensor_type(value).element


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a tensor value."""
    return tensor_type(value).sizes


def default_float() -> ScalarType:
    """What integers become where floats are needed: torch's default dtype."""
    return SCALAR_OF[torch.get_default_dtype()]


def compute_type(scalar: ScalarType) -> ScalarType:
    """The type eager computes in: f32 for the half types, else the type itself."""
    return types.f32 if scalar in HALVES else scalar


def round_number(number: Any, scalar: ScalarType) -> Any:
    """`number` as a value of type `scalar`."""
    return decode_scalar(encode_scalar(number, scalar), scalar)


def holds_all(target: ScalarType, source: ScalarType) -> bool:
    """Whether no number of one type is too large for another."""
    if target is types.f16 and not source.is_float and source is not types.i1:
        return False
    wanted = DTYPE_OF[target]
    return torch.promote_types(DTYPE_OF[source], wanted) is wanted


def promote(operands: list[Any]) -> ScalarType | None:
    """Eager's common dtype of tensors and Python numbers; None where kernels do not have it.

    Tensors with dimensions decide before tensors without, those before numbers, unless a lower kind is of a
    higher category (bool < integer < float).
    """
    common: torch.dtype | None = None
    for group in (_tensors(operands, False), _tensors(operands, True), _numbers(operands)):
        if group is not None:
            common = group if common is None else _combine(common, group)
    scalar = SCALAR_OF.get(common) if common is not None else None
    return scalar if scalar in KERNEL_SCALARS else None


def _combine(higher: torch.dtype, lower: torch.dtype) -> torch.dtype:
    if _category(lower) > _category(higher):
        return torch.promote_types(higher, lower)
    return higher


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype is not torch.bool)


def _tensors(operands: list[Any], is_scalar: bool) -> torch.dtype | None:
    common: torch.dtype | None = None
    for value in operands:
        if isinstance(value, Value) and (tensor_type(value).rank == 0) == is_scalar:
            dtype = DTYPE_OF[element(value)]
            common = dtype if common is None else torch.promote_types(common, dtype)
    return common


def _numbers(operands: list[Any]) -> torch.dtype | None:
    common: torch.dtype | None = None
    for value in operands:
        if isinstance(value, Value) or value is None:
            continue
        dtype = _number_dtype(value)
        common = dtype if common is None else torch.promote_types(common, dtype)
    return common


def _number_dtype(value: Any) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, int | SymbolicSize):
        return torch.int64
    return torch.get_default_dtype() if isinstance(value, float | OpenNumber) else torch.complex64
