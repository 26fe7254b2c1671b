"""The judge itself: it accepts eager's own results and finds every kind of wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.parity.compare import copy_arguments, find_difference
from tests.parity.compilers import Compiler, use_nothing
from tests.parity.judge import Entry, judge, list_entries, operators

Function = Callable[..., Any]


def wrap(spoil: Callable[[Any], Any]) -> Compiler:
    """A compiler that spoils every result."""
    return Compiler(lambda function: lambda *args, **kwargs: spoil(function(*args, **kwargs)), lambda: None)


def without_effect(function: Function) -> Function:
    """Loses mutations of its arguments."""
    return lambda *args, **kwargs: function(*copy_arguments(args), **kwargs)


def test_the_database_is_whole() -> None:
    assert len(operators()) > 650
    assert len(list_entries()) > 3000


@pytest.mark.parametrize(
    "name", ["add", "cat", "sort", "nn.functional.dropout", "view", "empty", "linalg.svd", "split"]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_eager_is_right(name: str, dtype: str) -> None:
    entry = Entry(name, dtype)
    if entry in list_entries():
        assert judge(entry, use_nothing(), 4).verdict == "same"


@pytest.mark.parametrize(
    ("name", "spoil", "reason"),
    [
        ("exp", lambda result: result + 0.01, "values"),
        ("exp", lambda result: result.double(), "dtype"),
        ("add", lambda result: result.unsqueeze(0), "shape"),
        ("mm", lambda result: result.t().contiguous().t(), "strides"),
        ("view", lambda result: result.clone(), "aliases"),
        ("sort", lambda result: tuple(result), "structure"),
        ("bernoulli", lambda result: 1 - result, "values"),
        ("empty", lambda result: result.to(torch.float64), "dtype"),
    ],
)
def test_wrong_results_are_found(name: str, spoil: Callable[[Any], Any], reason: str) -> None:
    verdict = judge(Entry(name, "float32"), wrap(spoil), 0)
    assert verdict.verdict == "differs"
    assert reason in verdict.reason


def test_a_lost_mutation_is_found() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2) + 1

    both = copy_arguments((torch.ones(3),)), copy_arguments((torch.ones(3),))
    expected, actual = double(*both[0]), without_effect(double)(*both[1])
    assert "argument 0 after the call" in find_difference(expected, actual, both)


def test_a_refusal_is_told_with_its_reason() -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no rule for this")

    verdict = judge(Entry("exp", "float32"), Compiler(lambda function: refuse, lambda: None), 1)
    assert (verdict.verdict, verdict.reason) == ("refused", "RuntimeError: no rule for this")


def test_a_result_better_than_eager_is_accepted() -> None:
    # bfloat16 sums: eager's own error is larger than the tolerance, the exact result rounded is the better
    # one.
    exact = torch.full((1,), 1000.4, dtype=torch.float32)
    eager, better, worse = (torch.tensor([value], dtype=torch.bfloat16) for value in (980.0, 1000.0, 1080.0))
    assert find_difference(eager, better, ((), ()), exact=exact) == ""
    assert "values" in find_difference(eager, worse, ((), ()), exact=exact)
