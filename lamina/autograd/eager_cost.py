"""What a traced graph costs eager: kernels launched, bytes read plus written, one ATen operation at a time.

Norms, softmax, activations and losses are one operation each, as they are in eager. A view costs nothing; an
operation reads each distinct operand once (elements that a broadcast repeats count once) and writes its
results; a gather reads at most as much as it gives.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from lamina.autograd.symbols import OpenSizes
from lamina.autograd.trace import Traced
from lamina.ir.ops.aten import GATHERS
from lamina.ir.sizes import hint

VIEW_LIKE = frozenset({"aten.reshape.default", "aten._unsafe_view.default", "aten.view_copy.default"})


@dataclass(frozen=True, slots=True)
class EagerCost:
    """Kernels (operations that are no views) and bytes of one call."""

    operations: int
    bytes: int


def eager_cost(traced: Traced) -> EagerCost:
    """The cost of the graph's operations in eager."""
    operations = total = 0
    for node in traced.graph_module.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or _is_view(node):
            continue
        operations += 1
        total += _bytes_of_call(node, traced.sizes)
    return EagerCost(operations, total)


def _is_view(node: fx.Node) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None or str(node.target) in VIEW_LIKE:
        return True
    return any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)


def _bytes_of_call(node: fx.Node, sizes: OpenSizes) -> int:
    written = sum(_distinct_bytes(each, sizes) for each in _tensors(node))
    read = 0
    for position, operand in enumerate(node.all_input_nodes):
        size = sum(_distinct_bytes(each, sizes) for each in _tensors(operand))
        read += min(size, written) if position == 0 and str(node.target) in GATHERS else size
    return read + written


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    found = value if isinstance(value, list | tuple) else [value]
    return [each for each in found if isinstance(each, torch.Tensor)]


def _distinct_bytes(tensor: torch.Tensor, sizes: OpenSizes) -> int:
    count = 1
    for size, step in zip(sizes.read_all(tensor.shape), sizes.read_all(tensor.stride()), strict=True):
        is_repeated = isinstance(step, int) and step == 0
        count *= min(1, hint(size)) if is_repeated else hint(size)
    return count * tensor.element_size()
