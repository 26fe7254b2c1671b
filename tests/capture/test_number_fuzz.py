"""Random sequences of Python numbers over small programs: every result is eager's, in type as well as value."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import lamina
from tests.capture.number_programs import PROGRAMS
from tests.capture.test_size_fuzz import assert_equal

NUMBERS = (0, 1, 2, 3, 4, 5, 7, 10, -1, -2, -7, True, False, 0.0, -0.0, 1.0, 2.0, 2.5, 0.1, -3.5, float("inf"), float("nan"))  # fmt: skip
HUGE = (1e30, 2**40, 2**70, -(2**63))
WITH_HUGE = ("scale", "arithmetic", "branch", "comparisons")
"""Programs that do not count up to their number."""


@torch.no_grad()
def outcome(function, x, k):
    try:
        return function(x, k)
    except Exception as error:
        return type(error).__name__


def check_sequence(program, numbers, **settings):
    compiled = lamina.compile(program, **settings)
    x = torch.randn(3, 3)
    for k in numbers:
        expected, got = outcome(program, x, k), outcome(compiled, x, k)
        assert_equal(got, expected, f"{program.__name__}: {k!r} after {numbers!r}")


def draw_numbers(source, program):
    known = NUMBERS + HUGE if program.__name__ in WITH_HUGE else NUMBERS
    plain = source.random() < 0.5
    return [source.choice(NUMBERS[2:8] if plain else known) for _ in range(8)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_sequences_of_numbers(program, dynamic):
    source = random.Random(f"{program.__name__} {dynamic}")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lamina: .* compiled variants")
        for _ in range(3):
            numbers = draw_numbers(source, program)
            check_sequence(program, numbers, dynamic=dynamic, backend=lambda graph, inputs: graph.forward)
