"""Guards on the tensors that a capture takes from outside.

Arguments are checked by class, dtype, sizes, strides, device and requires_grad. Parameters and buffers are
fetched anew in each call, so a replaced one is fine as long as its metadata is the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from lamina.capture.generated import Writer
from lamina.capture.layouts import Layout


class TensorFacts:
    """The metadata of a tensor at capture, kept without the tensor."""

    __slots__ = ("device", "dtype", "is_plain_cpu", "kind", "layout", "requires_grad", "shape", "stride")

    def __init__(self, tensor: torch.Tensor, layout: Layout | None = None) -> None:
        self.layout = layout
        self.kind = type(tensor)
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.stride = tensor.stride()
        self.device = tensor.device
        self.requires_grad = tensor.requires_grad
        self.is_plain_cpu = tensor.device.type == "cpu"

    def condition(self, writer: Writer, name: str) -> str:
        """The test as text, cheapest facts first."""
        constant = writer.constant
        parts = [
            f"type({name}) is {constant(self.kind)}",
            f"{name}.dtype is {constant(self.dtype)}",
            *(() if self.layout is not None else (f"{name}.shape == {constant(self.shape)}",)),
            f"{name}.is_cpu" if self.is_plain_cpu else f"{name}.device == {constant(self.device)}",
            f"{name}.requires_grad is {self.requires_grad}",
            *(
                (f"{name}.stride() == {constant(self.stride)}",)
                if self.layout is None
                else self.layout.conditions(writer, name)
            ),
        ]
        if self.dtype.is_complex:
            parts += [f"not {name}.is_conj()", f"not {name}.is_neg()"]
        return " and ".join(parts)


def native_checker(tensors: list[torch.Tensor], layouts: list[Layout | None]) -> Callable[..., bool] | None:
    """torch's own C++ check of the same facts for many tensors at once, or None where it is not to be had.

    Of a tensor with a layout it leaves the sizes and strides that vary unchecked.
    """
    maker = _find_native_checker()
    if maker is None or not tensors:
        return None
    sizes = strides = None
    if any(layouts):
        pairs = list(zip(tensors, layouts, strict=True))
        sizes = [list(tensor.shape) if layout is None else layout.static_sizes() for tensor, layout in pairs]
        strides = [
            list(tensor.stride()) if layout is None else layout.static_strides() for tensor, layout in pairs
        ]
    check: Callable[..., bool] = maker(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    return check if check(*tensors) else None


_native: list[Any] = []


def _find_native_checker() -> Any:
    """The private class, proved once on tensors that differ in one fact each."""
    if not _native:
        _native.append(_probe_native_checker())
    return _native[0]


def _probe_native_checker() -> Any:
    try:
        guards: Any = importlib.import_module("torch._C._dynamo.guards")

        base = torch.zeros(2, 3)
        check = guards.TensorGuards(base, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        others = [
            torch.zeros(2, 3, dtype=torch.float64),
            torch.zeros(2, 4),
            torch.zeros(3, 2).t(),
            torch.zeros(2, 3, requires_grad=True),
            torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
            torch.zeros(2, 3, device="meta"),
            torch.zeros(2, 3, dtype=torch.complex64).conj(),
            torch.zeros(6),
            3,
        ]
        is_sound = check(base) is True and not any(check(other) for other in others)
        # Rows of any number, strides of any length over them: the rest is checked as above.
        loose = guards.TensorGuards(
            base, dynamic_dims_sizes=[[None, 3]], dynamic_dims_strides=[[None, 1]]
        ).check
        is_sound &= loose(torch.zeros(7, 3)) is True and not any(loose(other) for other in others)
    except Exception:
        return None
    return guards.TensorGuards if is_sound else None


def storage_of(tensor: torch.Tensor) -> int:
    """Equal for tensors of one storage, overlapping or not."""
    return int(tensor.untyped_storage()._cdata)


class ApartCheck:
    """Asked in each call whether a tensor that the graph writes to shares its storage with another one.

    places: where the tensors were when they last did not. Where sizes are known, all at the same places again
    means the same memory.
    """

    __slots__ = ("places", "remembers", "written")

    def __init__(self, written: int, *, remembers: bool) -> None:
        self.written = written
        self.remembers = remembers
        self.places: list[int] = []

    def __call__(self, *tensors: torch.Tensor) -> bool:
        """Whether all are apart. The first `written` tensors are those written to."""
        places = [tensor.data_ptr() for tensor in tensors] if self.remembers else []
        if places and places == self.places:
            return True
        storages = [tensor.untyped_storage()._cdata for tensor in tensors]
        seen = set(storages[: self.written])
        is_apart = len(seen) == self.written and seen.isdisjoint(storages[self.written :])
        if is_apart:
            self.places = places
        return is_apart
