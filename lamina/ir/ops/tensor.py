"""`tensor`: structure of tensor values, the upstream operations used here (static sizes in attributes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lamina.ir.attributes import Attribute, DenseArrayAttr, plain
from lamina.ir.core import Operation
from lamina.ir.record import PURE, OpRecord
from lamina.ir.sizes import ANONYMOUS
from lamina.ir.types import TensorType, Type, element_count, i32

Array = Any


def as_tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise ValueError(f"needs a tensor, got {type_}")
    return type_


def infer_slice(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (TensorType.get(tuple(plain(attributes["static_sizes"])), as_tensor(types[0]).element),)


def _verify_slice(operation: Operation) -> None:
    shape = as_tensor(operation.operand().type).shape
    columns = [plain(operation.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")]
    if any(len(column) != len(shape) for column in columns):
        raise ValueError(f"offsets, sizes and strides must have {len(shape)} entries each")
    for size, start, count, step in zip(shape, *columns, strict=True):
        last = start + (count - 1) * step
        is_known = isinstance(size, int) or size.name != ANONYMOUS
        if count and (start < 0 or step <= 0 or not is_known or last >= size):
            raise ValueError(f"slice {start}:+{count}:{step} leaves a dimension of size {size}")


def slice_meaning(
    x: Array, *, static_offsets: list[int], static_sizes: list[int], static_strides: list[int], **_: Any
) -> Array:
    parts = zip(static_offsets, static_sizes, static_strides, strict=True)
    return x[
        tuple(
            slice(start, start + (count - 1) * step + 1 if count else start, step)
            for start, count, step in parts
        )
    ]


def infer_concat(types: Sequence[Type], attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    tensors, dim = [as_tensor(type_) for type_ in types], plain(attributes["dim"])
    if not tensors:
        raise ValueError("needs at least one operand")
    shape = list(tensors[0].shape)
    shape[dim] = sum(tensor.sizes[dim] for tensor in tensors)
    return (TensorType.get(tuple(shape), tensors[0].element),)


def _verify_concat(operation: Operation) -> None:
    expected = infer_concat([value.type for value in operation.operands], operation.attributes)
    if expected[0] is not operation.result.type:
        raise ValueError(f"result must be {expected[0]}, got {operation.result.type}")


def _verify_reshape(operation: Operation) -> None:
    source, target = as_tensor(operation.operand().type), as_tensor(operation.result.type)
    groups = plain(operation.attributes["reassociation"])
    long, short = (source, target) if operation.name == "tensor.collapse_shape" else (target, source)
    # Rank 0 has no group: all sizes on the other side are 1.
    covered = list(range(long.rank)) if short.rank else []
    if [k for group in groups for k in group] != covered or len(groups) != short.rank:
        raise ValueError(f"reassociation {groups} does not relate {source} and {target}")
    for group, size in zip(groups, short.shape, strict=True):
        product = 1
        for k in group:
            product *= long.shape[k]
        if product != size:
            raise ValueError(f"reassociation {groups} does not relate {source} and {target}")
    if element_count(source) != element_count(target) or source.element is not target.element:
        raise ValueError(f"{source} and {target} differ in elements")


RECORDS = (
    OpRecord("tensor.empty", 0, 1, frozenset({PURE})),
    OpRecord(
        "tensor.extract_slice", 1, 1, frozenset({PURE}), ("static_offsets", "static_sizes", "static_strides"),
        infer=infer_slice, meaning=slice_meaning, verify=_verify_slice,
        implied=(("operandSegmentSizes", DenseArrayAttr((1, 0, 0, 0), i32)),),
    ),
    OpRecord(
        "tensor.concat", None, 1, frozenset({PURE}), ("dim",), infer=infer_concat,
        meaning=lambda *xs, dim: np.concatenate(xs, dim), verify=_verify_concat,
    ),
    OpRecord("tensor.collapse_shape", 1, 1, frozenset({PURE}), ("reassociation",), verify=_verify_reshape),
    OpRecord(
        "tensor.expand_shape", 1, 1, frozenset({PURE}), ("reassociation", "static_output_shape"),
        verify=_verify_reshape,
    ),
)  # fmt: skip
