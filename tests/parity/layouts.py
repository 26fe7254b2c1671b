"""The same values in other memory: strides that no operator database thinks of."""

from __future__ import annotations

import random
from typing import Any

import torch


def relay(value: Any, rng: random.Random) -> Any:
    """Arguments whose dense tensors have dimensions in another order, gaps, an offset, and strides without
    meaning where a size is 0 or 1. A tensor that appears twice stays one.
    """
    return _relay(value, rng, {})


def _relay(value: Any, rng: random.Random, known: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = _relay_tensor(value, rng)
        return known[id(value)]
    if isinstance(value, dict):
        return {key: _relay(item, rng, known) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_relay(item, rng, known) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _relay_tensor(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    is_plain = tensor.layout == torch.strided and not (
        tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    )
    if not is_plain or tensor.device.type != "cpu":
        return tensor
    strides = choose_strides(tuple(tensor.shape), rng)
    offset = rng.randrange(3)
    pairs = zip(tensor.shape, strides, strict=True)
    length = offset + 1 + sum(max(0, size - 1) * stride for size, stride in pairs)
    memory = torch.zeros(length, dtype=tensor.dtype)
    laid = memory.as_strided(tensor.shape, strides, offset)
    laid.copy_(tensor)
    return laid


def choose_strides(shape: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    """Strides without overlap, of the dimensions in any order."""
    strides = [0] * len(shape)
    step = 1
    for dim in rng.sample(range(len(shape)), len(shape)):
        step *= rng.choice((1, 1, 1, 2))
        strides[dim] = step if shape[dim] > 1 else rng.randrange(1, 12)
        step *= max(1, shape[dim])
    return tuple(strides)
