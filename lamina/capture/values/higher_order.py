"""torch's higher-order operators (`map`, `scan`, ...): their own implementation on tensors, entered.

It is Python that calls the program's functions, so loops over sizes unroll. Where a tensor decides (`cond`,
`while_loop`) the functions become graphs of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.batched import VMAP_MODELS
from lamina.capture.values.control_flow import model_cond, model_while
from lamina.capture.values.conversions import Arguments, Keywords, Model

OPERATOR: Any = torch._ops.HigherOrderOperator
DENSE = torch._C.DispatchKey.CompositeExplicitAutograd


def model_higher_order(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`operator(*arguments)`, as it is on plain tensors."""
    operator = arguments[0]
    model = DECIDED.get(operator)
    if model is not None:
        return model(world, *arguments[1:], **keywords)
    dense = operator.py_kernels.get(DENSE)
    if dense is None:
        stop("torch-function", f"{operator} has no implementation on plain tensors")
    return world.call(dense, arguments[1:], keywords)


def model_conditional(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.cond(...)`."""
    return model_cond(world, *arguments, **keywords)


def model_region(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """A region marked to be compiled once and used again: its function."""
    return world.call(arguments[0], arguments[1:], keywords)


def collect_models() -> dict[Any, Model]:
    models: dict[Any, Model] = {
        OPERATOR.__call__: model_higher_order,
        torch.cond: model_conditional,
        **VMAP_MODELS,
    }
    regions = sys.modules.get("torch._higher_order_ops.invoke_subgraph")
    placeholder = getattr(regions, "invoke_subgraph_placeholder", None)
    if placeholder is not None:
        models[placeholder] = model_region
    return models


DECIDED: dict[Any, Callable[..., Value]] = {
    torch.ops.higher_order.cond: model_cond,
    torch.ops.higher_order.while_loop: model_while,
}
"""Operators by which a tensor decides what runs."""
HIGHER_ORDER_MODELS = collect_models()
