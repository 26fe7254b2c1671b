"""Programs whose sizes and numbers depend on values: written ones, and random ones from a seed.

Each takes x: (6, 3) f32, m: (6,) bool, n: () i64.
"""

from __future__ import annotations

import math
import random

import torch
import torch.nn.functional as F


def sum_of_places(x, m, n):
    return torch.nonzero(x > 0).sum()


def places(x, m, n):
    found = torch.nonzero(x > 0)
    return found, found.stride(), found.reshape(-1)


def places_are_contiguous(x, m, n):
    return torch.nonzero(x > 0).is_contiguous()


def pick_where(x, m, n):
    rows, columns = torch.where(x > 0)
    return x[rows, columns] * 2, rows.stride()


def masked(x, m, n):
    return x[m] * 2


def masked_sizes(x, m, n):
    y = x[m]
    return y.reshape(-1), y.shape[0], y.shape[0] * 2 + 1, len(y), y.numel(), y.shape, y.dim()


def masked_columns(x, m, n):
    return x.t()[:, m] + 1, x.t()[:, m].stride()


def zeros_of(x, m, n):
    return torch.zeros(n.item()) + 1


def first_rows(x, m, n):
    return x[: n.item()] * 2


def range_to(x, m, n):
    count = int(n)
    return torch.arange(count) * 2, torch.arange(2 * count + 1, dtype=torch.float32).exp()


def one_row(x, m, n):
    return x[n.item()] + 1


def in_a_tuple(x, m, n):
    k = n.item()
    return x[k, 1] * 2, x[None, k], x[1:, k] + 1, x[..., k], x[k, k], x[:, k].stride()


def rows_and_column(x, m, n):
    k = n.item()
    return x[:k, k] + 1, x[m, 1]


def set_in_a_tuple(x, m, n):
    y = x * 1
    y[n.item(), 1] = 3.0
    y[:, n.item()] += x[:, 0]
    y[1, n.item()] *= y[n.item(), 2]
    return y


def classes(x, m, n):
    index = (x * 10).long().abs() % 5
    return F.one_hot(index), F.one_hot(index[0]).float() @ x.new_ones(index[0].max().item() + 1, 2)


def negative_classes(x, m, n):
    return F.one_hot((x[:, 0] * 3).long()) + 1


def as_operand(x, m, n):
    return x * n.item() + x[0, 0].item(), x.half() * n.item(), n * x[0, 1].item(), x.int() // (n.item() + 9)


def mean_of_masked(x, m, n):
    return x[m].sum(0) / m.sum().item()


def checked_narrow(x, m, n):
    count = n.item()
    torch._check(count >= 0)
    torch._check(count <= x.shape[0], lambda: f"{count} rows are too many")
    return x.narrow(0, 0, count).sum()


def checked_size(x, m, n):
    count = n.item()
    torch._check_is_size(count)
    return torch.ones(count, 2)


def two_masks(x, m, n):
    return x[m] + x[~m][:1]


def same_length(x, m, n):
    return x[m] + x[m.clone()]


def unique_values(x, m, n):
    return torch.unique((x * 2).round(), return_counts=True)


def repeated(x, m, n):
    return torch.repeat_interleave(x, torch.arange(6) % (n + 1), dim=0).relu()


def split_by_list(x, m, n):
    first, second = torch.stack([n, 6 - n]).tolist()
    return x.split([first, second])


def numbers_returned(x, m, n):
    return n.item(), x[0, 0].item(), m[0].item(), n.item() + 1, -n.item(), x + 1


def float_arithmetic(x, m, n):
    value = float(x[0, 0])
    return x * (value + 1), max(value, 0.0), math.sqrt(abs(value)), int(value), value / 3


def division_in_try(x, m, n):
    try:
        ratio = 12 // n.item()
    except ZeroDivisionError:
        ratio = -1
    return x * ratio


def index_in_try(x, m, n):
    try:
        row = x[n.item()]
    except IndexError:
        row = x[0] - 100
    return row * 2


def masked_write(x, m, n):
    x = x.clone()
    x[m] = 0
    return x[m].sum() + x.sum()


def read_between_writes(x, m, n):
    x.add_(1)
    first = x[0, 0].item()
    x.mul_(2)
    second = x[0, 0].item()
    return x * first, first, second


def write_then_select(x, m, n):
    y = x * 2
    z = y[y > 1]
    y.sub_(1)
    return z, y, y[y > 1], torch.nonzero(y > 1)


def softmax_of_masked(x, m, n):
    return torch.softmax(x[m].t(), -1), F.layer_norm(x[m], (3,))


def linear_of_masked(x, m, n):
    return F.linear(x[m], x[:, :3]).relu().mean(0)


def squeezed(x, m, n):
    y = x[m].squeeze(0)
    return y + 1, y.dim()


def concatenated(x, m, n):
    return torch.cat([x[m], x, x[~m]]), torch.cat([x[m], x[:1]]).sum(0)


def branch_on_size(x, m, n):
    y = x[m]
    if y.shape[0] > 2:
        return y.sum(0)
    return y * 3


def branch_on_number(x, m, n):
    y = x + 1
    count = n.item()
    if count > 2:
        y = y * 2
    return y[:count]


def loop_to(x, m, n):
    for _ in range(n.item()):
        x = x + 1
    return x


def drawn(x, m, n):
    y = torch.rand(4, 3)
    z = F.dropout(x[m], 0.5, True)
    return y + 1, z, torch.rand(3) * x[m][:1]


def selected(x, m, n):
    return torch.masked_select(x, x > 0).exp(), x[x > 0].sort().values


def in_no_grad(x, m, n):
    with torch.no_grad():
        y = x[m] + 1
    with torch.inference_mode(False):
        return y[: n.item()] * 2


def condition_as_number(x, m, n):
    count = n.item()
    return (count > 2) + 1, (count == 3) & (count < 5), x + (count > 1)


def tail(x, m, n):
    count = n.item()
    return x[count:] * 2, x[:-1][count - 1 :], x.expand(2, 6, 3)[:, :count]


def view_by_size(x, m, n):
    y = x[m]
    return y.view(y.shape[0], 1, 3) + y.new_zeros(y.shape[0], 2, 3), y.expand(y.shape)


def padded(x, m, n):
    y = x[m]
    return F.pad(y, (0, 0, 0, 6 - y.shape[0])), F.one_hot(n)


PROGRAMS = [
    value for name, value in list(globals().items()) if callable(value) and value.__module__ == __name__
]


def make_inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, m, n; some seeds have an empty or a full mask, a number that is too large or negative."""
    random_state = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 3, generator=generator)
    share = random_state.choice([0.0, 0.2, 0.5, 0.5, 1.0])
    m = torch.rand(6, generator=generator) < share
    return x, m, torch.tensor(random_state.choice([0, 1, 2, 2, 3, 3, 5, 6, 7, -1]))


STEPS = (
    "y = y[{mask}]",
    "y = y * 2 + {number}",
    "y = torch.cat([y, x[m]])",
    "y = y[: {number}]",
    "y = y[{number} :]",
    "k = {number}",
    "k = y.shape[0]",
    "k = k * 2 - 1",
    "r.append(k)",
    "r.append(y.sum(0))",
    "y = y.relu().clone()",
    "r.append(torch.zeros(abs(k), 2) + 1)",
    "r.append(torch.arange(y.shape[0]) * y.shape[0])",
    "y = torch.repeat_interleave(y, torch.arange(y.shape[0]) % 3, dim=0)",
    "y.add_(1)",
    "r.append(torch.nonzero(y > 0.5))",
    "y = y + y[:1]",
    "y = y + x[m][: y.shape[0]]",
    "y = torch.softmax(y, 0)",
    "r.append(torch.where(y > 0)[0])",
    "if y.shape[0] > 3: y = y - 1",
    "if k > 2: y = y + k",
    "y = y.t().contiguous().t()",
    "r.append((y.reshape(-1), y.is_contiguous()))",
    "y = y @ x[:3]",
    "torch._check(y.shape[0] < 40)",
    "y = y[y.sum(1).argsort()] if y.dim() == 2 else y",
    "k = min(k, y.shape[0])",
    "r.append(y[k - 1] if k > 0 else None)",
    "x.mul_(1.5)",
    "y = torch.masked_select(y, y > -1).reshape(-1, 1).expand(-1, 3)",
    "r.append(torch.unique(y.round()))",
    "y, z = y.chunk(2) if y.dim() > 5 else (y, y); r.append(z.shape)",
)
MASKS = ("y.sum(1) > 0", "y[:, 0] > -1", "torch.ones(y.shape[0], dtype=torch.bool)", "y[:, 1] > 50")
NUMBERS = ("n.item()", "k", "int(n)", "int(y[0, 0])", "y.shape[0] - 2", "2", "m.sum().item()", "k // 2")


def random_program(seed: int, length: int = 8) -> str:
    """The text of `program(x, m, n)`, which returns a list of results."""
    state = random.Random(seed)
    lines = ["def program(x, m, n):", "    y, k, r = x, n.item(), []"]
    for _ in range(length):
        step = state.choice(STEPS)
        lines.append("    " + step.format(mask=state.choice(MASKS), number=state.choice(NUMBERS)))
    return "\n".join([*lines, "    return r, y, k", ""])


def load(text: str):
    entries = {"torch": torch, "F": F}
    exec(compile(text, "<random program>", "exec"), entries)
    return entries["program"]
