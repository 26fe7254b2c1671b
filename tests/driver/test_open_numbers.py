"""Floats that vary among the arguments of operations: one program for all of them, with eager's results."""

from __future__ import annotations

import math
import random
import re

import pytest
import torch
import torch.nn.functional as F

import lamina

X = torch.linspace(-2, 2, 30).reshape(3, 10)
Y = torch.linspace(-1, 3, 30).reshape(3, 10)
W = torch.linspace(-1, 1, 50).reshape(10, 5)
ORDINARY = (0.3, 0.45, 0.7, 1.7)
SPECIAL = (-0.45, 0.0, -0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 1e-40, 1e39, math.inf, math.nan)


def assign(x, k):
    x = x.clone()
    x[1] = k
    x[x > k] = -k
    return x


ONE_FOR_ALL = {
    "bounds": lambda x, k: (x.clamp(max=k), torch.clip(x, -k, k), x.clamp_min(k)),
    "bounds of a number": lambda x, k: x.sum().clamp(max=k),
    "weight": lambda x, k: torch.lerp(x, Y, k),
    "weight in place": lambda x, k: x.clone().lerp_(Y, k),
    "factor": lambda x, k: (torch.add(x, Y, alpha=k), torch.sub(x, Y, alpha=k)),
    "exponent": lambda x, k: x.abs() ** k,
    "base": lambda x, k: k**x,
    "comparisons": lambda x, k: (x > k, k >= x, x == k),
    "choices": lambda x, k: (torch.where(x > 0, x, k), torch.where(x > k, k, -k), x.masked_fill(x > 0, k)),
    "made": lambda x, k: (torch.full((3,), k), torch.full_like(x, k), x.new_full((2,), k), torch.tensor(k)),
    "assigned": assign,
    "activations": lambda x, k: F.leaky_relu(x, k) + F.elu(x, k) + F.softplus(x, k) + F.threshold(x, k, -k),
    "remainders": lambda x, k: (x % k, torch.fmod(x, k), x // k),
    "halves": lambda x, k: (x.bfloat16() * k, x.bfloat16() + k, x.bfloat16().clamp(max=k)),
    "integers": lambda x, k: ((10 * x).long() * k, (10 * x).int() > k),
    "small integers": lambda x, k: (10 * x).to(torch.int8) * k,
    "norms": lambda x, k: (
        F.layer_norm(x, (10,), eps=k),
        F.group_norm(x, 2, eps=2 * k),
        F.batch_norm(x, Y[0], Y[1].abs(), eps=k),
    ),
    "norms of rows": lambda x, k: F.rms_norm(x, (10,), eps=k),
    "norms of halves": lambda x, k: (
        F.layer_norm(x.half(), (10,), eps=k) + F.rms_norm(x.bfloat16(), (10,), eps=k)
    ),
    "losses": lambda x, k: F.smooth_l1_loss(x, Y, beta=k) + F.huber_loss(x, Y, delta=k),
    "library calls": lambda x, k: (torch.addmm(x[:, :5], x, W, alpha=k), torch._foreach_mul([x, Y], k)),
}
COMPLEX = torch.complex(X, Y)
LABELS = torch.tensor([1, 4, 0])
ONE_FOR_ALL |= {
    "pad": lambda x, k: (
        F.pad(x, (1, 2), value=k),
        F.pad(x + 1, (0, 0, 2, 0), value=-k),
        torch.softmax(F.pad(x, (1, 1), value=k), -1),
    ),
    "norms of an order": lambda x, k: (
        torch.norm(x, k + 2.1),
        F.normalize(x, k + 2.1),
        torch.linalg.vector_norm(x, k + 2.1, 1),
        torch.dist(x, Y, k + 2.1),
    ),
    "scale of attention": lambda x, k: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=k),
    "smoothed labels": lambda x, k: F.cross_entropy(x, LABELS, label_smoothing=k / 2),
    "what stands for nan": lambda x, k: torch.nan_to_num(1 / x.round(), k, 2 * k, -k),
    "logit": lambda x, k: torch.logit(x.sigmoid(), k / 4),
    "margins": lambda x, k: (
        F.margin_ranking_loss(x, Y, torch.sign(x), margin=k),
        F.hinge_embedding_loss(x, torch.sign(Y), margin=k),
        F.cosine_embedding_loss(x, Y, LABELS.sign(), margin=k / 2),
        F.triplet_margin_loss(x, Y, x + Y, margin=k),
        F.multi_margin_loss(x, LABELS, margin=k),
    ),
    "distances": lambda x, k: (
        F.pairwise_distance(x, Y, eps=k),
        F.cosine_similarity(x, Y, eps=k),
        torch.cdist(x, Y, p=k + 2.1),
        torch.isclose(x, Y, k, k / 2),
    ),
    "norms in training": lambda x, k: F.batch_norm(
        x, Y[0].clone(), Y[1].abs(), training=True, momentum=k / 9, eps=k
    ),
    "unsigned integers": lambda x, k: x.abs().to(torch.uint8) * k,
    "f16": lambda x, k: (x.half().clamp(max=k), x.half() * k, x.half() - k, F.leaky_relu(x.half(), k)),
    "complex": lambda x, k: (COMPLEX * k, k * COMPLEX, COMPLEX - k, COMPLEX / k),
    "into a place": lambda x, k: (
        x.scatter(0, LABELS[2:, None], k),
        x.clone().fill_diagonal_(k),
        x.renorm(2, 0, abs(k)),
    ),
}
RANDOM = {
    "dropout": lambda x, k: F.dropout(x, k, training=True),
    "dropout in place": lambda x, k: F.dropout(x.clone(), k, training=True, inplace=True),
    "channels": lambda x, k: F.dropout1d(x.expand(2, 3, 10), k, training=True),
    "bernoulli": lambda x, k: x.clone().bernoulli_(k) + torch.bernoulli(x, k),
}
CHECKED_BY_EAGER = {
    "celu": (lambda x, k: F.celu(x, k), 0.0),
    "celu of a tiny number": (lambda x, k: F.celu(x, k), 1e-40),
    "softshrink": (lambda x, k: F.softshrink(x, k), -0.5),
    "hardtanh": (lambda x, k: F.hardtanh(x, -k, k), -0.5),
    "cosine_similarity": (lambda x, k: F.cosine_similarity(x, Y, eps=k), -0.5),
    "quantile": (lambda x, k: torch.quantile(x, k), 1.5),
    "renorm": (lambda x, k: x.renorm(2, 0, k), -0.5),
    "renorm of an order": (lambda x, k: x.renorm(k, 0, 1.0), -0.5),
    "triplet_margin": (lambda x, k: F.triplet_margin_loss(x, Y, x + Y, margin=k), -0.5),
    "triplet_margin with a distance": (
        lambda x, k: F.triplet_margin_with_distance_loss(x, Y, x + Y, margin=k),
        -0.0,
    ),
}


def check(fast, program, number):
    """One call, compared with eager's, be it a result or an error."""
    try:
        expected = program(X, number)
    except (RuntimeError, ValueError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            fast(X, number)
        return
    torch.testing.assert_close(fast(X, number), expected, rtol=2e-6, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_one_program(name):
    program = ONE_FOR_ALL[name]
    fast = lamina.compile(program)
    counts = []
    for number in ORDINARY:
        check(fast, program, number)
        counters = lamina.counters()
        counts.append((counters["graphs"], counters["kernel_compilations"], counters["externs"]))
    assert counts[1] == counts[-1]


@pytest.mark.parametrize("name", RANDOM)
def test_one_program_for_all_shares(name):
    program = RANDOM[name]
    lamina.reset()
    fast = lamina.compile(program)
    for number in (0.3, 0.45, 0.7, 0.0, 0.45, 1.0, 0.6):
        torch.manual_seed(0)
        expected = program(X, number)
        torch.manual_seed(0)
        torch.testing.assert_close(fast(X, number), expected)
    assert lamina.counters()["graphs"] == 4
    with pytest.raises(Exception) as refused:
        program(X, 1.5)
    with pytest.raises(refused.type, match=re.escape(str(refused.value))):
        fast(X, 1.5)


@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_numbers_that_eager_treats_apart(name):
    program = ONE_FOR_ALL[name]
    fast = lamina.compile(program)
    for number in (*ORDINARY[:2], *random.Random(name).sample(SPECIAL, 4), *ORDINARY[2:]):
        check(fast, program, number)


def test_exact_shortcuts_of_a_power():
    fast = lamina.compile(lambda x, k: x**k)
    for number in (1.3, 1.7, 2.0, 0.5, 3.0, 1.9, 2.0):
        assert torch.equal(fast(Y, number).isnan(), (Y**number).isnan())
    assert torch.equal(fast(X, 2.0), X**2)


@pytest.mark.parametrize("name", CHECKED_BY_EAGER)
def test_a_number_that_eager_refuses(name):
    program, refused = CHECKED_BY_EAGER[name]
    fast = lamina.compile(program)
    for number in ORDINARY:
        check(fast, program, number)
    with pytest.raises(Exception) as expected:
        program(X, refused)
    with pytest.raises(expected.type):
        fast(X, refused)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float16])
@pytest.mark.parametrize("name", ["full_like", "masked_fill", "clamp", "where"])
def test_an_int_that_does_not_fit_the_type(name, dtype):
    program = {
        "full_like": torch.full_like,
        "masked_fill": lambda x, k: x.masked_fill(x > 1, k),
        "clamp": lambda x, k: x.clamp(max=k),
        "where": lambda x, k: torch.where(x > 1, x, k),
    }[name]
    fast, x = lamina.compile(program), torch.arange(4).to(dtype)
    for number in (5, 6, 70000, 7, 2**40):
        try:
            expected = program(x, number)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                fast(x, number)
        else:
            assert torch.equal(fast(x, number), expected)


@pytest.mark.parametrize("second", [0.0, -0.0, 1.0, 2.0])
def test_the_number_at_hand_is_not_taken_for_all(second):
    def program(x, k):
        return x.clamp(max=k), torch.lerp(x, Y, k), x > k, torch.full((3,), k) * 2

    lamina.reset()
    fast = lamina.compile(program)
    kernels = []
    for number in (0.3, second, 0.7, 2.5, -1.5, 0.3):
        torch.testing.assert_close(fast(X, number), program(X, number))
        kernels.append(lamina.counters()["kernels"])
    assert kernels[1] == kernels[-1]


def test_sizes_and_numbers_vary_together():
    def program(x, k):
        return torch.softmax(x.clamp(max=k), -1) * x.shape[0]

    fast = lamina.compile(program)
    for rows, number in ((3, 0.3), (5, 0.7), (9, 0.9), (4, 0.1), (9, 1.9)):
        x = torch.linspace(-2, 2, rows * 7).reshape(rows, 7)
        torch.testing.assert_close(fast(x, number), program(x, number))
    before = lamina.counters()["kernel_compilations"]
    fast(torch.ones(11, 7), 0.25)
    assert lamina.counters()["kernel_compilations"] == before


@pytest.mark.filterwarnings("error")
def test_a_quotient_of_sizes_that_is_one():
    def program(x, k):
        return x.view(2**k, -1) * 1

    fast = lamina.compile(program, dynamic=True)
    for exponent in (6, 2, 5, 6):
        x = torch.arange(64.0)
        torch.testing.assert_close(fast(x, exponent), program(x, exponent))


def test_an_order_of_which_there_are_two():
    program = lambda x, k: F.multi_margin_loss(x, LABELS, p=k)  # noqa: E731
    fast = lamina.compile(program)
    for order in (1.0, 2.0, 0.5, 65520.0, 2, 1.0):
        check(fast, program, order)
