"""Programs broken in loops and in functions made anew: they are captured a few times, not once a round or a call."""

import pytest
import torch

import lamina
from tests.capture.as_it_is import run_as_it_is
from tests.parity.compare import find_difference


def halt(x):
    lamina.graph_break()
    return x + 1


def in_comprehension(x, scale):
    return [halt(x * scale) for _ in range(3)]


def in_lambda(x, scale):
    add = lambda y: halt(y * scale) + x  # noqa: E731
    lamina.graph_break()
    return add(x) + add(x + 1)


def in_a_def_with_a_default(x, scale):
    def apply(y, offset=scale, *, factor=scale):
        return halt(y * factor) + offset

    lamina.graph_break()
    return apply(x) + apply(x, 1)


@pytest.mark.parametrize("program", [in_comprehension, in_lambda, in_a_def_with_a_default])
def test_functions_made_in_each_call_share_captures(program):
    lamina.reset()
    compiled = lamina.compile(program, backend=run_as_it_is)
    x = torch.arange(3.0)
    for scale in (2, 3, 4):
        assert not find_difference(program(x, scale), compiled(x, scale), ((), ()))
    captures = lamina.counters()
    for scale in range(5, 15):
        assert not find_difference(program(x, scale), compiled(x, scale), ((), ()))
    assert lamina.counters() == captures


def repeat(function):
    def twice(x):
        lamina.graph_break()
        return function(function(x))

    return twice


DECORATED = [repeat(lambda x, scale=scale: x * scale) for scale in (2.0, 3.0, 5.0)]


def test_functions_of_one_code_stay_apart():
    def program(x):
        lamina.graph_break()
        for function in DECORATED:
            x = function(x)
        return x

    compiled = lamina.compile(program, backend=run_as_it_is)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 900.0))
