"""torch's dtypes beside the IR's scalar types."""

from __future__ import annotations

import torch

from lamina.ir import types
from lamina.ir.types import ScalarType

TO_TORCH: dict[ScalarType, torch.dtype] = {
    types.f64: torch.float64,
    types.f32: torch.float32,
    types.f16: torch.float16,
    types.bf16: torch.bfloat16,
    types.i1: torch.bool,
    types.i8: torch.int8,
    types.i16: torch.int16,
    types.i32: torch.int32,
    types.i64: torch.int64,
    types.ui8: torch.uint8,
    types.ui16: torch.uint16,
    types.ui32: torch.uint32,
    types.ui64: torch.uint64,
    types.complex32: torch.complex32,
    types.complex64: torch.complex64,
    types.complex128: torch.complex128,
    types.f8e4m3fn: torch.float8_e4m3fn,
    types.f8e5m2: torch.float8_e5m2,
}
