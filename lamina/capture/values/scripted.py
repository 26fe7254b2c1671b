"""Functions compiled by `torch.jit.script`: the Python function they were made of is entered instead."""

from __future__ import annotations

import types
from typing import Any

import torch

from lamina.capture.machine.signals import Value
from lamina.capture.values.opaque import OpaqueValue
from lamina.capture.values.tensor import TensorValue

SHARED: tuple[type, ...] = (
    TensorValue,
    int,
    float,
    bool,
    complex,
    str,
    type(None),
    torch.dtype,
    torch.device,
)
"""What TorchScript takes as it is; lists and dicts it copies, so that changes made to them are lost."""


def find_python(
    world: Any, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]
) -> types.FunctionType | None:
    """The Python function of a scripted one, where calling it does the same; None for all other callables.

    Guards that the same scripted function is found in every call.
    """
    if type(callee) is not OpaqueValue or not isinstance(callee.original, torch.jit.ScriptFunction):
        return None
    # torch keeps it for the sake of its own compiler.
    python = getattr(callee.original, "_torchdynamo_inline", None)
    if type(python) is not types.FunctionType:
        return None
    if any(type(value) not in SHARED for value in (*arguments, *keywords.values())):
        return None
    world.guards.identity(callee.source, callee.original)
    return python
