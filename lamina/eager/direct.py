"""Results of operations on fakes that are known without torch's rules in Python: views, products, fills.

    aten.addmm on fakes      torch's fake mode decomposes it into six operations, each with a rule in Python
                             here: an (m, n) tensor in order

The first time that a rule in Python runs in a process it takes milliseconds, most of them to find it. What
does not fit the plain case here is left to torch, with its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

aten = torch.ops.aten
Rule = Callable[[Sequence[Any], Mapping[str, Any]], torch.Tensor | None]
"""(arguments, keyword arguments) -> the result on the device `meta`; None: not the plain case."""
CPU = torch.device("cpu")


def run_directly(
    mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> FakeTensor | None:
    """The result of an operation on fakes; None where torch's fake mode is to be asked."""
    if mode.shape_env is not None:
        return None
    if func in VIEWS:
        if kwargs or not is_plain(mode, args[0]):
            return None
        try:
            # One kernel, in C++, serves all devices.
            with in_kernel_invocation_manager(mode):
                made = func(*args)
        except (RuntimeError, IndexError):
            return None
        return FakeTensor(mode, made, CPU)
    rule = RULES.get(func)
    if rule is None or not all(is_plain(mode, each) for each in args if isinstance(each, torch.Tensor)):
        return None
    with in_kernel_invocation_manager(mode):
        fresh = rule(args, kwargs)
    return None if fresh is None else FakeTensor(mode, fresh, CPU)


def is_plain(mode: FakeTensorMode, tensor: Any) -> bool:
    """Whether it is a real-valued strided fake on the CPU, of no known value."""
    return (
        type(tensor) is FakeTensor
        and tensor.fake_mode is mode
        and tensor.fake_device == CPU
        and tensor.constant is None
        and tensor.layout is torch.strided
        and not tensor.dtype.is_complex
        and not tensor.is_neg()
    )


def make(size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor in order."""
    return torch.empty(size, dtype=dtype, device="meta")


def multiply(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """aten.mm, aten.bmm"""
    first, second = args
    *batch, rows, inner = first.shape
    *other_batch, other_inner, columns = second.shape
    if kwargs or batch != other_batch or inner != other_inner or first.dtype is not second.dtype:
        return None
    return make((*batch, rows, columns), first.dtype)


def multiply_and_add(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """aten.addmm with a row to add"""
    if len(args) != 3 or kwargs:
        return None
    added, first, second = args
    product = multiply((first, second), {}) if first.dim() == second.dim() == 2 else None
    if product is None or added.dtype is not first.dtype or added.shape != product.shape[1:]:
        return None
    return product


def fill(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """aten.zeros, aten.ones, aten.empty"""
    device = kwargs.get("device")
    is_plain = not kwargs.get("pin_memory") and kwargs.get("layout") in (None, torch.strided)
    is_plain &= kwargs.get("memory_format") in (None, torch.contiguous_format)
    if len(args) != 1 or not is_plain or not all(type(size) is int and size >= 0 for size in args[0]):
        return None
    if (torch._C._get_default_device() if device is None else torch.device(device).type) != "cpu":
        return None
    return make(args[0], kwargs.get("dtype") or torch.get_default_dtype())


VIEWS: frozenset[Any] = frozenset(
    {
        aten.t.default,
        aten.transpose.int,
        aten.permute.default,
        aten.view.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.unsqueeze.default,
        aten.expand.default,
    }
)
RULES: dict[Any, Rule] = {
    aten.mm.default: multiply,
    aten.bmm.default: multiply,
    aten.addmm.default: multiply_and_add,
    aten.zeros.default: fill,
    aten.ones.default: fill,
    aten.empty.memory_format: fill,
}
