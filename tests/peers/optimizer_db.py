"""torch's database of optimizers: steps of a compiled `optimizer.step` against eager's, each from the same state."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

import lamina
from tests.parity.compare import find_difference
from tests.peers.judging import Outcome, describe, worst

STEPS = 3
SIZES = ((4, 3), (3,), ())
STATES = 2
"""An optimizer without state, and with it."""
NEEDS_CLOSURE = "LBFGS"


@functools.cache
def entries() -> dict[str, Any]:
    """Optimizers by name."""
    return {info.optim_cls.__name__: info for info in optim_db}


def make_optimizer(kind: type, options: dict[str, Any]) -> torch.optim.Optimizer:
    """An optimizer of parameters that are the same each time."""
    torch.manual_seed(0)
    sizes = [size for size in SIZES if len(size) == 2] if kind.__name__ == "Muon" else SIZES
    optimizer: torch.optim.Optimizer = kind(
        [torch.nn.Parameter(torch.randn(size)) for size in sizes], **options
    )
    return optimizer


def run_steps(optimizer: torch.optim.Optimizer, step: Callable[..., Any]) -> list[torch.Tensor]:
    """Parameters and state after some steps with gradients that are the same each time."""
    torch.manual_seed(1)
    parameters = [each for group in optimizer.param_groups for each in group["params"]]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((each * each).sum() for each in parameters)
        loss.backward()
        return loss

    for _ in range(STEPS):
        for each in parameters:
            each.grad = (
                torch.randn(each.shape).to_sparse() if is_sparse(optimizer) else torch.randn(each.shape)
            )
        step(closure) if type(optimizer).__name__ == NEEDS_CLOSURE else step()
    kept = pytree.tree_leaves([optimizer.state[each] for each in parameters])
    return [*parameters, *(each for each in kept if isinstance(each, torch.Tensor))]


def is_sparse(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer takes nothing but sparse gradients."""
    return type(optimizer).__name__ == "SparseAdam"


def judge_optimizer(name: str, most_samples: int = 0) -> Outcome:
    """The first outcome that is not `whole`, over the options that eager takes."""
    info = entries()[name]
    chosen = itertools.islice(info.optim_inputs_func(device="cpu"), most_samples or None)
    outcomes = (judge_options(info.optim_cls, sample.kwargs) for sample in chosen)
    return worst(outcomes, "no options that eager takes")


def judge_options(kind: type, options: dict[str, Any]) -> Outcome:
    lamina.reset()
    try:
        eager = make_optimizer(kind, options)
        expected = run_steps(eager, eager.step)
    except Exception as error:
        return Outcome("skipped", reason=f"eager raises {type(error).__name__}: {error}")
    ours = make_optimizer(kind, options)
    compiled = lamina.compile(ours.step)
    try:
        actual = run_steps(ours, compiled)
    except Exception as error:
        return Outcome("refused", reason=f"{type(error).__name__}: {error}"[:300])
    difference = find_difference(
        [each.detach() for each in expected], [each.detach() for each in actual], ((), ())
    )
    if difference:
        return Outcome("differs", reason=difference[:300])
    outcome = Outcome("same")
    if kind.__name__ != NEEDS_CLOSURE:
        describe(outcome, compiled, ((), {}))
        # The first step makes the state that later ones find: a graph each.
        outcome.is_whole = not outcome.breaks and lamina.counters()["graphs"] <= STATES
    return outcome
