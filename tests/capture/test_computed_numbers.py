"""Ints computed of numbers that vary: one capture, with the results and errors of Python's own arithmetic."""

from __future__ import annotations

import math

import pytest
import torch

import lamina

X = torch.linspace(-2, 2, 64)
ONE_CAPTURE = {
    "power": (lambda x, k: (x * 2**k, 2**k + 1), (2, 3, 4, 5, 7)),
    "size of a power": (lambda x, k: x[: 2**k] + k, (2, 3, 4, 5)),
    "shifts": (lambda x, k: (x + (1 << k), k << 1 | 1, ~k), (2, 3, 4, 5, 9)),
    "whole part": (lambda x, k: x[: int(k * 1.5)] + 1, (2.0, 3.0, 4.0, 5.5)),
    "rounded": (lambda x, k: (x * round(k * 3), round(k)), (2.0, 3.1, 4.0, 5.6)),
    "root": (lambda x, k: x - math.isqrt(k), (5, 9, 17, 33, 20)),
    "used twice": (lambda x, k: (x[: 3**k], 3**k - 2**k), (2, 3, 2, 3)),
}
EDGES = (0, 1, -1, 2, 62, 63, 3)


@pytest.mark.parametrize("name", ONE_CAPTURE)
def test_one_capture(name):
    program, numbers = ONE_CAPTURE[name]
    lamina.reset()
    fast = lamina.compile(program)
    for number in numbers:
        torch.testing.assert_close(fast(X, number), program(X, number), rtol=0, atol=0)
    assert lamina.counters()["graphs"] == 2


def test_padding_to_a_power_of_two():
    def program(x):
        width = 2 ** math.ceil(math.log2(x.shape[0]))
        return torch.nn.functional.pad(x, (0, width - x.shape[0]))

    lamina.reset()
    fast = lamina.compile(program)
    for size in (5, 9, 17, 33, 20, 63):
        torch.testing.assert_close(fast(X[:size]), program(X[:size]))
    assert lamina.counters()["graphs"] == 2


@pytest.mark.parametrize(
    "program", [lambda x, k: x + 2**k, lambda x, k: x + (1 << k), lambda x, k: x * math.isqrt(k)]
)
def test_edges(program):
    fast = lamina.compile(program)
    for number in (4, 5, *EDGES):
        try:
            expected = program(X, number)
        except (ValueError, RuntimeError) as error:
            with pytest.raises(type(error)):
                fast(X, number)
        else:
            torch.testing.assert_close(fast(X, number), expected)


def test_a_decision_is_guarded():
    def program(x, k):
        return x * 2 if 2**k > 10 else x * 3

    fast = lamina.compile(program)
    for number in (2, 3, 4, 5, 3, 6, 2):
        torch.testing.assert_close(fast(X, number), program(X, number))
