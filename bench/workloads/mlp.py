"""A multi-layer perceptron on rows of 784, batch 64, and a tiny one whose time is all call overhead."""

from __future__ import annotations

import torch
from torch import nn

from bench.workloads.workload import Inputs, Size, finish


def make_mlp() -> nn.Module:
    """784 -> 2048 -> 2048 -> 10 with ReLU."""
    layers = [nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)]
    return finish(nn.Sequential(*layers))


def make_tiny_mlp() -> nn.Module:
    """16 -> 32 -> 8 with ReLU."""
    return finish(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)))


def make_rows(size: Size) -> Inputs:
    """Rows of shape (batch, length)."""
    return Inputs((torch.randn(size.batch, size.length),), {})
