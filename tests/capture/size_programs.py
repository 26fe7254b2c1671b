"""Small programs whose meaning depends on sizes, in every way that one meets; each takes tensors (rows, columns)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


def first_half(x):
    return x[: x.shape[0] // 2] * 2


def both_halves(x):
    n = x.size(1) // 2
    return torch.cat([x[:, n:], x[:, :n]], dim=1)


def flatten_all(x):
    return x.reshape(-1), x.view(x.size(0), -1), x.numel()


def positions(x):
    return x + torch.arange(x.shape[0]).unsqueeze(1)


def branch_on_rows(x):
    if x.shape[0] > 4:
        return x * 2
    if x.shape[0] == 3:
        return x - 1
    return x + 1


def loop_over_columns(x):
    total = x.new_zeros(x.shape[0])
    for i in range(x.shape[1]):
        total = total + x[:, i] * i
    return total


def pad_to_multiple(x):
    missing = -x.shape[0] % 4
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def expand_rows(x):
    return x[:1].expand(x.shape[0], -1) + x, x.unsqueeze(0).expand(2, *x.shape).sum(0)


def causal_attention(x):
    n, d = x.shape
    scores = x @ x.t() / math.sqrt(d)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ x


def mean_by_hand(x):
    return x.sum(0) / x.shape[0], x.sum() / len(x), x.sum() / x.numel()


def sizes_as_result(x):
    return x * 2, x.shape, x.size(0) * 2 + 1, list(x.shape), {"n": x.shape[1]}


def split_in_two(x):
    n = x.shape[0]
    a, b = x.split([n // 2, n - n // 2])
    return a.sum(0) - b.sum(0), x.chunk(2)[0]


def smallest_square(x):
    n = min(x.shape)
    return x[:n, :n] @ x[:n, :n]


def largest_side(x):
    return x.new_ones(max(x.shape[0], x.shape[1], 3)).cumsum(0)


def round_up(x):
    n = math.ceil(x.shape[0] / 2)
    m = int(x.shape[1] * 0.5)
    return x[:n, :m], n, m


def name_of_size(x):
    return x + 1, f"{x.shape[0]} rows"


def lookup_by_size(x):
    table = {2: 10.0, 3: 20.0, 4: 30.0}
    return x * table.get(x.shape[0], 1.0)


def pick_from_list(x):
    return x * [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5][x.shape[0] % 8]


def repeat_rows(x):
    return x.repeat(2, 1), torch.stack([x, x]).flatten(0, 1)


def transposed(x):
    y = x.t().contiguous()
    return y, y.view(-1)[: x.shape[0]], y.stride()


def write_last_row(x):
    y = x.clone()
    y[-1] = x.shape[0]
    y[:, x.shape[1] - 1] += 1
    return y


def change_input(x):
    x[: x.shape[0] // 2].mul_(2)
    return x.sum()


def upsample(x):
    return F.interpolate(x[None, None], scale_factor=2, mode="nearest")[0, 0]


def window_sums(x):
    return x.unfold(0, 2, 1).sum(-1) if x.shape[0] >= 2 else x


def is_square(x):
    return (x @ x) if x.shape[0] == x.shape[1] else x.sum()


def normalised(x):
    return F.layer_norm(x, x.shape[1:]), F.layer_norm(x, (x.size(-1),))


def loss(x):
    return F.cross_entropy(x, torch.arange(x.shape[0]) % x.shape[1])


def tuple_arithmetic(x):
    shape = (2, *x.shape[:-1]) + x.shape[-1:]
    return x.expand(shape).reshape(shape[0] * shape[1], -1), shape


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(1, 3)

    def forward(self, x):
        y = self.inner(x.unsqueeze(-1))
        return y.permute(2, 0, 1).reshape(3 * x.shape[0], x.shape[1]).softmax(-1)


PROGRAMS = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not isinstance(value, type)
]
