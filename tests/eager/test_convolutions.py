"""One capture and one program of a convolution serve batches on both sides of what torch's choice of library asks."""

from __future__ import annotations

import pytest
import torch

import lamina

CASES = {
    "2d": (torch.nn.Conv2d(8, 16, 3), (10, 10)),
    "channels last": (torch.nn.Conv2d(8, 16, 3).to(memory_format=torch.channels_last), (10, 10)),
    "groups and strides": (torch.nn.Conv2d(8, 16, 3, stride=2, groups=4), (10, 10)),
    "1d": (torch.nn.Conv1d(8, 16, 3), (20,)),
    "transposed": (torch.nn.ConvTranspose2d(8, 6, 3), (10, 10)),
}


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_all_batches(case, count, threads) -> None:
    torch.set_num_threads(count)
    layer, places = CASES[case]
    layer.requires_grad_(False)

    def program(x):
        return torch.relu(layer(x))

    lamina.reset()
    fast = lamina.compile(program, fullgraph=True, backend=lambda module, inputs: module)
    for size in (3, 5, 15, 16, 17, 40, 2):
        x = torch.randn(size, 8, *places)
        if case == "channels last":
            x = x.to(memory_format=torch.channels_last)
        got, expected = fast(x), program(x)
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
    assert lamina.counters()["graphs"] == 2


def test_one_program() -> None:
    layer = torch.nn.Conv2d(8, 16, 3).requires_grad_(False)
    fast = lamina.compile(lambda x: torch.relu(layer(x)), fullgraph=True)
    compiled = []
    for size in (3, 5, 16, 20):
        fast(torch.randn(size, 8, 10, 10))
        compiled.append(lamina.counters()["kernel_compilations"])
    assert compiled[1] == compiled[3]
