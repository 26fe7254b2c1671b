"""Marks on callables: what stands for a function that was compiled, and what is to run eagerly."""

from __future__ import annotations

import types
from typing import Any

COMPILED_MARK = "__lamina__"
"""The attribute by which a compiled function, or a compiled module's class, names its state."""
DISABLED_MARKS = ("__lamina_disabled__", "_torchdynamo_disable")
"""Attributes of functions that lamina.disable and torch.compiler.disable made."""
TORCH_MARK = "_torchdynamo_orig_callable"
"""The attribute by which what torch.compile made names its function."""


def read_compiled_mark(holder: Any) -> Any:
    """What the mark of a compiled function, or of a compiled module's class, holds; None without one.

    `functools.wraps` copies marks to wrappers of a function: a mark names the code that it is good for.
    """
    entries = getattr(holder, "__dict__", {})
    found = entries.get(COMPILED_MARK)
    if isinstance(holder, type) or getattr(found, "code", None) is getattr(holder, "__code__", None):
        return found
    return None


def find_original(callee: Any) -> Any:
    """The function or module that a compiled callable stands for, ours or torch.compile's, or None."""
    is_function = type(callee) is types.FunctionType
    compiled = read_compiled_mark(callee if is_function else type(callee))
    if compiled is not None:
        return getattr(compiled, "original", None)
    if is_function and callee.__globals__.get("__name__") == "torch._dynamo.eval_frame":
        return None if is_disabled(callee) else callee.__dict__.get(TORCH_MARK)
    return None


def is_disabled(function: types.FunctionType) -> bool:
    return any(function.__dict__.get(mark) for mark in DISABLED_MARKS)
