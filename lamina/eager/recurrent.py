"""Results of recurrent layers on fakes: torch runs them there step by step, with dozens of operations a step.

    output, h, c = lstm(x, (h, c), ...)      (steps, batch, directions * outputs), h and c as they come in

What does not fit the plain case here is left to torch, with its errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from lamina.eager.direct import is_plain

GATES: dict[Any, int] = {torch.lstm: 4, torch.gru: 3, torch.rnn_tanh: 1, torch.rnn_relu: 1}
"""How many times as many rows as units a layer's weights have."""
ARGUMENTS = 9


def recurrent_results(
    mode: FakeTensorMode, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[torch.Tensor, ...] | None:
    """The results of a call under the mode; None where torch's fake mode is to be asked."""
    gates = GATES.get(target)
    if gates is None or kwargs or len(args) != ARGUMENTS or type(args[3]) is not bool:
        return None
    x, state, weights, has_biases, layers, dropout, is_training, is_bidirectional, is_batch_first = args
    states = state if target is torch.lstm else [state]
    if (is_training and dropout) or not are_plain(mode, [x, *states, *weights]):
        return None
    if any(each.dim() != 3 for each in (x, *states)) or 0 in x.shape:
        return None
    first, second, features = x.shape
    steps, batch = (second, first) if is_batch_first else (first, second)
    directions = 2 if is_bidirectional else 1
    width = directions * states[0].shape[2]
    if any(tuple(each.shape[:2]) != (layers * directions, batch) for each in states):
        return None
    sizes = [
        size
        for layer in range(layers)
        for size in directions * weight_sizes(gates, width if layer else features, states, has_biases)
    ]
    if [tuple(each.shape) for each in weights] != sizes:
        return None
    options = {"dtype": x.dtype, "device": x.device}
    if not is_batch_first:
        output = torch.empty((steps, batch, width), **options)
    elif target is torch.lstm:
        output = torch.empty((steps, batch, width), **options).transpose(0, 1)
    else:
        # torch turns it in place: it is no view.
        output = torch.empty_strided((batch, steps, width), (width, batch * width, 1), **options)
    return output, *(torch.empty(each.shape, **options) for each in states)


def are_plain(mode: FakeTensorMode, tensors: Sequence[Any]) -> bool:
    """Whether all are plain floats of one type, of which autograd keeps no record."""
    dtype = tensors[0].dtype
    if mode.shape_env is not None or torch.is_autocast_enabled("cpu"):
        return False
    if dtype not in (torch.float32, torch.float64) or any(each.dtype is not dtype for each in tensors):
        return False
    is_recorded = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    return not is_recorded and all(is_plain(mode, each) for each in tensors)


def weight_sizes(
    gates: int, inputs: int, states: Sequence[torch.Tensor], has_biases: bool
) -> list[tuple[int, ...]]:
    """Sizes of the weights of one direction of one layer, in torch's order."""
    outputs, units = states[0].shape[2], states[-1].shape[2]
    rows = gates * units
    biases = [(rows,), (rows,)] if has_biases else []
    projection = [(outputs, units)] if outputs != units else []
    return [(rows, inputs), (rows, outputs), *biases, *projection]
