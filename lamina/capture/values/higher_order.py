"""torch's higher-order operators (`map`, `scan`, `cond`, ...): their own implementation on tensors, entered.

It is Python that calls the program's functions: loops over sizes unroll, a decision on a tensor is a break.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.conversions import Arguments, Keywords, Model

OPERATOR: Any = torch._ops.HigherOrderOperator
DENSE = torch._C.DispatchKey.CompositeExplicitAutograd


def model_higher_order(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`operator(*arguments)`, as it is on plain tensors."""
    operator = arguments[0]
    dense = operator.py_kernels.get(DENSE)
    if dense is None:
        stop("torch-function", f"{operator} has no implementation on plain tensors")
    return world.call(dense, arguments[1:], keywords)


def model_region(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """A region marked to be compiled once and used again: its function."""
    return world.call(arguments[0], arguments[1:], keywords)


def collect_models() -> dict[Any, Model]:
    models: dict[Any, Model] = {OPERATOR.__call__: model_higher_order}
    regions = sys.modules.get("torch._higher_order_ops.invoke_subgraph")
    placeholder = getattr(regions, "invoke_subgraph_placeholder", None)
    if placeholder is not None:
        models[placeholder] = model_region
    return models


HIGHER_ORDER_MODELS = collect_models()
