"""Random strides in short: those of results are eager's."""

from __future__ import annotations

import pytest
import torch

import lamina
from tests.fuzz.strides import OF_IMAGES, OPERATIONS, describe, run_case


@pytest.mark.parametrize("first", range(30000, 30012, 3))
def test_strides_are_eagers(first):
    found = [run_case(seed) for seed in range(first, first + 3)]
    assert not any(found), "\n".join(filter(None, found))


CASES = {
    "a number is an operand": ("add a number", (4, 1, 6), (6, 1, 1)),
    "a number is an operand, in another order": ("add a number", (4, 1, 3), (1, 6, 4)),
    "the losses' memory": ("losses", (3, 1, 3), (12, 1, 2)),
    "a norm over a single element": ("moments", (3, 1, 1), (2, 2, 5)),
    "empty sums": ("sum", (0, 0, 2), (2, 2, 1)),
    "empty extremes": ("extremes", (1, 0, 1), (1, 2, 6)),
    "softmax": ("softmax", (3, 1, 1, 2), (2, 1, 5, 1)),
    "one group of channels is a copy": ("shuffles", (4, 1, 3, 1), (3, 12, 1, 100)),
    "image norms": ("image norms", (3, 2, 1, 1), (2, 1, 2, 100)),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", CASES)
def test_strides_of_sizes_of_one_and_none(name):
    kind, size, stride = CASES[name]
    program = (OPERATIONS | OF_IMAGES)[kind]
    x = torch.rand(200).as_strided(size, stride)
    expected = describe(program(x, x), x)
    assert describe(lamina.compile(program)(x, x), x) == expected
