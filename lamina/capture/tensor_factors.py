"""Tensors without a dimension that are given for numbers: the product means the same and reads nothing.

x.add_(y, alpha=t)         =>  x += y * t
x.addcdiv_(y, z, value=t)  =>  x += y * t / z
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from lamina.capture.machine.signals import MISSING
from lamina.capture.values.tensor import TensorValue

FACTORS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
COMBINE: dict[str, Any] = {"addcmul": operator.mul, "addcdiv": operator.truediv}
SUM: dict[tuple[bool, bool], Any] = {
    (True, False): operator.add,
    (True, True): operator.iadd,
    (False, False): operator.sub,
    (False, True): operator.isub,
}
"""By whether something is added, and in place."""
EXACT = (torch.float32, torch.float64)
"""For narrower types eager multiplies in float32, and rounds once."""


def record_scaled(builder: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the operation `name`, or MISSING where its factor is no such tensor."""
    base = name.removesuffix("_")
    factor = kwargs.get(FACTORS.get(base, ""))
    if type(factor) is not TensorValue or len(kwargs) > 1 or len(args) != (3 if base in COMBINE else 2):
        return MISSING
    dtypes = {each.fake.dtype if type(each) is TensorValue else None for each in args}
    (dtype, *others) = dtypes
    if others or dtype not in EXACT or factor.fake.dim() or not factor.fake.dtype.is_floating_point:
        return MISSING
    if factor.fake.dtype is not dtype:
        factor = builder.call_method("to", (factor, dtype), {})
    term = builder.call(operator.mul, (args[1], factor), {})
    if base in COMBINE:
        term = builder.call(COMBINE[base], (term, args[2]), {})
    return builder.call(SUM[base != "sub", name.endswith("_")], (args[0], term), {})
