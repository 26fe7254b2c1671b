"""Guards on the tensors that a capture takes from outside.

Arguments are checked by class, dtype, sizes, strides, device and requires_grad. Parameters and buffers are
fetched anew in each call, so a replaced one is fine as long as its metadata is the same.
"""

from __future__ import annotations

from typing import Any

import torch

from lamina.capture.generated import Writer
from lamina.capture.guards import GuardSet, describe, rank_of
from lamina.capture.sources import Source
from lamina.capture.values.tensor import TensorValue


def guard_tensor(guards: GuardSet, source: Source, value: TensorValue) -> None:
    """Guard the metadata of one input tensor."""
    tensor: torch.Tensor = value.real
    expected = describe(tensor)
    facts = TensorFacts(tensor)
    if guards.is_new("tensor", source.key):
        guards.add(
            rank_of(source),
            source.describe(),
            expected,
            lambda writer: facts.condition(writer, source.expression(writer)),
            source.expression,
        )


class TensorFacts:
    """The metadata of a tensor at capture, kept without the tensor."""

    __slots__ = ("device", "dtype", "is_plain_cpu", "kind", "requires_grad", "shape", "stride")

    def __init__(self, tensor: torch.Tensor) -> None:
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
            f"{name}.shape == {constant(self.shape)}",
            f"{name}.is_cpu" if self.is_plain_cpu else f"{name}.device == {constant(self.device)}",
            f"{name}.requires_grad is {self.requires_grad}",
            f"{name}.stride() == {constant(self.stride)}",
        ]
        if self.dtype.is_complex:
            parts += [f"not {name}.is_conj()", f"not {name}.is_neg()"]
        return " and ".join(parts)


def share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors use one storage (overlapping or not: views of one storage are told apart nowhere)."""
    return first.untyped_storage()._cdata == second.untyped_storage()._cdata


def has_shared_storage(tensors: list[Any]) -> bool:
    """Whether any two of the tensors share a storage; used at call time where the graph mutates an input."""
    seen = {tensor.untyped_storage()._cdata for tensor in tensors}
    return len(seen) != len(tensors)
