"""The compile functions that the judge can be pointed at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Function = Callable[..., Any]


@dataclass(frozen=True)
class Compiler:
    """compile: function -> function; reset: forgets everything compiled; count_breaks: calls that ran eagerly
    so far.
    """

    compile: Callable[[Function], Function]
    reset: Callable[[], None]
    count_breaks: Callable[[], int] = lambda: 0


def use_nothing() -> Compiler:
    """The function itself: whatever differs here is no function of its inputs."""
    return Compiler(lambda function: function, lambda: None)


def use_lamina() -> Compiler:
    """As a user calls it: what is not compiled runs eagerly."""
    import lamina

    return Compiler(lamina.compile, lamina.reset, lambda: dict(lamina.counters())["breaks"])


def use_whole_lamina() -> Compiler:
    """An error instead of eager calls."""
    import lamina

    return Compiler(lambda function: lamina.compile(function, fullgraph=True), lamina.reset)


def use_dynamo() -> Compiler:
    """torch.compile up to the traced graph, which then runs eagerly: the yardstick for capture."""
    return Compiler(
        lambda function: torch.compile(function, backend="aot_eager", fullgraph=True), torch._dynamo.reset
    )


COMPILERS = {
    "lamina": use_lamina,
    "lamina-whole": use_whole_lamina,
    "aot_eager": use_dynamo,
    "nothing": use_nothing,
}
