"""Fake tensors with eager's strides and eager's errors."""

from __future__ import annotations

import traceback
import types
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from lamina.eager.convolutions import CONVOLUTION, run_for_all_batches
from lamina.eager.direct import run_directly
from lamina.eager.errors import check_call
from lamina.eager.known_results import find, keep, key_of, name_of
from lamina.eager.places import check_places
from lamina.eager.results import rule_of, strides_of

aten = torch.ops.aten


def leave_stack_out(constructor: Any) -> Any:
    """A fake mode's constructor that does not note the stack: it would read all source files on it."""
    nothing = types.SimpleNamespace(extract_stack=traceback.StackSummary)
    made = types.FunctionType(
        constructor.__code__,
        {**constructor.__globals__, "traceback": nothing},
        closure=constructor.__closure__,
    )
    made.__kwdefaults__ = constructor.__kwdefaults__
    return made


_construct = leave_stack_out(FakeTensorMode.__init__)


class EagerFakeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """torch's fake mode, corrected where its rules say something else than its CPU kernels do."""

    def __init__(self, **options: Any) -> None:
        _construct(self, **options)

    avoid_device_init = False
    """True, as on a machine without a GPU, would have torch put a guard for absent GPUs in a place that all
    threads share: with several of them it is gone while another one asks it."""

    def dispatch(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The result of an operation on fakes."""
        kwargs = kwargs or {}
        if func is CONVOLUTION and self.shape_env is not None:
            result = run_for_all_batches(partial(dispatch, super().dispatch), args, kwargs)
            if result is not None:
                return result
        key = key_of(self, func, args, kwargs)
        known = None if key is None else find(self, key, args)
        if known is not None:
            return known
        result = dispatch(super().dispatch, func, types, args, kwargs)
        if key is not None:
            keep(self, key, func, args, result)
        return result

    def _cached_dispatch_impl(
        self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = run_directly(self, func, args, kwargs)
        if result is not None:
            return result
        if self.shape_env is None and name_of(func):
            # `known_results` keeps it: torch's own cache would keep it once more.
            return self._dispatch_impl(func, types, args, kwargs)
        return super()._cached_dispatch_impl(func, types, args, kwargs)


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a fresh tensor of the same metadata is the same: a leaf, no offset, no spare memory."""
    if not tensor.is_leaf or tensor.is_inference() or tensor.storage_offset() != 0 or tensor.numel() == 0:
        return False
    if tensor.is_conj() or tensor.is_neg():
        return False
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.untyped_storage().nbytes() == reach * tensor.element_size()


def make_fake_directly(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """The fake of a tensor that fills its storage.

    torch's `from_tensor` loads torch's compiler and takes ten times as long.
    """
    shell = torch.empty_strided(
        tensor.shape,
        tensor.stride(),
        dtype=tensor.dtype,
        device="meta",
        requires_grad=tensor.requires_grad,
    )
    return FakeTensor(mode, shell, tensor.device)


def dispatch(
    run: Any, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """`run(func, types, args, kwargs)`, a fake mode's own dispatch, corrected."""
    if func is aten.linalg_vector_norm.default:
        args = _count_dimensions_from_the_front(args)
    result = run(func, types, args, kwargs)
    if not isinstance(func, torch._ops.OpOverload):
        return result
    check_call(func, args, kwargs, result)
    check_places(run, func, args, kwargs)
    if rule_of(func) is None:
        return result
    if isinstance(result, FakeTensor):
        return _correct(run, func, args, kwargs, result)
    if isinstance(result, list | tuple):
        items = [
            _correct(run, func, args, kwargs, each) if isinstance(each, FakeTensor) else each
            for each in result
        ]
        kind: Any = type(result)
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    return result


def _count_dimensions_from_the_front(args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of a vector norm. torch 2.11's rule keeps a dimension of size 1 counted from the end."""
    if len(args) < 3 or not args[2]:
        return args
    rank = args[0].dim()
    dims = [dim + rank if -rank <= dim < 0 else dim for dim in args[2]]
    return (*args[:2], dims, *args[3:])


def _correct(run: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: FakeTensor) -> Any:
    if result.layout is not torch.strided or result.device.type != "cpu":
        return result
    strides = strides_of(func, args, kwargs, result)
    if strides is None:
        return result
    size = tuple(result.shape)
    if func.is_view:
        return run(aten.as_strided.default, (), (result, size, strides, result.storage_offset()), {})
    options = {"dtype": result.dtype, "device": result.device}
    return run(aten.empty_strided.default, (), (size, strides), options)
