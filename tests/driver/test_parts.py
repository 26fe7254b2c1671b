"""Parts of a graph between reads of values: one program for the sizes that the values give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import lamina
from lamina.driver import parts

torch.manual_seed(0)
LINEAR = torch.nn.Linear(8, 16).requires_grad_(False)


def rows_of_mask(x: torch.Tensor, m: torch.Tensor) -> Any:
    y = torch.relu(LINEAR(x[m]))
    return torch.softmax(y, -1) * 2, y.sum(0)


def places(x: torch.Tensor, m: torch.Tensor) -> Any:
    found = torch.nonzero(m)[:, 0]
    return (x[found] * 2 + 1).tanh().sum(-1), found * 3


def both_sides(x: torch.Tensor, m: torch.Tensor) -> Any:
    y, z = x[m], x[~m]
    return torch.cat([y * 2, z + 1]).exp().sum(0), (y @ z.t()).relu()


def columns_of_mask(x: torch.Tensor, m: torch.Tensor) -> Any:
    y = x.t().contiguous()[:, m]
    return y * 2 + 1, y.amax(0)


def counted(x: torch.Tensor, m: torch.Tensor) -> Any:
    count = m.sum().item()
    return x[:count].relu().sum(0) * count, functional.pad(x[:count], (1, 1)).exp()


PROGRAMS = [rows_of_mask, places, both_sides, columns_of_mask, counted]
COUNTS = (5, 9, 13, 9, 30, 30, 7, 7)


def make(count: int, rows: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.zeros(rows, dtype=torch.bool)
    mask[torch.randperm(rows)[:count]] = True
    return torch.randn(rows, 8), mask


def name_of(function: Callable[..., Any]) -> str:
    return function.__name__


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_sizes_that_come_again_build_no_kernel(program: Callable[..., Any]) -> None:
    lamina.reset()
    fast = lamina.compile(program, fullgraph=True)
    built = set()
    for count in COUNTS:
        given = make(count)
        torch.testing.assert_close(fast(*given), program(*given))
        built.add(lamina.counters()["kernel_compilations"])
    assert len(built) == 1
    assert lamina.counters()["graphs"] == 1


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_no_rows_and_one(program: Callable[..., Any]) -> None:
    fast = lamina.compile(program, fullgraph=True)
    for count in (1, 0, 1, 0, 6, 8, 8, 100, 100):
        given = make(count)
        torch.testing.assert_close(fast(*given), program(*given))


def test_much_work_is_put_into_the_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MUCH_WORK", 0)
    fast = lamina.compile(rows_of_mask, fullgraph=True)
    fast(*make(5))
    built = lamina.counters()["kernel_compilations"]
    monkeypatch.setattr(parts.Part, "_remember", lambda *_: pytest.fail("the nodes ran as they are"))
    for count in (9, 12, 40, 77):
        given = make(count)
        torch.testing.assert_close(fast(*given), rows_of_mask(*given))
    assert lamina.counters()["kernel_compilations"] == built


def test_a_size_that_fails_a_check_fails_again() -> None:
    """That the nodes ran for a size says that all results were as the capture took them to be."""

    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return x[:count].exp() * 2

    fast, x = lamina.compile(program, fullgraph=True), torch.randn(10, 4)
    for count in (4, 20, 20, 7, 20, 7):
        if count > len(x):
            with pytest.raises(RuntimeError):
                fast(x, torch.tensor(count))
        else:
            torch.testing.assert_close(fast(x, torch.tensor(count)), x[:count].exp() * 2)
