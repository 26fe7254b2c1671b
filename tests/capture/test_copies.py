"""`copy.copy` and `copy.deepcopy` of tensors, modules and containers of them: in one graph, with eager's result."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import lamina
from lamina.errors import Unsupported


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.tied = self.first
        self.sizes = [1, 2]


MODEL = Block().eval()


def of_a_module(x: torch.Tensor) -> Any:
    made = copy.deepcopy(MODEL)
    with torch.no_grad():
        made.first.weight.mul_(2)
    made.sizes.append(3)
    return made.norm(made.tied(x)), made, MODEL.first(x)


def of_a_module_shallowly(x: torch.Tensor) -> Any:
    made: Any = copy.copy(MODEL)
    made.scale = 3
    return made.first(x) * made.scale, made.first is MODEL.first, hasattr(MODEL, "scale")


def of_a_tensor(x: torch.Tensor) -> Any:
    made, same = copy.deepcopy(x), copy.copy(x)
    made.add_(1)
    same.mul_(2)
    return made, same, x + 1


def of_containers(x: torch.Tensor) -> Any:
    y = x + 1
    given = {"list": [x, x, y], "ordered": OrderedDict(a=y, b=(1, "text"))}
    made: Any = copy.deepcopy(given)
    made["list"][0].zero_()
    return made, made["list"][0] is made["list"][1], copy.copy(given["list"]), given


PROGRAMS = [of_a_module, of_a_module_shallowly, of_a_tensor, of_containers]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_in_one_graph(program: Callable[..., Any], rows: int) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True, dynamic=False)
    for _ in range(3):
        x = torch.rand(rows, 3)
        given = x.clone()
        with torch.no_grad():
            found, expected = flatten(compiled(given)), flatten(program(x))
        assert len(found) == len(expected)
        for ours, eagers in zip(found, expected, strict=True):
            assert type(ours) is type(eagers)
            if isinstance(ours, torch.Tensor):
                torch.testing.assert_close(ours, eagers, check_stride=True)
                assert ours.requires_grad == eagers.requires_grad
            else:
                assert ours == eagers
        torch.testing.assert_close(given, x)
    assert lamina.counters()["graphs"] == 1


def flatten(value: Any) -> list[Any]:
    """All that a result holds, modules' parameters, buffers and names of submodules too."""
    leaves: list[Any] = []
    for leaf in pytree.tree_leaves(value):
        if not isinstance(leaf, torch.nn.Module):
            leaves.append(leaf)
            continue
        leaves += [*leaf.state_dict(keep_vars=True).values(), list(leaf.state_dict()), leaf.training]
        leaves += [leaf.tied is leaf.first, leaf is MODEL, leaf.sizes]
    return leaves


def test_each_call_makes_a_copy() -> None:
    compiled = lamina.compile(lambda: copy.deepcopy(MODEL), fullgraph=True)
    with torch.no_grad():
        first, second = compiled(), compiled()
        assert first is not second
        first.first.weight.zero_()
        assert second.first.weight.abs().sum() > 0
        MODEL.first.bias.add_(1)
        torch.testing.assert_close(compiled().first.bias, MODEL.first.bias)


class Registered:
    pass


def test_a_class_registered_later_costs_no_capture() -> None:
    lamina.reset()
    compiled = lamina.compile(of_a_tensor, fullgraph=True)
    compiled(torch.rand(3))
    copyreg.pickle(Registered, lambda value: (Registered, ()))
    try:
        compiled(torch.rand(3))
    finally:
        del copyreg.dispatch_table[Registered]
    assert lamina.counters()["graphs"] == 1


def test_a_gradient_that_comes_later_is_seen() -> None:
    compiled = lamina.compile(copy_with_gradient)
    weight = torch.ones(3)
    assert compiled(weight).grad is None
    weight.grad = torch.full((3,), 2.0)
    assert compiled(weight).grad.tolist() == [2, 2, 2]


def copy_with_gradient(x: torch.Tensor) -> Any:
    return copy.deepcopy(x)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: copy.deepcopy(x[:, :2]),
        lambda x: copy.deepcopy([x, x.view(-1)]),
        lambda x: copy.copy(MODEL.first.weight),
    ],
)
def test_what_shares_memory_is_a_break(program: Callable[..., Any]) -> None:
    with torch.no_grad(), pytest.raises(Unsupported) as caught:
        lamina.compile(program, fullgraph=True)(torch.rand(2, 3))
    assert caught.value.code == "copy"
    lamina.reset()
    x = torch.rand(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(program)(x), program(x), check_stride=True)
