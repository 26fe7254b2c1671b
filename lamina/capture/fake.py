"""torch's moving parts that capture leans on, in one place: fake tensors and the errors they raise."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

DATA_DEPENDENT: tuple[type[BaseException], ...] = tuple(
    found
    for name in (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "UnsupportedOperatorException",
    )
    if (found := getattr(fake_tensor, name, None)) is not None
)
"""Raised where a result's value or shape depends on data that a fake tensor does not have."""


def make_fake_mode() -> FakeTensorMode:
    """A mode that keeps shapes, strides, dtypes, devices and aliasing, and no data."""
    return FakeTensorMode(allow_non_fake_inputs=False, static_shapes=True)


def make_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """The fake of a real tensor; two tensors that share memory get fakes that share it."""
    made: Any = mode.from_tensor(tensor, static_shapes=True)
    return made  # type: ignore[no-any-return]


__all__ = ["DATA_DEPENDENT", "FakeTensor", "FakeTensorMode", "make_fake", "make_fake_mode"]
