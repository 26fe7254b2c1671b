"""What a peer is: a way to make a workload's function faster, and what of it to record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench.workloads import Example

Call = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """One column of the scoreboard.

    prepare: compiles the example and returns a call of it without arguments; it imports the peer's package
    itself, so that a missing one is a reason in the table and its import counts as compile time. package:
    the distribution whose version is recorded. has_disk_cache: whether a second process can start warm.
    count: facts about the compiled program, asked for after the first call.
    """

    name: str
    package: str
    prepare: Callable[[Example], Call]
    settings: str = ""
    has_disk_cache: bool = False
    count: Callable[[], dict[str, int]] = dict


def call_with(function: Callable[..., Any], example: Example) -> Call:
    """The function bound to the example's arguments."""
    args, kwargs = example.args, example.kwargs
    if kwargs:
        return lambda: function(*args, **kwargs)
    if len(args) == 1:
        (only,) = args
        return lambda: function(only)
    return lambda: function(*args)


class AsModule(nn.Module):
    """A plain function as a module, for exporters that take nothing else."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def as_module(example: Example) -> nn.Module:
    """The example's function as a module in eval mode."""
    if isinstance(example.function, nn.Module):
        return example.function
    return AsModule(example.function).eval()
