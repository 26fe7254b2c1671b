"""torch's moving parts that capture leans on, in one place: fake tensors and the errors they raise."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from lamina.capture.deferred import defer_compiler_import

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


class SourceName(str):
    """A name that older versions of torch call and newer ones read."""

    __slots__ = ()

    def __call__(self) -> str:
        return self


class InputSource:
    """Stands for torch's own record of where a tensor comes from, whose class would load its compiler."""

    name = SourceName("input")


class LightFakeMode(FakeTensorMode):
    """torch's fake mode without the wrapper that keeps torch's own compiler away from each dispatch.

    The wrapper loads that compiler and costs time in every operation; nothing compiles inside a capture.
    """

    __torch_dispatch__ = getattr(
        FakeTensorMode.__torch_dispatch__, "__wrapped__", FakeTensorMode.__torch_dispatch__
    )

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The name is about frames: True is what asks for the wrapper.
        return False


def make_fake_mode() -> FakeTensorMode:
    """A mode that keeps shapes, strides, dtypes, devices and aliasing, and no data."""
    defer_compiler_import()
    return LightFakeMode(allow_non_fake_inputs=False, static_shapes=True)


def make_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """The fake of a real tensor; two tensors that share memory get fakes that share it."""
    source: Any = InputSource()
    made: Any = mode.from_tensor(tensor, static_shapes=True, source=source)
    return made  # type: ignore[no-any-return]


__all__ = ["DATA_DEPENDENT", "FakeTensor", "FakeTensorMode", "make_fake", "make_fake_mode"]
