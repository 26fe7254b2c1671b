"""Library operations by name: the callable that torch offers for `aten.mm.default`, and its arguments.

The overload objects of `torch.ops` go through a generic argument parser; where torch has a function of
its own for the same operation, calling that is faster, so the busiest ones are listed here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from lamina.errors import CompilerBug
from lamina.ir.types import ScalarType
from lamina.runtime.devices.cpu.resident import trim_heap
from lamina.runtime.dtypes import TO_TORCH


def _pack_for_mkl(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """`mkl._mkl_reorder_linear_weight` into fresh memory.

    MKL asks for nine megabytes more than it writes. Fresh pages are none until they are written, but in a
    heap that others have used each packed weight would keep that much of what they left behind.
    """
    trim_heap()
    packed: torch.Tensor = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)
    return packed


_DIRECT: dict[str, Callable[..., Any]] = {
    "aten.mm.default": torch.mm,
    "aten.mm.out": torch.mm,
    "aten.bmm.default": torch.bmm,
    "aten.bmm.out": torch.bmm,
    "aten.addmm.default": torch.addmm,
    "aten.addmm.out": torch.addmm,
    "aten.baddbmm.default": torch.baddbmm,
    "aten.baddbmm.out": torch.baddbmm,
    "aten.matmul.default": torch.matmul,
    "aten.linear.default": torch.nn.functional.linear,
    "aten.linear.out": torch.nn.functional.linear,
    "aten.scaled_dot_product_attention.default": torch.nn.functional.scaled_dot_product_attention,
    "mkl._mkl_reorder_linear_weight.default": _pack_for_mkl,
}


@functools.cache
def available_libraries() -> frozenset[str]:
    """The libraries behind torch's operators that offer packed weights: "mkl", "mkldnn"."""
    backends: Any = torch.backends
    found = {
        "mkl": backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear"),
        "mkldnn": backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"),
    }
    return frozenset(name for name, is_there in found.items() if is_there)


def overload(name: str) -> Any:
    """The operator overload called `namespace.packet.overload`."""
    parts = name.split(".")
    found: Any = torch.ops
    for part in (parts[0], ".".join(parts[1:-1]), parts[-1]):
        found = getattr(found, part, None)
        if found is None:
            raise CompilerBug(f"torch has no operator {name}")
    return found


def callable_for(name: str) -> Callable[..., Any]:
    """What to call for a library operation."""
    direct = _DIRECT.get(name)
    if direct is not None:
        return direct
    function: Callable[..., Any] = overload(name)._op
    return function


def convert(name: str, position: int | str, value: Any) -> Any:
    """A constant argument as torch wants it: dtypes, devices, layouts and memory formats by name."""
    if isinstance(value, list):
        return [convert(name, position, each) for each in value]
    if isinstance(value, ScalarType):
        return TO_TORCH[value]
    if not isinstance(value, str):
        return value
    kind = _argument_type(name, position)
    if "Device" in kind:
        return torch.device(value)
    # Plain text may look like a name of torch's too: only layouts and memory formats are such names.
    return value if "str" in kind else getattr(torch, value.removeprefix("torch."), value)


def takes_number(name: str, position: int | str) -> bool:
    """Whether an operation takes a Python number there: an operand in its place holds one."""
    kind = _argument_type(name, position)
    return "number" in kind or "float" in kind


def _argument_type(name: str, position: int | str) -> str:
    arguments = overload(name)._schema.arguments
    if isinstance(position, int):
        return str(arguments[position].real_type)
    return next(str(each.real_type) for each in arguments if each.name == position)
