"""Give convolutions with constant weights to oneDNN, with weights in the order that it wants.

    %1 = aten.convolution(%x, %w, %b, ..)   =>   %0 = mkldnn._reorder_convolution_weight(%w, ..)
                                                 %1 = mkldnn._convolution_pointwise(%x, %0, %b, ..)

Eager reorders the weights in every call. Packing is weights-only work: `prepare` moves it out. The result has
its channels innermost, which `layout` passes on. Measured: see the note at the foot.
"""

from __future__ import annotations

from typing import Any

from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.ops.aten import arguments
from lamina.ir.passes import Context
from lamina.ir.sizes import hint
from lamina.ir.types import TensorType, f32
from lamina.passes.tensor.library import MKLDNN, call, channels_last_strides, libraries
from lamina.passes.tensor.reshape import static_shape
from lamina.passes.tensor.weights import main_to_fold, weight_values

NAME = "pack_convolution"
CONVOLUTION = "aten.convolution.default"
TRAINING_NORMS = frozenset(
    {"aten._native_batch_norm_legit_functional.default", "aten._native_batch_norm_legit.no_stats"}
)
LARGEST_SHARE_REGROUPED = 0.34
"""A UNet with group norms (14 of 18 convolutions), one thread: 12.7 ms row-major, 16 to 17.5 ms packed, eager
18.1 ms."""


def run(module: Operation, context: Context) -> None:
    """Pack in @main, every two-dimensional f32 convolution whose weights are weights."""
    function = main_to_fold(module, context)
    if function is None:
        return
    weights = weight_values(function)
    common = "no oneDNN" if MKLDNN not in libraries(context) else _training(function) or _regrouping(function)
    for operation in function.body:
        if operation.name != CONVOLUTION:
            continue
        args, _ = arguments(operation)
        reason = common or _refusal(operation, args, weights)
        if reason is not None:
            context.remarks.add(NAME, operation.location, reason, "refused")
            continue
        operation.replace_with([_pack(operation, args)])
        context.remarks.add(NAME, operation.location, "convolution with packed weights", "applied")


def _regrouping(function: Operation) -> str | None:
    """Why a whole function is better row-major: most convolutions read images whose channels are regrouped.

    Packed convolutions write channels last, where such kernels (group norm) read and reduce short runs.
    """
    regrouped: dict[Value, bool] = {}
    convolutions = 0
    for operation in function.body:
        convolutions += operation.name == CONVOLUTION
        is_reshape = operation.name in ("tensor.expand_shape", "tensor.collapse_shape")
        inherits = is_elementwise(operation) and any(regrouped.get(value) for value in operation.operands)
        for result in operation.results:
            regrouped[result] = is_reshape or inherits
    readers = sum(
        operation.name == CONVOLUTION and regrouped.get(operation.operand(), False)
        for operation in function.body
    )
    if readers <= convolutions * LARGEST_SHARE_REGROUPED:
        return None
    return f"{readers} of {convolutions} convolutions read regrouped channels: row-major kernels are faster"


def _training(function: Operation) -> str | None:
    """Why a network in training mode stays as it is: its weights change between calls anyway."""
    if any(operation.name in TRAINING_NORMS for operation in function.body):
        return "batch norm takes the batch's statistics, and torch sums channels-last images in float32"
    return None


def _refusal(operation: Operation, args: list[Any], weights: set[Value]) -> str | None:
    """Why a convolution stays as it is."""
    x, weight, bias = args[:3]
    if weight not in weights or (bias is not None and bias not in weights):
        return "the weights are not constant"
    type_ = operation.result.type
    if not isinstance(type_, TensorType) or type_.element is not f32:
        return f"only f32 convolutions are packed, not {type_}"
    if args[6]:
        return "a transposed convolution"
    if type_.rank != 4:
        return f"{type_.rank - 2} spatial dimensions, not two"
    return "empty" if 0 in (*static_shape(x), *type_.shape) else None


def _pack(operation: Operation, args: list[Any]) -> Value:
    x, weight, bias, stride, padding, dilation, _, _, groups = args
    builder = Builder.before_op(operation)
    type_ = operation.result.type
    assert isinstance(type_, TensorType) and isinstance(weight.type, TensorType)
    stride, padding, dilation = (_both(entry) for entry in (stride, padding, dilation))
    order = [padding, stride, dilation, groups, list(map(hint, static_shape(x)))]
    packed = call(
        builder, "mkldnn._reorder_convolution_weight.default", [weight, *order], weight.type, opaque=True
    )
    taken = [x, packed, bias, padding, stride, dilation, groups, "none", [], ""]
    strides = channels_last_strides(static_shape(operation.result))
    return call(builder, "mkldnn._convolution_pointwise.default", taken, type_, strides)


def _both(entry: list[int]) -> list[int]:
    """One number stands for both dimensions."""
    return entry * 2 if len(entry) == 1 else entry


"""Measured with two threads of a Xeon (AVX-512), torch 2.11, f32, batch 1, medians in microseconds:
aten.convolution of a row-major image / channels last / packed, row-major / packed, channels last.

    channels x size -> channels, kernel, stride
       3 x 224 ->   64, 7, 2      2450 / 1489 / 1765 / 1420
      64 x  56 ->   64, 3, 1      1058 /  892 /  957 /  846
      64 x  56 ->  256, 1, 1      1923 /  693 /  790 /  681
     256 x  56 ->  128, 1, 1      1548 / 1162 / 1836 / 1123
     128 x  28 ->  128, 3, 1      1585 / 1264 / 1270 / 1180
     256 x  14 ->  256, 3, 1      1021 /  927 /  813 /  771
     512 x   7 ->  512, 3, 1      1847 / 1635 /  956 /  966
    1024 x  14 ->  256, 1, 1       707 /  581 /  623 /  470
      32 x 112 depthwise, 3, 1     309 /  140 /  264 /  123
     144 x  56 depthwise, 3, 2     239 /   94 /  282 /   72
      96 x  56 depthwise, 7, 1     390 /  233 /  341 /  212
       3 x 224 ->   96, 4, 4       221 /  171 /  225 /  154
"""
