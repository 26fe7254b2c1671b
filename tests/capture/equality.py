"""Deep equality of results: tensors by bits, dtype, strides; objects by class and attributes; aliases by pattern."""

from __future__ import annotations

import types
from typing import Any

import torch


def differ(a: Any, b: Any, path: str = "result") -> str:
    """Where and how two results differ; empty when they are equal."""
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} against {type(b).__name__}"
    if isinstance(a, torch.Tensor):
        return differ_tensors(a, b, path)
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{path}: keys {list(a)} against {list(b)}"
        return first(differ(a[key], b[key], f"{path}[{key!r}]") for key in a) or differ_attributes(a, b, path)
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{path}: length {len(a)} against {len(b)}"
        return first(differ(p, q, f"{path}[{i}]") for i, (p, q) in enumerate(zip(a, b, strict=True)))
    if isinstance(a, types.FunctionType):
        return "" if a.__code__ is b.__code__ else f"{path}: another function"
    if isinstance(
        a,
        (int, float, str, bytes, type(None), set, frozenset, slice, torch.dtype, torch.device, torch.layout),
    ):
        return "" if a == b else f"{path}: {a!r} against {b!r}"
    return differ_attributes(a, b, path)


def differ_tensors(a: torch.Tensor, b: torch.Tensor, path: str) -> str:
    for name in ("dtype", "shape", "requires_grad", "device"):
        if getattr(a, name) != getattr(b, name):
            return f"{path}.{name}: {getattr(a, name)} against {getattr(b, name)}"
    if a.stride() != b.stride():
        return f"{path}: strides {a.stride()} against {b.stride()}"
    same = torch.equal(torch.nan_to_num(a.detach()), torch.nan_to_num(b.detach()))
    return "" if same else f"{path}: values"


def differ_attributes(a: Any, b: Any, path: str) -> str:
    left, right = getattr(a, "__dict__", None), getattr(b, "__dict__", None)
    if left is None or right is None:
        return ""
    if list(left) != list(right):
        return f"{path}: attributes {list(left)} against {list(right)}"
    return first(differ(left[name], right[name], f"{path}.{name}") for name in left)


def first(findings: Any) -> str:
    return next((finding for finding in findings if finding), "")


def alias_pattern(*values: Any) -> list[int]:
    """For each tensor and mutable container met in order, the number of the first one that is the same object or storage."""
    seen: dict[Any, int] = {}
    pattern: list[int] = []

    def visit(value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            for key in (id(value), ("storage", value.untyped_storage()._cdata)):
                pattern.append(seen.setdefault(key, len(seen)))
            return
        if depth > 6:
            return
        if isinstance(value, (dict, list)):
            pattern.append(seen.setdefault(id(value), len(seen)))
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for item in value:
                visit(item, depth + 1)
        elif hasattr(value, "__dict__") and not isinstance(
            value, (type, types.ModuleType, types.FunctionType)
        ):
            visit(value.__dict__, depth + 1)

    visit(values, 0)
    return pattern
