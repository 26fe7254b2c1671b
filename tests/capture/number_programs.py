"""Small programs whose meaning depends on a Python number `k` (int, float or bool); `x` is a matrix."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F


def scale(x, k):
    return x * k, k * x, x / k, k - x


def scale_integers(x, k):
    y = torch.arange(4)
    return y * k, y + k, y / 2 * k, y // k, y % k


def arithmetic(x, k):
    return x * (k * 2 + 1), k**2, k // 2, k % 3, -k, abs(k), k / 2, divmod(k, 2)


def convert(x, k):
    return int(k), float(k), round(k), math.floor(k), math.ceil(k), bool(k), str(k), hash(k), x + int(k)


def roots(x, k):
    return x * math.sqrt(abs(k)), math.exp(-abs(k)), math.log(abs(k) + 1), math.isclose(k, 3)


def branch(x, k):
    if k > 3:
        return x + k
    if k == 3 or k < 0:
        return x - k
    return x * 2 if k else x


def chained(x, k):
    return x + k if 2 < k * 1.5 <= 9 else x


def extremes(x, k):
    return min(k, 4), max(k, 4, 2), x.clamp(max=k), min([k, 3.5]), x * max(k, 1)


def sizes(x, k):
    return torch.zeros(int(k) + 2).sum() + k, x.repeat(2, 1)[: int(k)], x.new_full((2,), k)


def sequences(x, k):
    return [k] * 2, [1, 2, 3, 4][: int(k)], (k, x * k), {"k": k}, {k: 1}, list(range(int(k)))


def text(x, k):
    return f"{k:>6} {k!r}", "%s" % k, x


def kinds(x, k):
    return type(k), isinstance(k, int), isinstance(k, (float, bool)), x * 2


def loop(x, k):
    while 1 < k < 20:
        x = x + k
        k = k - 1
    return x


def power(x, k):
    return x.abs() ** k, 2**k, torch.pow(x.abs(), k)


def drop(x, k):
    return F.leaky_relu(x, k), F.threshold(x, 0.1, k), F.hardtanh(x, -abs(k) - 1, abs(k) + 1)


def index(x, k):
    return x[int(k) % 3], x.roll(int(k), 0), x.select(0, int(k) % 2)


def linear(x, k):
    return torch.add(x, x, alpha=k), torch.lerp(x, x + 1, k), x.add(k).mul(k), torch.where(x > 0, x, k)


def in_place(x, k):
    y = x.clone()
    y *= k
    y.add_(k)
    y[0] = k
    return y.fill_diagonal_(k)


def comparisons(x, k):
    return x > k, x == k, k in (1, 2, 3), k in {2: 0}, k is None, not k, k == "a"


def from_list(x, k):
    values = [k, 1]
    values.append(k + 1)
    return x * values[0] + sum(values), len(values), sorted([k, 2])


def of_tensors(x, k):
    return (
        torch.tensor(k),
        torch.tensor([k, 1]),
        torch.full((2,), k),
        torch.linspace(0, k, 3),
        torch.arange(k),
    )


PROGRAMS = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not isinstance(value, type)
]
