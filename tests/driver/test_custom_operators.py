"""Custom operators in a compiled graph: those that write to arguments, give lists, or look at strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamina

MAKE: Any = torch.library.Library
LIBRARY = MAKE("lamina_tests", "DEF")


def declare(schema: str, run: Callable[..., Any], shape_rule: Callable[..., Any]) -> Any:
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"lamina_tests::{name}", shape_rule, lib=LIBRARY)
    return getattr(torch.ops.lamina_tests, name)


def add_to_both(x: torch.Tensor, others: list[torch.Tensor], by: float = 2.0, *, text: str = "a, (b)") -> Any:
    for each in (x, *others):
        each.add_(by + len(text))
    return x.sum(0), [other * 2 for other in others], len(others)


def add_to_both_rule(x: torch.Tensor, others: list[torch.Tensor], by: float = 2.0, *, text: str = "") -> Any:
    return x.new_empty(x.shape[1:]), [torch.empty_like(other) for other in others], len(others)


def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x.mul_(by)


def read_strides(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.stride()) + (x[0, 0] * 0).long()


def write_strides(x: torch.Tensor) -> None:
    x.copy_(torch.full_like(x, float(x.stride(0))))


def take_optional(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    x.add_(1 if y is None else y)
    if y is not None:
        y.add_(1)


ADD_TO_BOTH = declare(
    "add_to_both(Tensor(a!) x, Tensor(b!)[] others, float by=2., *, str text='a, (b)')"
    " -> (Tensor, Tensor[], int)",
    add_to_both,
    add_to_both_rule,
)
SCALE = declare("scale_(Tensor(a!) x, float by) -> Tensor(a!)", scale, lambda x, by: x)
READ_STRIDES = declare(
    "read_strides(Tensor x) -> Tensor", read_strides, lambda x: x.new_empty(x.dim(), dtype=torch.int64)
)
WRITE_STRIDES = declare("write_strides(Tensor(a!) x) -> ()", write_strides, lambda x: None)
TAKE_OPTIONAL = declare(
    "take_optional(Tensor(a!) x, Tensor(b!)? y=None) -> ()", take_optional, lambda x, y=None: None
)


def expanded(x: torch.Tensor, y: torch.Tensor) -> Any:
    return READ_STRIDES((x[:1] + 1).expand(x.shape)), READ_STRIDES(x.sum(0).expand(x.shape) * 1)


def lists_and_numbers(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = y + 1
    total, doubled, count = ADD_TO_BOTH(x, [y, z], 3.0, text="xyz")
    return total + count, doubled[1] + z, x * 2


def defaults(x: torch.Tensor, y: torch.Tensor) -> Any:
    return ADD_TO_BOTH(x, [y])[0] - y.sum(0)


def through_views(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x * 2
    SCALE(w[1:3], 3.0)
    SCALE(w.t(), 2.0)
    SCALE(y[:, 1], -1.0)
    return w + y


def gives_argument(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = SCALE(x + 1, 3.0)
    v = SCALE(w, 2.0)
    w.add_(y)
    return v, w.relu()


def strides_of_arguments(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = (x.t() + 1).relu()
    WRITE_STRIDES(w)
    return READ_STRIDES(x.t() * 2), READ_STRIDES((x + y)[:, :2]), w, READ_STRIDES(y[1:])


def optional(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.exp()
    TAKE_OPTIONAL(w)
    TAKE_OPTIONAL(w, y)
    return w + y


def unused(x: torch.Tensor, y: torch.Tensor) -> Any:
    ADD_TO_BOTH(x, [y])
    return None


PROGRAMS = [
    lists_and_numbers,
    defaults,
    through_views,
    gives_argument,
    strides_of_arguments,
    expanded,
    optional,
    unused,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_custom_operators_are_compiled(program: Callable[..., Any]) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    with torch.no_grad():
        for seed in range(2):
            torch.manual_seed(seed)
            arguments = torch.rand(4, 4), torch.rand(4, 4)
            ours = tuple(each.clone() for each in arguments)
            expected, got = program(*arguments), compiled(*ours)
            for one, other in zip(
                torch.utils._pytree.tree_leaves((got, ours)),
                torch.utils._pytree.tree_leaves((expected, arguments)),
                strict=True,
            ):
                if isinstance(other, torch.Tensor):
                    torch.testing.assert_close(one, other)
                    assert one.stride() == other.stride()
    assert lamina.counters()["graphs"] == 1
    explanation = lamina.explain(compiled, *arguments)
    assert not any(graph.eager_reason for graph in explanation.graphs), explanation


def test_memory_given_twice_is_left_to_eager() -> None:
    def program(x: torch.Tensor) -> Any:
        w = x + 1
        ADD_TO_BOTH(w, [w, x])
        return w

    x, y = torch.ones(3, 3), torch.ones(3, 3)
    with torch.no_grad():
        assert torch.equal(lamina.compile(program)(x), program(y))
    assert torch.equal(x, y)


def test_overlapping_arguments_are_seen() -> None:
    """What a custom operator writes to counts as written, so a later call with shared memory is no such call."""

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        SCALE(x, 2.0)
        TAKE_OPTIONAL(x)
        return x + y

    compiled = lamina.compile(program)
    with torch.no_grad():
        for start in (4, 1):
            memory, other = torch.arange(8.0), torch.arange(8.0)
            expected = program(memory[:4], memory[start : start + 4])
            assert torch.equal(compiled(other[:4], other[start : start + 4]), expected)
            assert torch.equal(memory, other)
