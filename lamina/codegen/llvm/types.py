"""Types of the loop level as types of the `llvm` dialect.

    index -> i64    bf16 -> i16 (its bits)    ui8 -> i8    memref -> !llvm.ptr
    vector<8xindex> -> vector<8xi64>

bf16 values are carried as their bits: every arithmetic on them is done in f32 between a widening and a
rounding, so that no processor's own bf16 instructions (which flush subnormals) get a say.
"""

from __future__ import annotations

from lamina.ir.types import (
    MemRefType,
    OpaqueType,
    ScalarType,
    Type,
    VectorType,
    bf16,
    i1,
    i8,
    i16,
    i32,
    i64,
    index,
    pointer,
    ui8,
    ui16,
    ui32,
    ui64,
)

SCALARS: dict[ScalarType, ScalarType] = {index: i64, bf16: i16, ui8: i8, ui16: i16, ui32: i32, ui64: i64}
"""Scalar types that become another one."""


def lower_scalar(type_: ScalarType) -> ScalarType:
    return SCALARS.get(type_, type_)


def lower_type(type_: Type) -> Type:
    """The `llvm` dialect's type of values of `type_`."""
    if isinstance(type_, ScalarType):
        return lower_scalar(type_)
    if isinstance(type_, VectorType):
        if type_.rank != 1:
            raise ValueError(f"{type_}: only vectors of rank 1 reach the llvm dialect")
        return VectorType.get(type_.shape, lower_scalar(type_.element))
    if isinstance(type_, MemRefType):
        return pointer
    return type_


def stored_type(type_: ScalarType) -> ScalarType:
    """The type of one element in memory: an `i1` takes a byte."""
    return i8 if type_ is i1 else lower_scalar(type_)


def lanes_of(type_: Type) -> int:
    """Number of lanes of a vector; 0 for anything else."""
    return type_.shape[0] if isinstance(type_, VectorType) else 0


def like(type_: Type, element: ScalarType) -> Type:
    """`element`, in as many lanes as `type_` has."""
    lanes = lanes_of(type_)
    return VectorType.get((lanes,), element) if lanes else element


def pointers(lanes: int) -> OpaqueType:
    """A vector of addresses."""
    return OpaqueType.get(f"vector<{lanes}x!llvm.ptr>")
