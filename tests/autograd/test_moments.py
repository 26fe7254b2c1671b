"""Variances and deviations of f32 over all its range: accumulated in f64, as eager does."""

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
        # Where the input has an infinity, eager's mean here is nan or not by its place.
        moments = torch.var_mean(x, 1, correction=correction), torch.std_mean(x, 1, correction=correction)
        return *spreads, *(moment for pair in moments for moment in (pair[:1] if name == "inf" else pair))

    torch.manual_seed(0)
    x = INPUTS[name]()
    torch.testing.assert_close(lamina.compile(program)(x), program(x), rtol=2e-6, atol=3e-45, equal_nan=True)
