"""Small programs, most of them bound by memory: what a fusing compiler gains when no library product decides.

Each takes its weights as arguments, so that a call moves everything that its name says.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from bench.workloads.workload import Inputs, Size, finish

Tensor = torch.Tensor
CHAIN_LENGTH = 16 * 1024 * 1024


def layer_norm(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over the last dimension of 4096 x 1024."""
    return F.layer_norm(rows, (rows.shape[-1],), weight, bias)


def softmax(scores: Tensor) -> Tensor:
    """Over the last dimension of 12 x 1024 x 1024."""
    return torch.softmax(scores, dim=-1)


def rms_norm(rows: Tensor, weight: Tensor) -> Tensor:
    """Written out as in Llama, 2048 x 4096."""
    variance = rows.pow(2).mean(dim=-1, keepdim=True)
    return rows * torch.rsqrt(variance + 1e-6) * weight


def arithmetic_chain(x: Tensor, y: Tensor) -> Tensor:
    """Eight cheap elementwise ops on 16M floats."""
    z = x * 1.5 + y
    z = torch.relu(z - 0.25) * x
    z = torch.maximum(z, y) * 0.5
    return z - y


def transcendental_chain(x: Tensor, y: Tensor) -> Tensor:
    """Eight elementwise ops on 16M floats, half of them special functions."""
    z = torch.sigmoid(x) * y
    z = torch.tanh(z + x) * 0.5
    z = torch.exp(-z)
    return torch.sin(z)


def broadcast_chain(matrix: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Eight elementwise ops on a 4096 x 4096 matrix with a row and a column."""
    z = (matrix + row) * column
    z = torch.where(z > 0, z, z * 0.1)
    z = z.abs() + row
    return z / (column * column + 1.0)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean loss over 512 rows of 32000 logits."""
    return F.cross_entropy(logits, targets)


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Written out, 12 heads of 1024 x 64: scores, mask, softmax, product."""
    length, width = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / math.sqrt(width)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ value


def swiglu_gate(gate: Tensor, up: Tensor) -> Tensor:
    """The product between Llama's two projections, 2048 x 5632."""
    return F.silu(gate) * up


def gelu(x: Tensor) -> Tensor:
    """The exact one, with erf, on 8M floats."""
    return F.gelu(x)


class AddNorm(nn.Module):
    """Bias, dropout (idle in eval mode), residual, LayerNorm: the end of each half of a BERT layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(width)

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        result: Tensor = self.norm(self.dropout(hidden + self.bias) + residual)
        return result


def make_add_norm() -> nn.Module:
    """For rows of 1024."""
    return finish(AddNorm(1024))


def make_norm_linear_gelu() -> nn.Module:
    """LayerNorm -> Linear -> GELU on 512 rows of 2048: every activation has 4 MB, the weights 16 MB.

    Op by op 40 MB move: 4 in and 4 out three times, and the weights; 24 MB is the least: in, weights, out.
    """
    return finish(nn.Sequential(nn.LayerNorm(2048), nn.Linear(2048, 2048), nn.GELU()))


def add_one(x: Tensor) -> Tensor:
    """8 floats: the time is the call's overhead."""
    return x + 1


def rows_and_weights(count: int, width: int) -> Callable[[Size], Inputs]:
    """Inputs maker: (length, width) rows with `count` vectors of that width."""

    def make(size: Size) -> Inputs:
        vectors = [1 + 0.1 * torch.randn(width) for _ in range(count)]
        return Inputs((torch.randn(size.length, width), *vectors), {})

    return make


def same_shape(count: int, *trailing: int) -> Callable[[Size], Inputs]:
    """Inputs maker: `count` tensors of shape (length, *trailing)."""
    return lambda size: Inputs(tuple(torch.randn(size.length, *trailing) for _ in range(count)), {})


def make_scores(size: Size) -> Inputs:
    """Attention scores, (12 * batch, length, length)."""
    return Inputs((torch.randn(12 * size.batch, size.length, size.length),), {})


def make_heads(size: Size) -> Inputs:
    """Query, key and value, each (12 * batch, length, 64)."""
    return Inputs(tuple(torch.randn(12 * size.batch, size.length, 64) for _ in range(3)), {})


def make_logits(size: Size) -> Inputs:
    """Logits (batch, length) and targets (batch,)."""
    return Inputs((torch.randn(*size), torch.randint(0, size.length, (size.batch,))), {})


def make_matrix(size: Size) -> Inputs:
    """A square matrix, a row and a column."""
    side = size.length
    return Inputs((torch.randn(side, side), torch.randn(side), torch.randn(side, 1)), {})
