"""Sizes and numbers that depend on values stay in one graph; results, errors and writes are eager's."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils import _pytree as pytree

import lamina
from tests.capture import unbacked_programs
from tests.capture.test_breaks import call_broken

SEEDS = range(16)
BROKEN = {"places_are_contiguous", "branch_on_size", "branch_on_number", "loop_to", "padded"}
"""Programs that need a number in Python."""


def observe(function, seed):
    """What a call gives or raises, and its arguments afterwards."""
    x, m, n = unbacked_programs.make_inputs(seed)
    torch.manual_seed(seed)
    try:
        result = function(x, m, n)
    except Exception as error:
        result = (type(error), str(error))
    return result, (x, m, n), torch.rand(2)


def differ(got, expected):
    """Where two observations differ: structure, numbers, sizes, strides; values but for rounding."""
    leaves, structure = pytree.tree_flatten(got)
    others, other_structure = pytree.tree_flatten(expected)
    if structure != other_structure or [type(each) for each in leaves] != [type(each) for each in others]:
        return f"{structure} against {other_structure}"
    for left, right in zip(leaves, others, strict=True):
        if isinstance(left, torch.Tensor):
            if left.stride() != right.stride() and left.numel() > 1:
                return f"strides {left.stride()} against {right.stride()}"
            torch.testing.assert_close(left, right, equal_nan=True)
        elif left != right and not (isinstance(left, float) and abs(left - right) <= 1e-5 * abs(right)):
            return f"{left!r} against {right!r}"
    return ""


def names(program):
    return program.__name__


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("program", unbacked_programs.PROGRAMS, ids=names)
def test_one_graph_and_eagers_results(program):
    lamina.reset()
    is_whole = program.__name__ not in BROKEN
    fast = lamina.compile(program, fullgraph=is_whole)
    for seed in SEEDS:
        expected, got = observe(program, seed), observe(fast, seed)
        assert not differ(got, expected), (seed, got, expected)
    assert not is_whole or lamina.counters()["graphs"] == 1


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("program", unbacked_programs.PROGRAMS, ids=names)
def test_broken_everywhere(program):
    for every, seeds in ((0, (1,)), (2, (4, 6))):
        for seed in seeds:
            expected = observe(program, seed)
            got = observe(lambda *args, every=every: call_broken(program, args, every)[0], seed)
            assert not differ(got, expected), (every, seed)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    text = unbacked_programs.random_program(seed)
    program = unbacked_programs.load(text)
    fast = lamina.compile(program)
    for data in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, got = observe(program, data), observe(fast, data)
        assert not differ(got, expected), f"{text}\ndata {data}: {got} is not {expected}"


def test_an_index_out_of_range_finds_the_inputs_as_they_were():
    def program(x, y, n):
        x.add_(1)
        return y[1, n.item()] * 2

    fast = lamina.compile(program)
    for number in (0, 2, 9, 1):
        x, y, n = torch.zeros(3), torch.randn(2, 4), torch.tensor(number)
        if number < 4:
            torch.testing.assert_close(fast(x, y, n), y[1, number] * 2)
        else:
            with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 1 with size 4"):
                fast(x, y, n)
        assert torch.equal(x, torch.ones(3))
