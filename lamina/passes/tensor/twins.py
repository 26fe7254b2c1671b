"""Operations on a tensor's twin: the same numbers under permuted dimensions, row-major in memory.

    %t = permute(%x, order)      op(%x)  =>  permute(op'(%t), inverse of the order)

`layout` decides where this is done; here is how, one function an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.types import TensorType
from lamina.passes.tensor.fold import make_splat, splat_constant
from lamina.passes.tensor.reshape import grouping, reshape, static_shape

Order: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Twin:
    """Dimension k of `value` is dimension order[k] of the tensor it stands for."""

    value: Value
    order: Order


Twins: TypeAlias = Mapping[Value, Twin]


def inverse(order: Sequence[int]) -> Order:
    """The order that undoes `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def permute(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    """Dimension k of the result is dimension order[k] of `value`; nothing is built for the same order."""
    if list(order) == list(range(len(order))):
        return value
    return builder.value("lamina.permute", [value], turned(value.type, order), {"perm": integers(*order)})


def turned(type_: Any, order: Sequence[int]) -> TensorType:
    """The type of a permuted tensor."""
    assert isinstance(type_, TensorType)
    return TensorType.get(tuple(type_.shape[k] for k in order), type_.element)


def twin_of(value: Value, order: Order, twins: Twins, builder: Builder) -> Value:
    """A tensor permuted by `order`; a scalar stays as it is."""
    known = twins.get(value)
    if known is not None and known.order == order:
        return known.value
    if not isinstance(value.type, TensorType):
        return value
    number = splat_constant(value)
    if number is not None:
        return make_splat(builder, number, turned(value.type, order))
    maker = value.defining_op
    if maker is None or maker.name != "lamina.broadcast":
        return permute(builder, value, order)
    dims = [order.index(dim) for dim in plain(maker.attributes["dims"])]
    small = permute(builder, maker.operand(), _ranks(dims))
    attributes = {"dims": integers(*sorted(dims))}
    return builder.value("lamina.broadcast", [small], turned(value.type, order), attributes)


def _ranks(dims: list[int]) -> Order:
    """Positions of the entries by size."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


def elementwise_twin(operation: Operation, order: Order, twins: Twins, builder: Builder) -> Twin:
    operands = [twin_of(value, order, twins, builder) for value in operation.operands]
    type_ = turned(operation.result.type, order)
    return Twin(builder.value(operation.name, operands, type_, operation.attributes), order)


def _concat(operation: Operation, known: Twin, twins: Twins, builder: Builder) -> Twin | None:
    if 2 * sum(value in twins for value in operation.operands) < len(operation.operands):
        return None
    order = known.order
    parts = [twin_of(value, order, twins, builder) for value in operation.operands]
    attributes = {"dim": order.index(plain(operation.attributes["dim"]))}
    return Twin(builder.value(operation.name, parts, turned(operation.result.type, order), attributes), order)


def _placed(operation: Operation, known: Twin, twins: Twins, builder: Builder) -> Twin:
    """Slices and pads: attributes with one number for each dimension."""
    names = ("static_offsets", "static_sizes", "static_strides", "low", "high")
    attributes = {
        key: integers(*(plain(value)[k] for k in known.order)) if key in names else value
        for key, value in operation.attributes.items()
    }
    operands = [known.value, *operation.operands[1:]]
    type_ = turned(operation.result.type, known.order)
    return Twin(builder.value(operation.name, operands, type_, attributes), known.order)


def _reduce(operation: Operation, known: Twin, twins: Twins, builder: Builder) -> Twin:
    """What is left keeps its order among itself."""
    gone = plain(operation.attributes["dims"])
    left = [dim for dim in known.order if dim not in gone]
    attributes = {
        **operation.attributes,
        "dims": integers(*sorted(known.order.index(dim) for dim in gone)),
    }
    shape = static_shape(operation.operand())
    result = operation.result.type
    assert isinstance(result, TensorType)
    type_ = TensorType.get(tuple(shape[dim] for dim in left), result.element)
    value = builder.value("lamina.reduce", [known.value], type_, attributes)
    return Twin(value, tuple(sorted(left).index(dim) for dim in left))


def _expand(operation: Operation, known: Twin, twins: Twins, builder: Builder) -> Twin | None:
    """Dimensions split where they lie."""
    groups = plain(operation.attributes["reassociation"])
    order = tuple(new for dim in known.order for new in groups[dim])
    return _reshaped(operation, known, order, builder)


def _collapse(operation: Operation, known: Twin, twins: Twins, builder: Builder) -> Twin | None:
    """Dimensions joined, where they are neighbours in memory too."""
    order: list[int] = []
    at = 0
    groups = plain(operation.attributes["reassociation"])
    place = {dim: new for new, group in enumerate(groups) for dim in group}
    while at < len(known.order):
        new = place[known.order[at]]
        if list(known.order[at : at + len(groups[new])]) != groups[new]:
            return None
        order.append(new)
        at += len(groups[new])
    return _reshaped(operation, known, tuple(order), builder)


def _reshaped(operation: Operation, known: Twin, order: Order, builder: Builder) -> Twin | None:
    shape = [static_shape(operation.result)[dim] for dim in order]
    source = static_shape(known.value)
    if grouping(tuple(shape), source) is None and grouping(source, tuple(shape)) is None:
        return None
    return Twin(reshape(builder, known.value, shape), order)


Rewrite = Callable[[Operation, Twin, Twins, Builder], Twin | None]

REWRITES: dict[str, Rewrite] = {
    "tensor.concat": _concat,
    "tensor.extract_slice": _placed,
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
    "lamina.pad": _placed,
    "lamina.reduce": _reduce,
}
"""(operation, its first operand's twin, all twins, builder) -> the result's twin; None: it stays as it is."""
