"""What a graph calls that calls other graphs, which it holds as submodules.

    choose(condition, region_0, region_1, (x, b))              one of two graphs
    repeat(region_0, region_1, (i, x), (b,))                   a graph again and again, while another is true
    map_batch(region_0, (0, 1), (0,), "error", (x, y), (b,))   a graph for each element of dimensions

Run as it is, a node's work is plain Python, through which autograd sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Graph = Callable[..., tuple[Any, ...]]


def choose(condition: Any, first: Graph, second: Graph, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `first` gives for the operands where the condition is true, else what `second` gives.

    Operands that the graph that runs does not use get a gradient of zeros, as in eager.
    """
    results = first(*operands) if condition else second(*operands)
    if not torch.is_grad_enabled() or not any(needs_gradient(each) for each in operands):
        return results
    places = [k for k, each in enumerate(results) if is_differentiable(each)]
    joined = Joined.apply(len(places), *(results[k] for k in places), *operands)  # type: ignore[no-untyped-call]
    found = dict(zip(places, joined, strict=True))
    return tuple(found.get(k, each) for k, each in enumerate(results))


class Joined(torch.autograd.Function):
    """Tensors as they are, through which others, those behind the first `count`, get a gradient of zeros."""

    @staticmethod
    def forward(ctx: Any, count: int, *values: Any) -> tuple[torch.Tensor, ...]:
        ctx.joined = [each if needs_gradient(each) else None for each in values[count:]]
        return tuple(each.view_as(each) for each in values[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        zeros = [None if each is None else torch.zeros_like(each) for each in ctx.joined]
        return None, *gradients, *zeros


def is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def repeat(
    condition: Graph, body: Graph, carried: tuple[Any, ...], operands: tuple[Any, ...]
) -> tuple[Any, ...]:
    """`carried = body(*carried, *operands)` as long as `condition(*carried, *operands)` gives true."""
    while condition(*carried, *operands)[0]:
        carried = body(*carried, *operands)
    return carried


def map_batch(
    function: Graph,
    in_dims: tuple[int, ...],
    out_dims: tuple[int | None, ...],
    randomness: str,
    batched: tuple[Any, ...],
    operands: tuple[Any, ...],
) -> tuple[Any, ...]:
    """`torch.vmap` of `function(*batched, *operands)` over a dimension of each of `batched`."""

    def call(*inputs: Any) -> tuple[Any, ...]:
        return function(*inputs, *operands)

    dims: Any = out_dims
    mapped: Graph = torch.vmap(call, in_dims=in_dims, out_dims=dims, randomness=randomness)
    return mapped(*batched)


CONTROL: frozenset[Any] = frozenset({choose, repeat})
"""What decides by values of tensors which graph runs."""
