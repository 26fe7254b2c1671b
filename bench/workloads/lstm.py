"""A 2-layer LSTM over 64 steps of 256 features, with a linear read-out of its last state."""

from __future__ import annotations

import torch
from torch import nn

from bench.workloads.workload import Inputs, Size, finish

FEATURES = 256


class Recurrent(nn.Module):
    """Two layers of 512 units; returns (batch, 10) from the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(FEATURES, 512, num_layers=2, batch_first=True)
        self.read_out = nn.Linear(512, 10)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.recurrent(steps)
        result: torch.Tensor = self.read_out(hidden[:, -1])
        return result


def make_lstm() -> nn.Module:
    """The module with random weights."""
    return finish(Recurrent())


def make_steps(size: Size) -> Inputs:
    """Sequences of shape (batch, length, 256)."""
    return Inputs((torch.randn(size.batch, size.length, FEATURES),), {})
