"""`warnings.catch_warnings()` in a program: one graph, with the warnings and the filters of CPython's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamina
from lamina.errors import Unsupported


def ignored(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("inside", stacklevel=2)
        y = x.sin()
    warnings.warn("behind", stacklevel=2)
    return y


def ignored_by_argument(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        warnings.warn("of users", stacklevel=2)
        warnings.warn("of the future", FutureWarning, stacklevel=2)
        return x.sin() * 2


def filtered(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*one")
        warnings.warn("number one", stacklevel=2)
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.simplefilter("always", UserWarning)
            for number in ("one", "two"):
                warnings.warn(f"inner {number}", stacklevel=2)
        warnings.warn("another one", stacklevel=2)
        warnings.warn("last", stacklevel=2)
    return x + 1


def left_by_an_error(x: torch.Tensor) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("inside", stacklevel=2)
            raise KeyError("a")
    except KeyError:
        warnings.warn("behind", stacklevel=2)
    return x + 1


def set_for_good(x: torch.Tensor) -> Any:
    warnings.filterwarnings("ignore", message="never seen")
    warnings.warn("never seen", stacklevel=2)
    return x + 1


PROGRAMS = [ignored, ignored_by_argument, filtered, left_by_an_error, set_for_good]


def observe(program: Callable[..., Any], x: torch.Tensor) -> tuple[Any, list[Any], list[Any]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        result = program(x)
        filters = list(warnings.filters)
    return result, [(str(each.message), each.category) for each in caught], filters


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_in_one_graph(program: Callable[..., Any]) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    x = torch.rand(3)
    with warnings.catch_warnings():
        # The first call imports, which may set filters for good.
        warnings.resetwarnings()
        compiled(x)
    for _ in range(2):
        found, expected = observe(compiled, x), observe(program, x)
        torch.testing.assert_close(found[0], expected[0])
        assert found[1:] == expected[1:]
    assert lamina.counters()["graphs"] == 1


def broken(x: torch.Tensor) -> Any:
    y = x + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("inside", stacklevel=2)
        for _ in range(10):
            y = abs(y)
        print("inside")
        warnings.warn("still inside", stacklevel=2)
    warnings.warn("behind", stacklevel=2)
    return y * 2


def recorded(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("inside", stacklevel=2)
    return x + 1, [str(each.message) for each in caught]


def made_an_error(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("inside", stacklevel=2)
        except UserWarning:
            x = x + 1
    return x * 2


@pytest.mark.parametrize("program", [broken, recorded, made_an_error], ids=lambda each: each.__name__)
def test_over_a_break(program: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.rand(3)
    with pytest.raises(Unsupported):
        lamina.compile(program, fullgraph=True)(x)
    compiled = lamina.compile(program)
    with warnings.catch_warnings():
        compiled(x)
    capsys.readouterr()
    found, printed = observe(compiled, x), capsys.readouterr().out
    expected = observe(program, x)
    if isinstance(found[0], tuple):
        assert found[0][1] == expected[0][1]
        found, expected = [(each[0][0], *each[1:]) for each in (found, expected)]
    torch.testing.assert_close(found[0], expected[0])
    assert found[1:] == expected[1:]
    assert printed == capsys.readouterr().out
