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

from lamina.autograd.trace import (
    ConstantOutput,
    FreshOutput,
    InputOutput,
    Output,
    Result,
    SameOutput,
    Traced,
    ViewOutput,
)

Tensor = torch.Tensor


def replay(traced: Traced, inputs: Sequence[Any]) -> Any:
    """Call the traced program on `inputs`: writes its mutations into them and returns the user's outputs."""
    with torch.no_grad():
        results = [_fresh(value, result) for value, result in _evaluate(traced, inputs)]
    return finish_call(traced, inputs, results)


def finish_call(traced: Traced, inputs: Sequence[Any], results: Sequence[Tensor]) -> Any:
    """What is left to do once the results are computed: write back mutations, rebuild the outputs."""
    with torch.no_grad():
        for target, result in traced.mutations:
            inputs[target].copy_(results[result])
        leaves = rebuild_outputs(traced.outputs, inputs, results)
    return pytree.tree_unflatten(leaves, traced.out_spec)


def rebuild_outputs(outputs: list[Output], inputs: Sequence[Any], results: Sequence[Tensor]) -> list[Any]:
    """The leaves of the user's result, aliasing inputs and one another as eager's do."""
    leaves: list[Any] = []
    for output in outputs:
        match output:
            case FreshOutput(result):
                leaves.append(results[result])
            case InputOutput(index):
                leaves.append(inputs[index])
            case SameOutput(index):
                leaves.append(leaves[index])
            case ConstantOutput(value):
                leaves.append(value)
            case ViewOutput(base, is_input, size, stride, offset):
                owner = inputs[base] if is_input else results[base]
                leaves.append(torch.as_strided(owner, size, stride, owner.storage_offset() + offset))
    return leaves


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
