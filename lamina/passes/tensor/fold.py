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

from lamina.ir.arrays import apply_elementwise, constant_array, round_array
from lamina.ir.attributes import STORAGE, DenseElementsAttr, encode_scalar, plain, round_to_bf16
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise, record
from lamina.ir.passes import Context
from lamina.ir.types import KERNEL_SCALARS, ScalarType, TensorType, bf16, element_count, i1

NAME = "fold"
LARGEST = 1024
"""Elements of the largest constant made that is not a splat."""
PLACING = frozenset(
    {
        "lamina.broadcast", "lamina.permute", "lamina.reverse", "lamina.pad", "tensor.extract_slice",
        "tensor.concat", "tensor.collapse_shape", "tensor.expand_shape",
    }
)  # fmt: skip
"""Operations that only place elements: of equal splats they make a splat."""

Array = Any
Computed = tuple[Array, bool]
"""The elements of a result and whether it is a splat (then a rank-0 array)."""


def run(module: Operation, context: Context) -> None:
    """Replace every operation whose operands are all constants, where the result is small or a splat."""
    for operation in module.walk():
        if operation.parent is not None and operation.results:
            value = fold(operation, Builder.before_op(operation))
            if value is not None:
                operation.replace_with([value])


def fold(operation: Operation, builder: Builder) -> Value | None:
    """The constant that the operation amounts to, if it does to one."""
    constant = compute(operation)
    if constant is None:
        return None
    return builder.value("arith.constant", (), operation.result.type, {"value": constant})


def compute(operation: Operation) -> DenseElementsAttr | None:
    """The constant an operation amounts to; None when it is not one, or not worth making."""
    if len(operation.results) != 1 or not operation.operands or operation.regions:
        return None
    type_ = operation.result.type
    if not isinstance(type_, TensorType) or type_.element not in KERNEL_SCALARS:
        return None
    constants = [dense_constant(value) for value in operation.operands]
    known = [each for each in constants if each is not None and each.type.element in KERNEL_SCALARS]
    if len(known) != len(constants):
        return None
    with np.errstate(all="ignore"):
        computed = _compute(operation, known, type_)
    if computed is None:
        return None
    values, is_splat = computed
    stored = to_storage(values, type_.element)
    if is_splat and stored.size:
        return DenseElementsAttr(type_, stored.tobytes(), True)
    return DenseElementsAttr.from_array(stored, type_)


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


def make_splat(builder: Builder, value: float | int | bool, type_: TensorType) -> Value:
    """A constant tensor of one value, rounded to the element type."""
    dense = DenseElementsAttr(type_, encode_scalar(value, type_.element), True)
    return builder.value("arith.constant", (), type_, {"value": dense})


def to_storage(values: Array, element: ScalarType) -> Array:
    """Numbers in the storage dtype of `element`, rounded."""
    if element is bf16:
        return round_to_bf16(np.asarray(values, np.float32))
    return np.asarray(round_array(values, element), STORAGE[element.name])


def _compute(operation: Operation, constants: list[DenseElementsAttr], type_: TensorType) -> Computed | None:
    all_splat = all(constant.is_splat for constant in constants)
    if is_elementwise(operation):
        if not all_splat and element_count(type_) > LARGEST:
            return None
        arrays = [_elements(constant, all_splat) for constant in constants]
        name = operation.name.split(".", 1)[1]
        if name in GUARDED and not GUARDED[name](*arrays):
            return None
        if name in ("fptosi", "fptoui") and not _fits(arrays[0], type_.element):
            return None
        return apply_elementwise(operation, arrays), all_splat
    if all_splat and operation.name in PLACING:
        same = len({constant.bytes_ for constant in constants}) == 1
        return (_elements(constants[0], True), True) if same else None
    if operation.name == "lamina.reduce" and constants[0].is_splat:
        return _reduce_splat(plain(operation.attributes["kind"]), constants[0], type_)
    if element_count(type_) > LARGEST or any(element_count(each.type) > LARGEST for each in constants):
        return None
    return _place(operation, [_elements(constant, False) for constant in constants], type_)


def _elements(constant: DenseElementsAttr, as_scalar: bool) -> Array:
    array = constant_array(constant, constant.type)
    return array.reshape(-1)[0].reshape(()) if as_scalar and array.size else array


def _has_no_zero(a: Array, b: Array) -> bool:
    """Division by zero is undefined, and so is the one overflow: the least integer by -1."""
    return bool(np.all(b != 0)) and not bool(np.any((b == -1) & (a == np.iinfo(a.dtype).min)))


def _shifts_within(a: Array, b: Array) -> bool:
    return bool(np.all((b >= 0) & (b < a.dtype.itemsize * 8)))


def _fits(a: Array, target: ScalarType) -> bool:
    """What a conversion of too large a number gives differs between machines: left to run time."""
    return bool(np.all(np.abs(a) < 2.0 ** (target.bits - 1)))


GUARDED: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(("divsi", "divui", "floordivsi", "ceildivsi", "remsi", "remui"), _has_no_zero),
    **dict.fromkeys(("shli", "shrsi", "shrui"), _shifts_within),
}
"""When an operation with undefined cases may be computed."""


def _reduce_splat(kind: str, constant: DenseElementsAttr, type_: TensorType) -> Computed | None:
    count, one = element_count(constant.type), constant_array(constant, constant.type)
    if count == 0 or kind.startswith("arg"):
        return None
    number = one.reshape(-1)[0].reshape(())
    if kind in ("max", "min", "and", "or"):
        return number, True
    if kind != "add" or constant.type.element is i1:
        return None
    times = count // max(element_count(type_), 1)
    # 0.0 is where a sum of floats starts: -0.0 becomes 0.0.
    wide = number.astype(np.float64) + 0.0 if constant.type.element.is_float else number
    return np.asarray(wide * np.asarray(times, wide.dtype)), True


def _place(operation: Operation, arrays: list[Array], type_: TensorType) -> Computed | None:
    if operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
        return arrays[0].reshape(type_.shape), False
    found = record(operation.name)
    if (
        found is None
        or found.meaning is None
        or (arrays[0].dtype == bool and operation.name == "lamina.reduce")
    ):
        return None
    attributes = {key: plain(value) for key, value in operation.attributes.items() if key in found.attributes}
    if operation.name == "lamina.broadcast":
        attributes["shape"] = type_.shape
    return np.asarray(found.meaning(*arrays, **attributes)), False
