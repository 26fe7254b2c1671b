"""torch's higher-order operators whose loops are over sizes: they unroll in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamina

HIGHER: Any = torch._higher_order_ops


Program = Callable[..., Any]


def mapped(x: torch.Tensor, y: torch.Tensor) -> Any:
    def outer(row: torch.Tensor, other: torch.Tensor) -> Any:
        return HIGHER.map(lambda item, by: item.sin() * by + y.sum(), row, other)

    return HIGHER.map(outer, x, y[0])


def mapped_plainly(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.stack([torch.stack([item.sin() * y[0] + y.sum() for item in row]) for row in x])


def scanned(x: torch.Tensor, y: torch.Tensor) -> Any:
    def combine(carry: torch.Tensor, row: torch.Tensor) -> Any:
        following = carry * 0.5 + row
        return following, following.cos()

    return HIGHER.scan(combine, y[0], x, reverse=True)


def scanned_plainly(x: torch.Tensor, y: torch.Tensor) -> Any:
    carry, rows = y[0], []
    for row in reversed(x):
        carry = carry * 0.5 + row
        rows.append(carry.cos())
    return carry, torch.stack(rows[::-1])


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def regions(x: torch.Tensor, y: torch.Tensor) -> Any:
    return region(x) * region(y)


def decided_by_size(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 2, lambda a: a.cos(), lambda a: a.sin(), (x + y,))


PROGRAMS = [
    (mapped, mapped_plainly),
    (scanned, scanned_plainly),
    (regions, regions),
    (decided_by_size, decided_by_size),
]


@pytest.mark.parametrize(("program", "plain"), PROGRAMS, ids=lambda each: each.__name__)
def test_in_one_graph(program: Program, plain: Program) -> None:
    """`plain` says the same: eager itself calls torch's compiler for these operators, which takes seconds."""
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            x, y = torch.rand(3, 2), torch.rand(3, 2)
            torch.testing.assert_close(compiled(x, y), plain(x, y))
    assert lamina.counters()["graphs"] == 1
