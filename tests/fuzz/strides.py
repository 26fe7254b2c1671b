"""Random strides of what operations take: the strides of what they give are eager's.

    python tests/fuzz/strides.py --first 0 --count 2000 [--only softmax]

A case calls some compiled operations on two tensors: their dimensions lie in any order, with gaps, sizes of 0 and 1
and, for those, strides that no element's place depends on. Of each result size, strides, offset and whether
it is contiguous are compared; and whether writing to it would write to an argument.
"""

from __future__ import annotations

import pathlib
import random
import sys
import warnings

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import lamina  # noqa: E402
from tests.fuzz.seeded_cases import run_cases  # noqa: E402
from tests.parity.compare import flatten  # noqa: E402

LAST = torch.channels_last
OPERATIONS = {
    "add a number": lambda x, y: (x + 1, 2 - x, x / 3, x**2, x > 0),
    "add": lambda x, y: (x + y, y * x, torch.lerp(x, y, 0.5), torch.addcmul(x, y, y), torch.maximum(x, y)),
    "where": lambda x, y: (torch.where(x > 0, x, y), torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 1.0)),
    "unary": lambda x, y: (-x, torch.relu(x), F.gelu(x), x.clamp(0, 1), x.isnan(), torch.nan_to_num(x)),
    "sum": lambda x, y: (x.sum(0), x.sum(-1), x.sum(0, keepdim=True), x.mean((0, -1), keepdim=True)),
    "extremes": lambda x, y: (x.amax(0, keepdim=True), x.max(-1), x.argmax(0), x.min(0, keepdim=True)),
    "moments": lambda x, y: (x.var(0, keepdim=True), torch.std_mean(x, -1, keepdim=True), x.norm(dim=-1)),
    "softmax": lambda x, y: (x.softmax(-1), x.softmax(0), x.log_softmax(0), x.logsumexp(-1)),
    "concatenation": lambda x, y: (torch.cat([x, x]), torch.cat([x, x], -1), torch.stack([x, x], -1)),
    "scans": lambda x, y: (x.cumsum(0), x.cummax(-1), x.sort(-1), x.diff()),
    "copies": lambda x, y: (x.contiguous(), x.clone(), x.clone(memory_format=torch.contiguous_format)),
    "types": lambda x, y: (x.double(), x.int(), x.half(), x.to(torch.float32)),
    "transposed": lambda x, y: (x.transpose(0, -1), x.transpose(0, -1) + 1, x.movedim(0, -1) * 1, x.mT * 2),
    "squeezed": lambda x, y: (x.unsqueeze(-1) * 2, x.squeeze() + 1, x.unsqueeze(0), x.squeeze()),
    "reshaped": lambda x, y: (
        x.reshape(-1),
        (x + 1).reshape(*x.shape, 1),
        (x + 1).flatten(0, 1),
        x.flatten(),
    ),
    "sliced": lambda x, y: (
        x[:1],
        x[..., :1] + 1,
        x[:0] + 1,
        x.split(1),
        [each + 1 for each in x.unbind()][:2],
    ),
    "expanded": lambda x, y: (x.expand(2, *x.shape), x.expand(2, *x.shape) + 1, x.repeat([1] * x.dim())),
    "moved": lambda x, y: (x.flip(0), x.roll(1, 0), x.tril(), F.pad(x, (1, 1)), x.repeat_interleave(2, 0)),
    "new": lambda x, y: (torch.zeros_like(x), x.new_zeros(x.shape), x.clone().add_(1)),
    "linear": lambda x, y: (
        F.linear(x, torch.ones(3, x.shape[-1])),
        x @ x.mT,
        x.unsqueeze(-1) * x.unsqueeze(-2),
    ),
    "norms": lambda x, y: (
        F.layer_norm(x, x.shape[-1:]),
        F.rms_norm(x, x.shape[-1:]),
        F.normalize(x, dim=-1),
    ),
    "losses": lambda x, y: tuple(loss(x, y, reduction="none") for loss in LOSSES),
}
OF_IMAGES = {
    "formats": lambda x, y: (
        x.to(memory_format=LAST),
        x.to(memory_format=LAST) + 1,
        x.contiguous(memory_format=LAST),
    ),
    "convolution": lambda x, y: (F.conv2d(x, torch.ones(2, x.shape[1], 1, 1)), x.permute(0, 2, 3, 1) + 1),
    "pools": lambda x, y: (
        F.avg_pool2d(x, 1),
        F.max_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, 1),
        x.mean((2, 3)),
    ),
    "resized": lambda x, y: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(1, 1))),
    "image norms": lambda x, y: (F.group_norm(x, 1), F.batch_norm(x, *(torch.ones(x.shape[1]),) * 2)),
    "shuffles": lambda x, y: (F.pixel_shuffle(x, 1), F.pixel_unshuffle(x, 1), F.channel_shuffle(x, 1)),
    "channels": lambda x, y: (
        F.pad(x, (1, 1, 1, 1)),
        torch.cat([x, y], 1),
        F.prelu(x, torch.ones(x.shape[1])),
    ),
}
LOSSES = (F.mse_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits)


def make_tensor(choose, rank):
    """A tensor whose dimensions lie in any order of memory."""
    sizes = (1, 1, 2, 3, 4, 0) if choose.random() < 0.1 else (1, 1, 2, 3, 4)
    size = [choose.choice(sizes) for _ in range(rank)]
    order = list(range(rank))
    if choose.random() < 0.6:
        choose.shuffle(order)
    stride, step = [0] * rank, 1
    for dim in reversed(order):
        stride[dim] = step
        step *= max(size[dim], 1) * (2 if choose.random() < 0.15 else 1)
    for dim in range(rank):
        if size[dim] == 1 and choose.random() < 0.5:
            stride[dim] = choose.choice((0, 1, 2, 5, 6, 100, step))
        elif choose.random() < 0.05:
            stride[dim] = 0
    offset = choose.choice((0, 0, 0, 3))
    return torch.rand(offset + step + 1).as_strided(size, stride, offset)


def make_second(choose, x):
    """A tensor that goes with `x`: like it, of another order, or with sizes of 1."""
    kind = choose.random()
    if kind < 0.4:
        return x.clone()
    if kind < 0.8:
        order = list(range(x.dim()))
        choose.shuffle(order)
        return torch.rand([x.shape[dim] for dim in order]).permute(
            [order.index(dim) for dim in range(x.dim())]
        )
    return torch.rand([1 if choose.random() < 0.3 else size for size in x.shape])


def describe(results, x):
    """(sizes, strides, is contiguous, offset, is in x's memory) of each tensor; an empty one has no memory."""
    home = x.untyped_storage().data_ptr()
    return [
        (
            *(tuple(each.shape), each.stride(), each.is_contiguous()),
            *((each.storage_offset(), each.untyped_storage().data_ptr() == home) if each.numel() else ()),
        )
        for each in flatten(results)
    ]


def run_case(seed, only=""):
    """What differed in a case, with the case; "" where nothing did."""
    choose = random.Random(seed)
    rank = choose.choice((2, 3, 3, 4, 4, 4, 5))
    x = make_tensor(choose, rank)
    y = make_second(choose, x)
    known = OPERATIONS | OF_IMAGES if rank == 4 and x.numel() else OPERATIONS
    for name in choose.sample(sorted(known), 2):
        if only not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = describe(known[name](x, y), x)
            except (RuntimeError, IndexError, ValueError):
                continue
            got = describe(lamina.compile(known[name])(x, y), x)
        if got != expected:
            return f"{name} of {tuple(x.shape)} {x.stride()}, {tuple(y.shape)} {y.stride()}: {got}, eager {expected}"
    return ""


if __name__ == "__main__":
    raise SystemExit(run_cases(__doc__, run_case, 2000, "cases"))
