"""The rewrites before fusion: each makes one kernel of what would be several."""

from __future__ import annotations

import pytest
import torch

from lamina.ir.attributes import plain
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.fuse import fuse
from lamina.passes.fusion.outline import outline
from tests.passes.fusion.form import TARGET, check_module, kernels
from tests.passes.fusion.programs import Program, floats, import_program, with_indices


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


def gated(x):
    gate, value = (x * 2 + 1).chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * value


def padded_activation(x, bias):
    return torch.nn.functional.pad(torch.relu(x + bias[:, None, None]), (1, 1, 1, 1), value=0.5)


def group_norm(x, weight, bias):
    return torch.nn.functional.silu(torch.nn.functional.group_norm(x, 4, weight, bias))


def variance(x):
    return (x - x.mean(dim=(1, 2), keepdim=True)) / (x.var(dim=(1, 2), keepdim=True) + 1).sqrt()


CASES = {
    "rotary embedding": (rotate, floats((2, 8, 16, 32), (16, 32), (16, 32)), "pointwise"),
    "gate of a split": (gated, floats((64, 128)), "pointwise"),
    "pad of an activation": (padded_activation, floats((3, 8, 8), (3,)), "pointwise"),
    "nested reduction": (lambda a: a.exp().sum(-1).amax(-1), floats((12, 10, 4)), "reduction"),
    "group norm": (group_norm, floats((2, 8, 6, 6), (8,), (8,)), "normalization"),
    "two dimensions": (variance, floats((3, 8, 12)), "normalization"),
    "gather with its check": (lambda a, b: a[b] * 2, with_indices((10, 10), 20, 10), "pointwise"),
    "half in, half out": (
        lambda a: (a * 2).half().float().softmax(1), lambda: (torch.randn(8, 16).half(),), "normalization"
    ),
    "argmax beside amax": (lambda a: (a.argmax(1), a.amax(1)), floats((8, 16)), "reduction"),
    "attention weights": (
        lambda s, m: torch.softmax(s * 0.125 + m, dim=-1), floats((2, 4, 16, 16), (16, 16)), "normalization"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str):
    function, inputs, kind = CASES[name]
    module, _ = import_program(Program(name, function, inputs, 0))
    fuse(module, TARGET, Remarks())
    check_module(module)
    found = kernels(module)
    assert [plain(kernel.attributes["kind"]) for kernel in found] == [kind]


def test_equal_kernels_are_one_function():
    """Two layers with a product between them: their normalisations are one kernel function."""

    def layers(x, w):
        for _ in range(3):
            x = torch.mm(torch.nn.functional.layer_norm(x, (16,)), w)
        return x

    module, _ = import_program(Program("layers", layers, floats((8, 16), (16, 16)), 0))
    fuse(module, TARGET, Remarks())
    assert len(kernels(module)) == 3
    assert len(outline(module)) == 1
