"""What a workload is: how to build its function, and inputs of any size for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

SEED = 0

Function = Callable[..., Any]


class Size(NamedTuple):
    """batch: samples; length: tokens, image side or rows, whichever the workload counts."""

    batch: int
    length: int


class Inputs(NamedTuple):
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Example(NamedTuple):
    """A function (an nn.Module in eval mode, or a plain function) with the arguments of one call."""

    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """One line of the scoreboard.

    make_function: builds the function, weights random; make_inputs: the arguments for a size; size: what is
    measured; variants: further sizes that the same function must handle after its first call.
    """

    name: str
    group: str
    make_function: Callable[[], Function]
    make_inputs: Callable[[Size], Inputs]
    size: Size
    variants: tuple[Size, ...] = ()
    note: str = field(default="", compare=False)

    def build(self) -> Example:
        """The function and its example arguments: the same numbers in every process."""
        with seeded(SEED):
            function = self.make_function()
        return Example(function, *self.inputs())

    def inputs(self, size: Size | None = None, seed: int = SEED) -> Inputs:
        """Arguments for a size (the measured one by default)."""
        with seeded(seed + 1):
            return self.make_inputs(size or self.size)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's generator seeded inside, put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def finish(module: nn.Module) -> nn.Module:
    """In eval mode, with no parameter or statistic left constant.

    A fresh LayerNorm has weight 1 and bias 0 and a fresh BatchNorm mean 0 and variance 1: a compiler that
    mixed up their elements, or dropped them, would still be right.
    """
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if (
                tensor.is_floating_point()
                and tensor.numel() > 1
                and bool((tensor == tensor.flatten()[0]).all())
            ):
                noise = torch.rand_like(tensor) if name.endswith("running_var") else torch.randn_like(tensor)
                tensor.add_(noise, alpha=0.1)
    return module.eval().requires_grad_(False)


def finish_convolutions(module: nn.Module, images: torch.Tensor) -> nn.Module:
    """As `finish`, with convolutions and batch-norm statistics that keep the signal alive through the layers.

    With the small initial weights of some models an untrained net forgets its input, and any result is right.
    """
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        module.train()(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return finish(module)


def to_double(example: Example) -> Example:
    """The same function and arguments in float64, for reference results; the given ones stay as they are."""
    function = example.function
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).double()
    return Example(function, *(as_double(part) for part in (example.args, example.kwargs)))


def as_double(value: Any) -> Any:
    """Arguments with their floating-point tensors in float64."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: as_double(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(as_double(item) for item in value)
    return value


class TakeOutput(nn.Module):
    """A transformers model that returns one tensor of its output record instead of the record."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = getattr(self.model(inputs), self.name)
        return output


def token_inputs(vocabulary: int) -> Callable[[Size], Inputs]:
    """Random tokens of shape (batch, length)."""
    return lambda size: Inputs((torch.randint(0, vocabulary, tuple(size)),), {})


def image_inputs(channels: int = 3) -> Callable[[Size], Inputs]:
    """Normal random images of shape (batch, channels, length, length)."""
    return lambda size: Inputs((torch.randn(size.batch, channels, size.length, size.length),), {})
