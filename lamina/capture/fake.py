"""torch's moving parts that capture leans on, in one place: fake tensors and the errors they raise."""

from __future__ import annotations

import inspect
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


# Structured logging of each input would walk the stack and load torch's compiler to print it.
_takes_trace = "trace" in inspect.signature(FakeTensorMode.from_tensor).parameters
QUIET: dict[str, Any] = {"trace": False} if _takes_trace else {}


class SourceName(str):
    """A name that older versions of torch call and newer ones read."""

    __slots__ = ()

    def __call__(self) -> str:
        return self


class InputSource:
    """Stands for torch's own record of where a tensor comes from, whose class would load its compiler."""

    name = SourceName("input")


class LightFakeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
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
    """The fake of a real tensor: its class, sizes, strides, offset, dtype, device and requires_grad."""
    if fills_its_storage(tensor):
        return make_fake_directly(mode, tensor)
    source: Any = InputSource()
    made: Any = mode.from_tensor(tensor, static_shapes=True, source=source, **QUIET)
    return made  # type: ignore[no-any-return]


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a fresh tensor of the same metadata is the same: a leaf, no offset, no spare memory."""
    if not tensor.is_leaf or tensor.is_inference() or tensor.storage_offset() != 0 or tensor.numel() == 0:
        return False
    if tensor.dtype.is_complex and (tensor.is_conj() or tensor.is_neg()):
        return False
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.untyped_storage().nbytes() == reach * tensor.element_size()


def make_fake_directly(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """Like `from_tensor`, which loads torch's compiler and takes several times as long."""
    with mode:
        made: Any = torch.empty_strided(
            tensor.shape,
            tensor.stride(),
            dtype=tensor.dtype,
            device=tensor.device,
            requires_grad=tensor.requires_grad,
        )
    if isinstance(tensor, torch.nn.Parameter):
        made._is_param = True
    return made  # type: ignore[no-any-return]


__all__ = ["DATA_DEPENDENT", "FakeTensor", "FakeTensorMode", "make_fake", "make_fake_mode"]
