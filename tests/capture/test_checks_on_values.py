"""A branch on a tensor one way of which raises is a check in the graph; where it fails, eager raises its own error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamina
from tests.capture.checking_programs import IN_ONE_GRAPH, WITH_BREAKS, decides_twice


@pytest.mark.parametrize("program", IN_ONE_GRAPH, ids=lambda each: each.__name__)
def test_checked_in_one_graph(program: Callable[..., Any]) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    with torch.no_grad():
        for sign in (1.0, -1.0, 1.0):
            x = torch.linspace(0.5, 2, 4) * sign
            if program is decides_twice and sign < 0:
                x[0] = torch.inf
            try:
                expected = program(x)
            except Exception as error:
                with pytest.raises(type(error), match=re.escape(str(error))):
                    compiled(x)
            else:
                torch.testing.assert_close(compiled(x), expected)
    assert lamina.counters()["graphs"] == 1
    assert lamina.counters()["breaks"] == 0


@pytest.mark.parametrize("program", WITH_BREAKS)
def test_otherwise_a_break(program: Callable[..., Any]) -> None:
    """A failed check means another run in eager: not behind writes, and not where raising is usual."""
    compiled = lamina.compile(program)
    with torch.no_grad():
        for start in (1.0, -3.0, 60.0):
            x, ours = torch.full((4,), start), torch.full((4,), start)
            try:
                expected = program(x)
            except Exception as error:
                with pytest.raises(type(error)):
                    compiled(ours)
            else:
                assert torch.equal(compiled(ours), expected)
            assert torch.equal(x, ours)
    breaks = lamina.explain(compiled, torch.ones(4)).breaks
    assert "checking_programs" in breaks[0]["location"]


def test_effects_come_only_where_the_checks_hold() -> None:
    seen: list[int] = []

    def program(x: torch.Tensor) -> Any:
        seen.append(1)
        if (x < 0).any():
            raise ValueError
        seen.append(2)
        return x.sin()

    compiled = lamina.compile(program)
    with torch.no_grad():
        compiled(torch.ones(3))
        assert seen == [1, 2]
        with pytest.raises(ValueError):
            compiled(-torch.ones(3))
    assert seen == [1, 2, 1]
