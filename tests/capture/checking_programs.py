"""Programs that branch on tensors, one way of which raises."""

from __future__ import annotations

from typing import Any

import torch


def asserts(x: torch.Tensor) -> Any:
    y = x * 2
    assert (y > 0).all(), f"{y.shape[0]} numbers, not all above 0"
    return y + 1


def raises_in_a_branch(x: torch.Tensor) -> Any:
    if (x < 0).any():
        words = [str(size) for size in x.shape]
        raise ValueError("negative: " + ", ".join(words))
    return x.sqrt()


def decides_twice(x: torch.Tensor) -> Any:
    if x.dim() > 5 or not torch.isfinite(x).all():
        raise ValueError("not finite" if x.dim() else "nothing")
    if x.max().item() > 100:
        raise OverflowError
    return x.exp()


def check(x: torch.Tensor) -> torch.Tensor:
    if x.min() < 0:
        raise ValueError("negative")
    return x


def checks_in_a_callee(x: torch.Tensor) -> Any:
    return check(x).sqrt() + check(x + 1)


def loses_gaussian(x: torch.Tensor) -> Any:
    return torch.nn.functional.gaussian_nll_loss(x.view(2, 2), x.view(2, 2) + 1, x.view(2, 2)[:, :1])


IN_ONE_GRAPH = [asserts, raises_in_a_branch, decides_twice, checks_in_a_callee, loses_gaussian]


def writes(x: torch.Tensor) -> Any:
    if x.sum() > 100:
        raise ValueError
    x.add_(1)
    return x * 2


def writes_and_divides(x: torch.Tensor) -> Any:
    x.add_(1)
    return x * (1 / x.sum().item())


def is_caught_here(x: torch.Tensor) -> Any:
    try:
        if x.sum() > 0:
            raise ValueError
    except ValueError:
        return x + 1
    return x - 1


def loops(x: torch.Tensor) -> Any:
    for _ in range(20):
        if x.sum() > 1000:
            raise ValueError
        x = x + 1
    return x


WITH_BREAKS = [writes, writes_and_divides, is_caught_here, loops]
