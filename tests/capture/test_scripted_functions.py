"""Functions compiled by `torch.jit.script` inside captured programs."""

from __future__ import annotations

import pytest
import torch

import lamina

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def swish(x: torch.Tensor, in_place: bool = False) -> torch.Tensor:
    return x.mul_(x.sigmoid()) if in_place else x * x.sigmoid()


def add_one(x: torch.Tensor, in_place: bool = False) -> torch.Tensor:
    return x + 1


def extend(values: list[torch.Tensor]) -> torch.Tensor:
    values.append(values[0])
    return values[0] + len(values)


@pytest.fixture
def scripted(monkeypatch):
    for function in (swish, extend):
        monkeypatch.setitem(globals(), f"scripted_{function.__name__}", torch.jit.script(function))


def use_swish(x):
    return scripted_swish(x + 0, in_place=True) + scripted_swish(x)  # noqa: F821


def use_extend(x):
    values = [x]
    return scripted_extend(values), len(values)  # noqa: F821


def test_the_python_function_is_captured(scripted):
    graphs = []
    compiled = lamina.compile(use_swish, backend=lambda graph, inputs: graphs.append(graph) or graph)
    x = torch.arange(3.0)
    assert torch.equal(compiled(x), use_swish(x))
    assert len(graphs) == 1
    globals()["scripted_swish"] = torch.jit.script(add_one)
    assert torch.equal(compiled(x), use_swish(x))


def test_changes_to_a_list_stay_lost(scripted):
    compiled = lamina.compile(use_extend, backend=lambda graph, inputs: graph)
    x = torch.arange(3.0)
    (got, length), (expected, wanted) = compiled(x), use_extend(x)
    assert torch.equal(got, expected)
    assert length == wanted == 1
