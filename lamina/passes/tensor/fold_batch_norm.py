"""Fold scales and shifts of each channel into the weights of the convolution or linear layer before them.

    %0 = aten.convolution(%x, %w, %b)                %w1 = arith.mulf %w, %alpha
    %1 = arith.mulf %0, %alpha                 =>    %b1 = %b * %alpha + %beta
    %2 = arith.addf %1, %beta                        %2 = aten.convolution(%x, %w1, %b1)

where alpha and beta come from weights: batch norm outside training, layer scale. What is done to the
weights is done once, by `prepare`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops.aten import arguments
from lamina.ir.passes import Context
from lamina.ir.types import TensorType, f32, f64
from lamina.passes.tensor.fold import make_splat, splat_constant
from lamina.passes.tensor.library import call
from lamina.passes.tensor.reshape import reshape, static_shape
from lamina.passes.tensor.weights import main_to_fold, weight_values

NAME = "fold_batch_norm"
CHANNEL_DIM = {"aten.convolution.default": 1, "aten.linear.default": -1}
STEPS = frozenset({"arith.mulf", "arith.divf", "arith.addf", "arith.subf"})


def run(module: Operation, context: Context) -> None:
    """Fold in @main, where the weights are weights and nobody else uses the layer's result."""
    function = main_to_fold(module, context)
    if function is None:
        return
    weights = weight_values(function)
    for operation in function.body:
        if operation.name in CHANNEL_DIM:
            _fold_layer(operation, weights, context)


@dataclass(slots=True)
class _Layer:
    """A layer's call, taken apart; `channels` is the dimension of its result that the weight's first is."""

    operation: Operation
    args: list[Any]
    channels: int
    count: int


def _fold_layer(operation: Operation, weights: set[Value], context: Context) -> None:
    layer = _take_apart(operation, weights)
    if layer is None:
        return
    steps: list[Operation] = []
    value: Value = operation.result
    while (step := _next_step(value, layer, weights)) is not None:
        steps.append(step)
        value = step.result
    if not steps:
        return
    builder = Builder.before_op(steps[-1])
    weight, bias = layer.args[1], layer.args[2]
    before = operation.result
    for step in steps:
        other = step.operand(1) if step.operand(0) is before else step.operand(0)
        vector = _channel_vector(other, layer, builder)
        weight, bias = _absorb(step.name, vector, weight, bias, builder)
        before = step.result
    args = [layer.args[0], weight, bias, *layer.args[3:]]
    result = _recall(builder, operation, args)
    weights.update(each for each in (weight, bias) if each is not None)
    names = [step.name for step in steps]
    steps[-1].replace_with([result])
    for step in reversed(steps[:-1]):
        step.erase()
    operation.erase()
    text = f"{len(names)} steps of each channel folded into the weights"
    context.remarks.add(NAME, layer.operation.location, text, "applied", steps=names)


def _take_apart(operation: Operation, weights: set[Value]) -> _Layer | None:
    args, _ = arguments(operation)
    args += [None] * (3 - len(args))
    weight, bias, type_ = args[1], args[2], operation.result.type
    if weight not in weights or (bias is not None and bias not in weights):
        return None
    if not isinstance(type_, TensorType) or type_.element not in (f32, f64):
        return None
    is_transposed = operation.name == "aten.convolution.default" and args[6]
    if is_transposed or any(not isinstance(size, int) for size in type_.shape):
        return None
    channels = CHANNEL_DIM[operation.name] % type_.rank
    if operation.name == "aten.convolution.default" and type_.rank == len(static_shape(weight)) - 1:
        channels = 0
    return _Layer(operation, args, channels, static_shape(weight)[0])


def _next_step(value: Value, layer: _Layer, weights: set[Value]) -> Operation | None:
    """The only user of a value, where it scales or shifts each channel by a weight."""
    if not value.has_one_use:
        return None
    user = value.users[0]
    if user.name not in STEPS or user.result.type is not value.type:
        return None
    if user.operand(0) is not value and user.name in ("arith.divf", "arith.subf"):
        return None
    other = user.operand(1) if user.operand(0) is value else user.operand(0)
    number = splat_constant(other)
    if number is not None:
        return user
    maker = other.defining_op
    if maker is None or maker.name != "lamina.broadcast" or maker.operand() not in weights:
        return None
    columns = zip(static_shape(maker.operand()), plain(maker.attributes["dims"]), strict=True)
    return user if all(size == 1 or dim == layer.channels for size, dim in columns) else None


def _channel_vector(other: Value, layer: _Layer, builder: Builder) -> Value:
    """The scale or shift as one number for each channel."""
    type_ = other.type
    assert isinstance(type_, TensorType)
    vector = TensorType.get((layer.count,), type_.element)
    number = splat_constant(other)
    if number is not None:
        return make_splat(builder, number, vector)
    maker = other.defining_op
    assert maker is not None
    shape = static_shape(maker.operand())
    size = layer.count if layer.count in shape else 1
    flat = reshape(builder, maker.operand(), (size,))
    if size == layer.count:
        return flat
    return builder.value("lamina.broadcast", [flat], vector, {"dims": integers(0)})


def _absorb(
    name: str, vector: Value, weight: Value, bias: Value | None, builder: Builder
) -> tuple[Value, Value | None]:
    """The weights after one more step."""
    if name in ("arith.addf", "arith.subf"):
        if bias is None:
            shift = builder.value("arith.negf", [vector], vector.type) if name == "arith.subf" else vector
            return weight, shift
        return weight, builder.value(name, [bias, vector], vector.type)
    spread = builder.value("lamina.broadcast", [vector], weight.type, {"dims": integers(0)})
    scaled = builder.value(name, [weight, spread], weight.type)
    return scaled, None if bias is None else builder.value(name, [bias, vector], vector.type)


def _recall(builder: Builder, operation: Operation, args: list[Any]) -> Value:
    type_ = operation.result.type
    assert isinstance(type_, TensorType)
    return call(builder, operation.name, args, type_, plain(operation.attributes["result_strides"])[0])
