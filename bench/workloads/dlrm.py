"""A recommendation net in the manner of DLRM: dense features, embedding tables, interactions; batch 256.

Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems, 2019, §2.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

from bench.workloads.workload import Inputs, Size, finish

DENSE_FEATURES = 13
TABLES = 8
ROWS = 20_000
WIDTH = 64


def make_layers(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between and after."""
    layers: list[nn.Module] = []
    for inner, outer in itertools.pairwise(widths):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    """Probability of a click from dense features and one category of each table."""

    rows: torch.Tensor
    columns: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.bottom = make_layers(DENSE_FEATURES, 512, 256, WIDTH)
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        vectors = TABLES + 1
        self.top = make_layers(WIDTH + vectors * (vectors - 1) // 2, 512, 256)
        self.score = nn.Linear(256, 1)
        rows, columns = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(dense)
        embedded = [table(categories[:, index]) for index, table in enumerate(self.tables)]
        vectors = torch.stack([bottom, *embedded], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        interactions = products[:, self.rows, self.columns]
        return torch.sigmoid(self.score(self.top(torch.cat([bottom, interactions], dim=1))))


def make_dlrm() -> nn.Module:
    """Eight tables of 20,000 x 64; returns (batch, 1) probabilities."""
    return finish(Recommender())


def make_features(size: Size) -> Inputs:
    """Dense features (batch, 13) and categories (batch, 8)."""
    return Inputs((torch.randn(size.batch, DENSE_FEATURES), torch.randint(0, ROWS, (size.batch, TABLES))), {})
