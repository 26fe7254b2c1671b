"""Run a traced graph on real tensors with torch itself, and rebuild the user's outputs.

The slow, obviously right way to execute a `Traced`: the oracle of the tests, and what a caller may use when
no back end runs the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lamina.autograd.outputs import finish_outputs, kept_results
from lamina.autograd.trace import Result, Traced

Tensor = torch.Tensor


def replay(traced: Traced, inputs: Sequence[Any]) -> Any:
    """Call the traced program on `inputs`: writes its mutations into them and returns the user's outputs."""

    def run(given: Sequence[Any]) -> list[Any]:
        results = [_fresh(value, result) for value, result in _evaluate(traced, given)]
        for target, result in traced.mutations:
            given[target].copy_(results[result])
        return [results[place] for place in kept_results(traced.outputs)]

    count = len(traced.inputs)
    with torch.no_grad():
        leaves = finish_outputs(run, traced.outputs, range(count), count)(inputs)
    return pytree.tree_unflatten(leaves, traced.out_spec)


def _evaluate(traced: Traced, inputs: Sequence[Any]) -> list[tuple[Tensor, Result]]:
    values: dict[fx.Node, Any] = {}
    remaining = iter(inputs)
    for node in traced.graph_module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr":
            values[node] = getattr(traced.graph_module, node.target)
        elif node.op == "call_function":
            args = fx.map_arg(node.args, values.__getitem__)
            values[node] = node.target(*args, **fx.map_arg(node.kwargs, values.__getitem__))
    return [(values[result.node], result) for result in traced.results]


def _fresh(value: Tensor, result: Result) -> Tensor:
    """A copy of `value` with the strides eager's result has."""
    fresh = torch.empty_strided(result.size, result.stride, dtype=result.dtype, device=value.device)
    return fresh.copy_(value)
