"""Random sequences of sizes over small programs: every result is eager's, few sequences compile often."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import lamina
from tests.capture.size_programs import PROGRAMS, Net

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12)


@torch.no_grad()
def outcome(function, x):
    """The result, and the argument after the call; or the class of the error."""
    x = x.clone(memory_format=torch.preserve_format)
    try:
        return function(x), x
    except Exception as error:
        return type(error).__name__, x


def draw_input(random_source):
    rows, columns = random_source.choice(SIZES), random_source.choice(SIZES)
    if random_source.random() < 0.7:
        return torch.randn(rows, columns)
    return random_source.choice(
        (
            lambda: torch.randn(columns, rows).t(),
            lambda: torch.randn(rows, columns + 3)[:, :columns],
            lambda: torch.randn(rows, 1).expand(rows, columns),
            lambda: torch.randn(rows, columns).double(),
        )
    )()


def check_sequence(program, calls, **settings):
    compiled = lamina.compile(program, **settings)
    for x in calls:
        expected, left = outcome(program, x)
        got, changed = outcome(compiled, x)
        message = f"{tuple(x.shape)} {x.stride()} after {[tuple(each.shape) for each in calls]}"
        assert_equal(got, expected, message)
        assert_equal(changed, left, message)


def assert_equal(got, expected, message):
    """Equal values of equal types, tensors with equal strides."""
    assert type(got) is type(expected), message
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(
            got, expected, equal_nan=True, check_stride=True, msg=lambda text: f"{message}\n{text}"
        )
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected), message
        for one, other in zip(got, expected, strict=True):
            assert_equal(one, other, message)
    elif isinstance(expected, dict):
        assert_equal(list(got), list(expected), message)
        assert_equal(list(got.values()), list(expected.values()), message)
    else:
        assert got == expected or (got != got and expected != expected), message
        assert repr(got) == repr(expected), message


@pytest.mark.parametrize("program", [*PROGRAMS, Net()], ids=lambda each: getattr(each, "__name__", "Net"))
@pytest.mark.parametrize("dynamic", [None, True])
def test_sequences_of_sizes(program, dynamic):
    source = random.Random(f"{getattr(program, '__name__', 'Net')} {dynamic}")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lamina: .* compiled variants")
        check_sequence(
            program,
            [draw_input(source) for _ in range(10)],
            dynamic=dynamic,
            backend=lambda graph, inputs: graph.forward,
        )
