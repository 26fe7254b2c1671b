"""`torch.autograd.Function.apply` where no gradient is needed: its `forward`, run like any other code.

With a gradient the custom backward must be kept, which a graph of forward operations cannot do.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from lamina.capture.machine.binding import CO_VARARGS, CO_VARKEYWORDS, bind_arguments
from lamina.capture.machine.signals import UNBOUND, Value, stop
from lamina.capture.values.conversions import Arguments, Keywords
from lamina.capture.values.tensor import TensorValue

FUNCTION: Any = torch.autograd.function


class ForwardContext:
    """What `forward` gets as `ctx`: keeps what it is given; nobody reads it without a backward."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        for tensor in tensors:
            assert tensor is None or isinstance(tensor, torch.Tensor)

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def model_apply(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`Kind.apply(*inputs)`."""
    kind, inputs = arguments[0], arguments[1:]
    if torch._C._are_functorch_transforms_active():
        stop("autograd-function", f"{kind.__qualname__}.apply under a function transform of torch.func")
    forward = world.load_attribute(kind, "forward")
    has_setup = FUNCTION._is_setup_context_defined(kind.setup_context)
    if has_setup:
        inputs = bind_inputs(world, kind, forward, inputs, keywords)
    elif keywords:
        stop("autograd-function", f"{kind.__qualname__}.apply is called with keywords")
    needs = tuple(type(value) is TensorValue and value.fake.requires_grad for value in inputs)
    if torch.is_grad_enabled() and any(needs):
        stop("autograd-function", f"{kind.__qualname__} has a backward of its own and a gradient is needed")
    context = world.call(ForwardContext, (needs,), {})
    was_enabled = torch.is_grad_enabled()
    switch = torch._C._set_grad_enabled
    if was_enabled:
        world.call(switch, (False,), {})
    try:
        output = world.call(forward, inputs if has_setup else (context, *inputs), {})
        if has_setup:
            refuse_kept_inputs(kind, inputs, output)
            world.call(world.load_attribute(kind, "setup_context"), (context, inputs, output), {})
        dirty = world.load_attribute(context, "dirty_tensors")
        if isinstance(output, tuple):
            return tuple(release_output(value, inputs, dirty) for value in output)
        return release_output(output, inputs, dirty)
    finally:
        if was_enabled:
            world.call(switch, (True,), {})


def bind_inputs(world: Any, kind: Any, forward: Any, inputs: Arguments, keywords: Keywords) -> Arguments:
    """All positional inputs of a `forward` without a context: those given by keyword and its defaults too."""
    if type(forward) is not types.FunctionType:
        return inputs
    code = forward.__code__
    if code.co_kwonlyargcount or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        if keywords or forward.__defaults__ or forward.__kwdefaults__:
            stop("autograd-function", f"{kind.__qualname__}.apply has keywords or defaults beside *args")
        return inputs
    slots: list[Value] = [UNBOUND] * code.co_argcount
    try:
        bind_arguments(forward, inputs, keywords, world.read_defaults, slots)
    except TypeError:
        stop("autograd-function", f"the arguments of {kind.__qualname__}.apply do not fit its forward")
    return tuple(slots)


def refuse_kept_inputs(kind: Any, inputs: Arguments, output: Value) -> None:
    """Eager refuses to save an input that is also an output: not decided here."""
    outputs = output if isinstance(output, tuple) else (output,)
    if any(type(value) is TensorValue and value is each for value in outputs for each in inputs):
        stop("autograd-function", f"{kind.__qualname__} gives one of its inputs and has a setup_context")


def release_output(value: Value, inputs: Arguments, dirty: tuple[Value, ...]) -> Value:
    """An output as `apply` gives it: never an input itself, unless `forward` has changed that in place."""
    if type(value) is not TensorValue:
        return value
    is_input = any(value is each for each in inputs)
    if value.fake.requires_grad:
        if not is_input:
            stop("autograd-function", "a custom function gives a tensor from outside that needs a gradient")
        return value.builder.call_method("detach", (value,), {})
    if is_input and not any(value is each for each in dirty):
        return value.builder.call_method("view_as", (value, value), {})
    return value
