"""Lazy modules: the first call is eager's and makes the parameters, the second is captured whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lamina

MODULES = {
    "linear": lambda: nn.LazyLinear(3),
    "within others": lambda: nn.Sequential(
        nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)
    ),
    "transposed": lambda: nn.Sequential(nn.LazyConvTranspose1d(3, 2), nn.LazyInstanceNorm1d()),
}
SIZES = {"linear": (2, 4), "within others": (2, 4, 5, 5), "transposed": (2, 4, 5)}


@pytest.mark.parametrize("name", MODULES)
def test_whole_from_the_second_call_on(name):
    theirs, ours, x = MODULES[name](), MODULES[name](), torch.randn(SIZES[name])
    lamina.reset()
    fast = lamina.compile(ours, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            torch.manual_seed(0)
            expected = theirs(x)
            torch.manual_seed(0)
            torch.testing.assert_close(fast(x), expected)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    counters = lamina.counters()
    assert (counters["graphs"], counters["breaks"]) == (1, 0)


def test_a_lazy_module_that_is_only_looked_at():
    module = nn.LazyLinear(3)
    fast = lamina.compile(lambda x: x + len(list(module.parameters())))
    torch.testing.assert_close(fast(torch.ones(2)), torch.ones(2) + 2)
