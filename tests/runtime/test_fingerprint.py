"""A fingerprint changes when most of a block does, and reads nothing outside the blocks."""

from __future__ import annotations

import pytest
import torch

from lamina.runtime.devices.cpu.fingerprint import Fingerprint
from lamina.runtime.devices.cpu.own_text import SAMPLES


def of(*tensors: torch.Tensor) -> Fingerprint:
    return Fingerprint([(each.data_ptr(), each.numel() * each.element_size()) for each in tensors])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8])
@pytest.mark.parametrize("size", [4, 7, 31, 1000, 100_003])
def test_writes_to_most_of_a_block_are_seen(dtype: torch.dtype, size: int) -> None:
    one, other = (torch.randint(1, 50, (size,)).to(dtype) for _ in range(2))
    print_ = of(one, other)
    before = print_.look()
    assert print_.look() == before
    other.mul_(2)
    assert print_.look() != before
    other.div_(2, rounding_mode="trunc") if dtype is torch.int8 else other.div_(2)
    assert print_.look() == before


def test_small_and_empty_blocks() -> None:
    assert of(torch.empty(0), torch.zeros(1, dtype=torch.int8)).look() == of().look()
    blocks = torch.zeros(SAMPLES)
    print_ = of(blocks)
    before = print_.look()
    for position in range(SAMPLES):
        blocks[position] = 1
        assert print_.look() != before
        blocks[position] = 0
