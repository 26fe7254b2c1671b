"""Prepared values are made once a version of the weights, also where they depend on no weight at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from lamina.driver.prepared import Prepared


@pytest.mark.parametrize("arguments", [(), (1,)])
def test_prepared_once_a_version(arguments: tuple[int, ...]) -> None:
    calls: list[int] = []

    def prepare(weights: Sequence[Any]) -> list[Any]:
        calls.append(len(weights))
        return [sum(weights, torch.ones(3)) * 2]

    run = Prepared(lambda inputs: [inputs[0] + inputs[2]], prepare, arguments)
    x, weight = torch.randn(3), torch.randn(3)

    def expected() -> torch.Tensor:
        return x + (torch.ones(3) + (weight if arguments else 0)) * 2

    for _ in range(3):
        assert torch.equal(run([x, weight])[0], expected())
    assert calls == [len(arguments)]
    weight.mul_(3)
    assert torch.equal(run([x, weight])[0], expected())
    assert len(calls) == 1 + len(arguments)
