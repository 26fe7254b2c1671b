"""How far a result is from the same program in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import torch

from bench.workloads import Example, to_double


def reference_of(example: Example) -> list[torch.Tensor]:
    """The results of the example's function and inputs in float64, in order."""
    exact = to_double(example)
    with torch.no_grad():
        return list(flatten(exact.function(*exact.args, **exact.kwargs)))


def largest_error(result: Any, reference: list[torch.Tensor]) -> float:
    """The largest |result - reference| over the largest |reference|, over all results; nan where only one is
    nan.
    """
    tensors = list(flatten(result))
    if [tuple(tensor.shape) for tensor in tensors] != [tuple(tensor.shape) for tensor in reference]:
        raise RuntimeError(f"results have shapes {[tuple(tensor.shape) for tensor in tensors]}")
    scale = max(float(tensor.abs().max()) for tensor in reference)
    distance = max(float((a.double() - b).abs().max()) for a, b in zip(tensors, reference, strict=True))
    return distance / scale if scale else distance


def flatten(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists and dicts, arrays as tensors."""
    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif isinstance(value, numpy.ndarray):
        yield torch.from_numpy(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flatten(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flatten(item)
