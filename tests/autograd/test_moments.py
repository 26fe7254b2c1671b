"""Variances, deviations and their means over all of a type's range: accumulated in f64, as eager does."""

from __future__ import annotations

import math

import pytest
import torch

import lamina

INPUTS = {
    "ordinary": lambda: torch.randn(7, 13),
    "large": lambda: torch.randn(7, 13) * 1e30,
    "small": lambda: torch.randn(7, 13) * 1e-30,
    "denormal": lambda: torch.randn(7, 13) * 1e-42,
    "far from 0": lambda: torch.randn(7, 13) + 1e4,
    "nan": lambda: torch.randn(7, 13).index_fill(1, torch.tensor(4), math.nan),
    "inf": lambda: torch.randn(7, 13).index_fill(1, torch.tensor(4), math.inf),
    "one": lambda: torch.full((1, 1), 1e30),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("name", INPUTS)
def test_are_eagers(name: str, correction: int) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spreads = [x.var(dim, correction=correction, keepdim=dim == 0) for dim in (0, -1, (0, 1))]
        spreads += [x.std(dim, correction=correction, keepdim=dim == 0) for dim in (0, -1, (0, 1))]
        moments = torch.var_mean(x, 1, correction=correction), torch.std_mean(x, 1, correction=correction)
        return *spreads, *moments[0], *moments[1]

    torch.manual_seed(0)
    x = INPUTS[name]()
    torch.testing.assert_close(lamina.compile(program)(x), program(x), rtol=2e-6, atol=3e-45, equal_nan=True)


PLACES = [(0,), (5,), (12,), (0, 5), (5, 12), (0, 12), (*range(13),)]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_mean_with_infinities_depends_on_their_place(dtype: torch.dtype) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_images = torch.var_mean(x.reshape(7, 13, 1, 1).expand(-1, -1, 2, 2), (1, 2, 3))
        one, every = torch.var_mean(x[:, 12:], 1), torch.std_mean(x[2:3])
        return (
            *torch.var_mean(x, 1),
            *torch.std_mean(x.t(), 0),
            *torch.var_mean(x, 0),
            *of_images,
            *one,
            *every,
        )

    x = torch.zeros(7, 13, dtype=dtype)
    for row, places in zip(x, PLACES, strict=True):
        row[list(places)] = math.inf
    torch.testing.assert_close(lamina.compile(program)(x), program(x), equal_nan=True)


def test_squares_that_float32_does_not_hold() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.var(1), x.std(1), *torch.var_mean(x, 0)

    x = torch.stack([torch.randn(13) * 1e30, torch.full((13,), 3e38)]).to(torch.bfloat16)
    torch.testing.assert_close(lamina.compile(program)(x), program(x))
