"""Classes of tensors that are called: `torch.Tensor(2, 3)`, `FloatTensor([1, 2])`, `nn.Parameter(x)`."""

from __future__ import annotations

from typing import Any

import torch

from lamina.capture.graph_builder import is_number_of_numpy
from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.tensor import TensorValue


def make_tensor(world: Any, dtype: torch.dtype, arguments: Arguments, keywords: Keywords) -> Value:
    """A tensor of sizes (content undefined, as in eager) or of a list of numbers."""
    if not keywords:
        if len(arguments) == 1 and type(arguments[0]) is torch.Size:
            arguments = tuple(arguments[0])
        if all(type(size) is int for size in arguments):
            return world.call(torch.empty, (arguments or (0,),), {"dtype": dtype})
        if len(arguments) == 1 and is_number_list(arguments[0], dtype.is_floating_point):
            return world.call(torch.tensor, arguments, {"dtype": dtype})
    return stop("legacy-constructor", "a tensor class is called with more than numbers", "use torch.tensor")


def is_number_list(value: Value, is_floating: bool) -> bool:
    """Whether a list or tuple holds, at any depth, what the tensor class takes as `torch.tensor` does."""
    if type(value) is not list and type(value) is not tuple:
        return False
    kinds: tuple[type, ...] = (int, float) if is_floating else (int,)
    return all(
        type(item) in kinds or (is_floating and is_number_of_numpy(item)) or is_number_list(item, is_floating)
        for item in value
    )


def model_tensor_class(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.Tensor(...)`: of the default dtype, which every capture guards."""
    return make_tensor(world, torch.get_default_dtype(), arguments, keywords)


def model_of_dtype(dtype: torch.dtype) -> Model:
    """`torch.FloatTensor(...)` and its like."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return make_tensor(world, dtype, arguments, keywords)

    return model


def model_variable(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`Variable(tensor)`: the same memory without history."""
    if len(arguments) != 1 or keywords.keys() - {"requires_grad"} or keywords.get("requires_grad"):
        stop("legacy-constructor", "Variable is called with options", "use tensor.requires_grad_()")
    if type(arguments[0]) is not TensorValue:
        stop("legacy-constructor", "Variable is called with something that is no tensor")
    return arguments[0].builder.call_method("detach", arguments, {})


def model_parameter(world: Any, data: Value = None, requires_grad: Value = True) -> Value:
    """`nn.Parameter(data)`: a leaf on the same memory."""
    if data is None:
        data = world.call(torch.empty, (0,), {})
    if type(data) is not TensorValue or type(requires_grad) is not bool:
        stop("legacy-constructor", "a parameter is made of something that is no tensor")
    return data.builder.call(torch.nn.Parameter, (data, requires_grad), {})


LEGACY_MODELS: dict[Any, Model] = {
    torch.Tensor: model_tensor_class,
    torch.FloatTensor: model_of_dtype(torch.float32),
    torch.DoubleTensor: model_of_dtype(torch.float64),
    torch.HalfTensor: model_of_dtype(torch.float16),
    torch.BFloat16Tensor: model_of_dtype(torch.bfloat16),
    torch.LongTensor: model_of_dtype(torch.int64),
    torch.IntTensor: model_of_dtype(torch.int32),
    torch.ShortTensor: model_of_dtype(torch.int16),
    torch.CharTensor: model_of_dtype(torch.int8),
    torch.ByteTensor: model_of_dtype(torch.uint8),
    torch.autograd.Variable: model_variable,
    torch.nn.Parameter: lambda world, arguments, keywords: model_parameter(world, *arguments, **keywords),
}
