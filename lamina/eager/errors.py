"""Errors about dtypes and numbers, which torch's shape rules do not raise and its kernels do.

    False - x, torch.add(x, y, alpha=0.5) of integers, torch.gelu of integers, float64 @ float32

An operation runs once for real, on tensors as small as its rank allows, for each combination of dtypes and
numbers; what it raises, the program's own call would raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch

Tensor = torch.Tensor

TRIED = frozenset(
    {
        "_log_softmax", "_softmax", "addbmm", "addmm", "addmv", "addr", "all", "amax", "amin", "aminmax",
        "any", "argmax", "argmin", "baddbmm", "binary_cross_entropy", "bmm", "cummax", "cummin", "cumprod",
        "cumsum", "dot", "fill", "glu", "huber_loss", "linalg_vector_norm", "linear", "log_softmax",
        "logcumsumexp", "logsumexp", "max", "mean", "min", "mm", "mse_loss", "mv", "norm", "prod", "rsub",
        "smooth_l1_loss", "softmax", "sort", "std", "std_mean", "sum", "var", "var_mean", "vdot",
    }
)  # fmt: skip
"""Reductions, scans, products: operations besides the elementwise ones that may run on other sizes."""
LARGEST_WIDE = 3.3895313892515355e38
"""Beyond the largest number of its type eager refuses a float; bfloat16's serves for all types but f16."""
SIZE = 2
_known: dict[Any, list[torch.dtype]] = {}


def check_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Raise what eager raises on operands of these dtypes; sizes are not looked at.

    result: by torch's shape rule. WrongShapeRuleError where eager's has another dtype.
    """
    if not is_tried(func):
        return
    try:
        named = tuple((name, _key(value)) for name, value in kwargs.items())
        key = func, torch.get_default_dtype(), tuple(map(_key, args)), named
    except _NotTriedError:
        return
    if key not in _known:
        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            small = [_shrink(value) for value in args]
            found = func(*small, **{name: _shrink(value) for name, value in kwargs.items()})
        _known[key] = _dtypes(found)
    if _dtypes(result) != _known[key]:
        raise WrongShapeRuleError(f"torch's shape rule for {func} gives another dtype than its kernel")


class WrongShapeRuleError(NotImplementedError):
    """A shape rule of torch's that cannot be followed."""


def _dtypes(result: Any) -> list[torch.dtype]:
    if isinstance(result, Tensor):
        return [result.dtype]
    return [each.dtype for each in result] if isinstance(result, list | tuple) else []


@cache
def is_tried(func: Any) -> bool:
    """Whether an operation's errors can be found on other sizes than the program's."""
    if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return torch.Tag.pointwise in func.tags or func.overloadpacket.__name__ in TRIED


class _NotTriedError(Exception):
    """An argument that has no small version."""


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
            raise _NotTriedError
        return value.dtype, _small_size(value)
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | torch.Generator):
        raise _NotTriedError
    return type(value), str(value)


def _small_size(tensor: Tensor) -> tuple[int, ...]:
    return tuple(min(size, SIZE) if type(size) is int else SIZE for size in tensor.shape)


def _shrink(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.ones(_small_size(value), dtype=value.dtype)
    if isinstance(value, list | tuple):
        return [_shrink(item) for item in value]
    return value
