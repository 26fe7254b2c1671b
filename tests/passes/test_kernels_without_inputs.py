"""Kernels that read no buffer: reductions of what index arithmetic gives, casts that end unused."""

from __future__ import annotations

import pytest
import torch

import lamina


def argmax_of_a_constant():
    return torch.zeros([2, 2]).argmax(0).float().mean()


def sum_of_indices():
    return torch.arange(64).reshape(8, 8).sum(0), torch.arange(12).float().prod()


def index_arithmetic(x):
    return x + (torch.arange(16) // 4).remainder(3)[:, None].sum(1), torch.arange(-8, 8).abs().max()


def padded_cast(x):
    return torch.nn.functional.pad(x.to(torch.float32), (0, 3, 0, 0))


@pytest.mark.filterwarnings("error:lamina")
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (argmax_of_a_constant, ()),
        (sum_of_indices, ()),
        (index_arithmetic, (torch.arange(16.0),)),
        (padded_cast, (torch.ones(1, 1, 13, dtype=torch.half),)),
        (padded_cast, (torch.ones(1, 1, 13, dtype=torch.bfloat16),)),
    ],
)
def test_compiles_without_an_input(program, arguments) -> None:
    expected = program(*arguments)
    actual = lamina.compile(program, fullgraph=True)(*arguments)
    torch.testing.assert_close(actual, expected)
