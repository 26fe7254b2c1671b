"""Compute operations on constants now, with the rounding of their own type.

    %0 = arith.constant dense<1.0> : tensor<4xbf16>
    %1 = arith.constant dense<0.001> : tensor<4xbf16>
    %2 = arith.addf %0, %1                      =>      %2 = arith.constant dense<1.0> : tensor<4xbf16>

A splat (one value for all elements) stays a splat, whatever its size. Other constants are computed only up
to `LARGEST` elements: a big table in the program costs more than the work it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.ir.attributes import (
    STORAGE,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    bf16_to_f32,
    encode_scalar,
    plain,
    round_to_bf16,
)
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise, record
from lamina.ir.passes import Context
from lamina.ir.types import KERNEL_SCALARS, ScalarType, TensorType, element_count

NAME = "fold"
LARGEST = 1024
"""Elements of the largest constant made that is not a splat."""

Array = Any
Computed = tuple[Array, bool]
"""The elements of a result and whether it is a splat (then a rank-0 array)."""


def run(module: Operation, context: Context) -> None:
    """Replace every operation whose operands are all constants, where the result is small or a splat."""
    for operation in module.walk():
        if operation.parent is not None and operation.results:
            fold(operation)


def fold(operation: Operation) -> Value | None:
    """Replace the operation by a constant if it can be; gives the constant."""
    constant = compute(operation)
    if constant is None:
        return None
    builder = Builder.before_op(operation)
    value = builder.value("arith.constant", (), operation.result.type, {"value": constant})
    operation.replace_with([value])
    return value


def compute(operation: Operation) -> DenseElementsAttr | FloatAttr | IntegerAttr | None:
    """The constant an operation amounts to; None when it is not one, or not worth making."""
    if len(operation.results) != 1 or not operation.operands or operation.regions:
        return None
    type_ = operation.result.type
    constants = [dense_constant(value) for value in operation.operands]
    if not isinstance(type_, TensorType) or type_.element not in KERNEL_SCALARS:
        return None
    if any(constant is None or constant.type.element not in KERNEL_SCALARS for constant in constants):
        return None
    known = [constant for constant in constants if constant is not None]
    with np.errstate(all="ignore"):
        computed = _compute(operation, known, type_)
    if computed is None:
        return None
    values, is_splat = computed
    if is_splat:
        return DenseElementsAttr(type_, to_storage(values, type_.element).tobytes(), True)
    return DenseElementsAttr.from_array(to_storage(values, type_.element), type_)


def dense_constant(value: Value) -> DenseElementsAttr | None:
    """The constant a tensor value is, if it is one."""
    operation = value.defining_op
    if operation is None or operation.name != "arith.constant":
        return None
    constant = operation.attributes["value"]
    return constant if isinstance(constant, DenseElementsAttr) else None


def splat_constant(value: Value) -> float | int | bool | None:
    """The one value all elements have, if that is known."""
    constant = dense_constant(value)
    if constant is None or not constant.is_splat or constant.type.element.name not in STORAGE:
        return None
    return constant.splat_value()


def to_compute(constant: DenseElementsAttr, shape: tuple[int, ...]) -> Array:
    """The elements as NumPy numbers: bf16 as float32, everything else in its own dtype."""
    values = np.frombuffer(constant.bytes_, STORAGE[constant.type.element.name]).reshape(shape)
    return bf16_to_f32(values) if constant.type.element.name == "bf16" else values


def to_storage(values: Array, element: ScalarType) -> Array:
    """Elements rounded into the storage dtype of `element`."""
    if element.name == "bf16":
        return round_to_bf16(np.asarray(values, np.float32))
    return np.asarray(values).astype(STORAGE[element.name])


def _compute(operation: Operation, constants: list[DenseElementsAttr], type_: TensorType) -> Computed | None:
    all_splat = all(constant.is_splat for constant in constants)
    if is_elementwise(operation):
        if not all_splat and element_count(type_) > LARGEST:
            return None
        values = _elementwise(operation, [_elements(constant, all_splat) for constant in constants])
        return None if values is None else (values, all_splat)
    if all_splat and operation.name in SPLAT_KEEPERS:
        same = len({constant.bytes_ for constant in constants}) == 1
        return (to_compute(constants[0], ()), True) if same else None
    if operation.name == "lamina.reduce":
        return _reduce(operation, constants[0], type_)
    if element_count(type_) > LARGEST or any(element_count(c.type) > LARGEST for c in constants):
        return None
    return _structure(operation, [_elements(constant, False) for constant in constants], type_)


SPLAT_KEEPERS = frozenset(
    {
        "lamina.broadcast", "lamina.permute", "lamina.reverse", "lamina.pad", "tensor.extract_slice",
        "tensor.concat", "tensor.collapse_shape", "tensor.expand_shape",
    }
)  # fmt: skip
"""Operations that only place elements: of equal splats they make a splat."""


def _elements(constant: DenseElementsAttr, as_scalar: bool) -> Array:
    if constant.is_splat:
        one = to_compute(constant, ())
        return one if as_scalar else np.broadcast_to(one, constant.type.shape)  # type: ignore[arg-type]
    return to_compute(constant, constant.type.shape)  # type: ignore[arg-type]


def _elementwise(operation: Operation, arrays: list[Array]) -> Array | None:
    source, target = operation.operand(0).type, operation.result.type
    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        return None
    dialect, name = operation.name.split(".", 1)
    cast = CASTS.get(name)
    if cast is not None:
        return cast(arrays[0], source.element, target.element)
    if name in GUARDED and not GUARDED[name](*arrays):
        return None
    found = record(operation.name)
    if found is None or found.meaning is None or (source.element.name == "i1" and name not in ON_BOOLEANS):
        return None
    if dialect == "math" and source.element.is_float:
        # In float64, so that the one rounding is the element type's; eager's own error is larger.
        arrays = [array.astype(np.float64) for array in arrays]
    attributes = {key: plain(value) for key, value in operation.attributes.items() if key in found.attributes}
    return np.asarray(found.meaning(*arrays, **attributes))


ON_BOOLEANS = frozenset({"andi", "ori", "xori", "select", "cmpi"})
"""Operations whose NumPy meaning on bool is that of a one-bit integer."""


def _has_no_zero(a: Array, b: Array) -> bool:
    """Division by zero is undefined, and so is the one overflow: the least integer by -1."""
    return bool(np.all(b != 0)) and not bool(np.any((b == -1) & (a == np.iinfo(a.dtype).min)))


def _shifts_within(a: Array, b: Array) -> bool:
    return bool(np.all((b >= 0) & (b < a.dtype.itemsize * 8)))


GUARDED: dict[str, Callable[[Array, Array], bool]] = {
    **dict.fromkeys(("divsi", "divui", "floordivsi", "remsi", "remui"), _has_no_zero),
    **dict.fromkeys(("shli", "shrsi", "shrui"), _shifts_within),
}
"""When an operation with undefined cases may be computed."""


def _number_dtype(element: ScalarType) -> Any:
    return np.float32 if element.name == "bf16" else np.dtype(STORAGE[element.name])


def _extend_float(values: Array, source: ScalarType, target: ScalarType) -> Array:
    return values.astype(_number_dtype(target))


def _truncate_float(values: Array, source: ScalarType, target: ScalarType) -> Array | None:
    # f64 to bf16 through float32 would round twice.
    return None if target.name == "bf16" and source.name == "f64" else values.astype(_number_dtype(target))


def _integer_to_float(values: Array, source: ScalarType, target: ScalarType) -> Array | None:
    if target.name in ("bf16", "f16") and source.bits > 16:
        return None if np.any(np.abs(values.astype(np.float64)) > 1 << 24) else values.astype(np.float32)
    return values.astype(_number_dtype(target))


def _signed_to_float(values: Array, source: ScalarType, target: ScalarType) -> Array | None:
    return _integer_to_float(-values.astype(np.int8) if source.name == "i1" else values, source, target)


def _unsigned(values: Array) -> Array:
    return values if values.dtype.kind == "b" else values.view(f"u{values.dtype.itemsize}")


def _unsigned_to_float(values: Array, source: ScalarType, target: ScalarType) -> Array | None:
    return _integer_to_float(_unsigned(values), source, target)


def _float_to_signed(values: Array, source: ScalarType, target: ScalarType) -> Array | None:
    """Out of range is undefined, and differs between machines: left to run time."""
    limit = 2.0 ** (target.bits - 1)
    if target.name == "i1" or not np.all((values > -limit - 1) & (values < limit)):
        return None
    return np.trunc(values.astype(np.float64)).astype(_number_dtype(target))


def _extend_signed(values: Array, source: ScalarType, target: ScalarType) -> Array:
    wide = values.astype(_number_dtype(target))
    return -wide if source.name == "i1" else wide


def _extend_unsigned(values: Array, source: ScalarType, target: ScalarType) -> Array:
    return _unsigned(values).astype(_number_dtype(target))


def _truncate_integer(values: Array, source: ScalarType, target: ScalarType) -> Array:
    return (values & 1).astype(bool) if target.name == "i1" else values.astype(_number_dtype(target))


CASTS: dict[str, Callable[[Array, ScalarType, ScalarType], Array | None]] = {
    "extf": _extend_float,
    "truncf": _truncate_float,
    "sitofp": _signed_to_float,
    "uitofp": _unsigned_to_float,
    "fptosi": _float_to_signed,
    "extsi": _extend_signed,
    "extui": _extend_unsigned,
    "trunci": _truncate_integer,
}
"""Casts: (elements, source type, target type) -> elements, None where it is better left to run time."""


def _reduce(operation: Operation, constant: DenseElementsAttr, type_: TensorType) -> Computed | None:
    kind, count = plain(operation.attributes["kind"]), element_count(constant.type)
    if kind.startswith("arg") or count == 0:
        return None
    if constant.is_splat:
        one, times = to_compute(constant, ()), count // max(element_count(type_), 1)
        if kind in ("max", "min", "and", "or"):
            return one, True
        if kind == "add" and constant.type.element.name != "i1":
            wide = one.astype(np.float64) if constant.type.element.is_float else one
            return np.asarray(wide * np.asarray(times, wide.dtype)), True
        return None
    if count > LARGEST or constant.type.element.name == "i1":
        return None
    return _structure(operation, [_elements(constant, False)], type_)


def _structure(operation: Operation, arrays: list[Array], type_: TensorType) -> Computed | None:
    if operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
        return arrays[0].reshape(type_.shape), False
    found = record(operation.name)
    if found is None or found.meaning is None:
        return None
    attributes = {key: plain(value) for key, value in operation.attributes.items() if key in found.attributes}
    if operation.name == "lamina.broadcast":
        attributes["shape"] = type_.shape
    return np.asarray(found.meaning(*arrays, **attributes)), False


def make_splat(builder: Builder, value: float | int | bool, type_: TensorType) -> Value:
    """A constant tensor of one value, rounded to the element type."""
    dense = DenseElementsAttr(type_, encode_scalar(value, type_.element), True)
    return builder.value("arith.constant", (), type_, {"value": dense})
