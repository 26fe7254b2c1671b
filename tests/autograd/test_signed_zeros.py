"""Where two zeros of different signs meet, the result has the sign of eager's: of operations whose eager kernels agree."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import lamina

PROGRAMS = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "clamp min": lambda x: (x.clamp(min=0.0), x.clamp(min=-0.0), x.clamp_min(0)),
    "clamp max": lambda x: (x.clamp(max=0.0), x.clamp(max=-0.0), x.clamp_max(0)),
    "clamp": lambda x: (x.clamp(0.0, 1.0), x.clamp(-1.0, -0.0)),
    "hardtanh": lambda x: (F.hardtanh(x, 0.0, 1.0), F.hardtanh(x, -1.0, -0.0)),
    "fmax": lambda x: (torch.fmax(x, torch.zeros_like(x)), torch.fmax(x, -torch.zeros_like(x))),
    "fmin": lambda x: (torch.fmin(x, torch.zeros_like(x)), torch.fmin(x, -torch.zeros_like(x))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_signs_are_eagers(name, dtype):
    program = PROGRAMS[name]
    x = torch.tensor([-0.0, 0.0, math.nan, 1.0, -0.0, 0.5, -2.0, 0.0, -0.0], dtype=dtype)
    constant = [-0.0, 0.0, math.nan, -1.0]

    def of_constant(x):
        return program(torch.tensor(constant, dtype=dtype)), x + 1

    for each in (program, of_constant):
        expected, got = each(x), lamina.compile(each)(x)
        pairs = torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(got)
        for one, other in zip(*pairs, strict=True):
            assert torch.equal(one.isnan(), other.isnan())
            assert torch.equal(one.nan_to_num(9), other.nan_to_num(9))
            assert torch.equal(one.signbit() | one.isnan(), other.signbit() | other.isnan())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("varies", [False, True])
def test_odd_exponents_that_are_even_in_f32(dtype, varies):
    def program(x, k):
        return x**k, torch._foreach_pow([x], k)[0]

    fast = lamina.compile(program)
    x = torch.tensor([1.0, -1.0, 2.0, -2.0, 0.0, -0.0, 0.5, -0.5, -3.0], dtype=dtype)
    if varies:
        fast(x, 4.25), fast(x, 5.25)
    for k in (16777217.0, -16777219.0, 2.0**31 + 1, 16777215.0):
        for one, other in zip(program(x, k), fast(x, k), strict=True):
            assert torch.equal(one, other) and torch.equal(one.signbit(), other.signbit())


@pytest.mark.parametrize("bounds", [(math.nan, None), (None, math.nan), (0.0, math.nan)])
def test_a_bound_of_nan(bounds):
    def program(x):
        return x.clamp(*bounds)

    x = torch.tensor([-1.0, 0.0, 2.0])
    torch.testing.assert_close(lamina.compile(program)(x), program(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_sums_of_negative_zeros_alone_are_positive(dtype):
    def program(x, y):
        one = x[0, 0]
        ones = x.sum(1), x.mean(1), x.nansum(1), x[:1].sum(), F.adaptive_avg_pool1d(x[None], 1)
        constant = torch.full((2, 1), -0.0), torch.full((2, 2), -0.0), torch.tensor([[-0.0], [1.0]])
        alone = one.sum(), one.mean(), one.nansum(), x.expand(3, 4).sum(1), *(c.sum(1) for c in constant)
        # Sums that are spelled out in the kernel of another reduction.
        return *ones, *alone, y.sum(2), y.sum(2).amax(1), y.mean(2).neg().amin(1)

    x, y = torch.tensor([[-0.0], [1.0], [0.0]], dtype=dtype), torch.full((5, 7, 3), -0.0, dtype=dtype)
    for got, expected in zip(lamina.compile(program)(x, y), program(x, y), strict=True):
        assert torch.equal(got, expected)
        assert torch.equal(got.signbit(), expected.signbit())


def test_a_sum_of_ones_is_no_kernel_of_its_own():
    x = torch.rand(64, 1)
    compiled = lamina.compile(lambda x: ((x * 2).sum(1) - 1, x.abs().sum(1)))
    before = lamina.counters()["kernels"]
    compiled(x)
    assert lamina.counters()["kernels"] == before + 1


@pytest.mark.parametrize("has_weight", [False, True])
def test_what_a_norm_without_a_bias_makes_of_negative_zeros(has_weight):
    weight, average = torch.ones(8) if has_weight else None, torch.zeros(8)

    def program(x):
        norms = F.layer_norm(x, (8,), weight), F.rms_norm(x, (8,), weight), F.group_norm(x, 2, weight)
        return *norms, F.batch_norm(x, average, average + 1, weight)

    x = torch.full((4, 8), -0.0)
    for got, expected in zip(lamina.compile(program)(x), program(x), strict=True):
        assert torch.equal(got.signbit(), expected.signbit())
