"""Numbers among operations' arguments for which eager's kernels take a way of their own."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.nn.functional as F

import lamina


def same_outcome(program, *arguments):
    """Whether a compiled call gives eager's result from the same random state, or its error."""
    torch.manual_seed(0)
    try:
        expected = program(*arguments)
    except (RuntimeError, OverflowError) as error:
        with pytest.raises(type(error), match=re.escape(str(error).splitlines()[0])):
            lamina.compile(program)(*arguments)
        return
    torch.manual_seed(0)
    torch.testing.assert_close(lamina.compile(program)(*arguments), expected, equal_nan=True)


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, 3, -1, -2, 1e-300])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_powers_of_all_halves(exponent, dtype):
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    expected, got = x**exponent, lamina.compile(lambda x: x**exponent)(x)
    torch.testing.assert_close(got, expected, rtol=2e-3, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.int8, 300), (torch.float16, 70000.0), (torch.float32, 1)]
)
def test_a_fill_with_a_tensor(dtype, value):
    x = torch.arange(4).to(dtype)
    same_outcome(lambda x, value: x.masked_fill(x > 1, value), x, torch.tensor(value))


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, -(2**63)])
def test_an_int_of_64_bits_and_more(number):
    x = torch.eye(3)
    same_outcome(lambda x: (torch.addmm(x, x, x, alpha=number), x * number), x)


@pytest.mark.parametrize("dtype", [torch.int16, torch.float32])
def test_dropout_of_all(dtype):
    same_outcome(lambda x: F.dropout(x, 1.0, training=True), torch.ones(4, dtype=dtype))


def test_noise_in_another_order_of_memory():
    same_outcome(lambda x: F.alpha_dropout(x, 0.4, training=True), torch.rand(9, 4).t())


@pytest.mark.parametrize("ends", [(-1e39, 3.0), (0.0, math.inf), (0, 2**40)])
def test_a_line_between_numbers(ends):
    same_outcome(lambda: torch.linspace(*ends, 4))


@pytest.mark.parametrize("order", [2, 1, 3, math.inf])
def test_a_norm_of_single_elements(order):
    x = torch.tensor([[1e-30], [-1e30]])
    same_outcome(lambda x: (torch.linalg.vector_norm(x, order, 1), F.normalize(x, order)), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float16])
def test_images_of_integers_are_repeated_where_eager_does(dtype):
    images = torch.arange(16).reshape(1, 1, 4, 4).to(dtype)
    same_outcome(lambda images: F.interpolate(images, scale_factor=2), images)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("threshold", [0.1, 1 / 3, 3.7])
def test_halves_are_compared_with_the_threshold_as_it_is(dtype, threshold):
    x = torch.tensor([threshold, -threshold, 4.0], dtype=dtype)
    same_outcome(lambda x: F.threshold(x, threshold, 7.3), x)


def test_an_int_that_varies_is_refused_as_one_that_does_not():
    x = torch.tensor([True, False])
    compiled = lamina.compile(lambda x, k: F.threshold(x, k, 1))
    for k in (2, 3, 4):
        with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
            compiled(x, k)


def test_a_slope_that_does_not_fit():
    x = torch.tensor([-1.0, 2.0])
    compiled = lamina.compile(F.leaky_relu)
    for slope in (0.3, 2.5, -1e39, 0.7, 1e39):
        if abs(slope) > 1e38:
            with pytest.raises(RuntimeError, match="cannot be converted"):
                compiled(x, slope)
        else:
            torch.testing.assert_close(compiled(x, slope), F.leaky_relu(x, slope))


def test_isin_of_transposed_memory():
    x = torch.arange(12).reshape(3, 4).t()
    program = lambda x: (torch.isin(x, 2), torch.isin(x, torch.tensor([2, 5])))  # noqa: E731
    for got, expected in zip(lamina.compile(program)(x), program(x), strict=True):
        assert torch.equal(got, expected) and got.stride() == expected.stride()


LIMIT = 2**63
RANGES = [
    (LIMIT - 1, LIMIT + 2), (LIMIT - 3, LIMIT), (LIMIT - 3, LIMIT - 1), (-LIMIT, -LIMIT + 2), (-LIMIT - 1, 0),
    (0, LIMIT, LIMIT // 2), (0, LIMIT - 1, LIMIT // 2), (0, 5, LIMIT - 1), (3, -5, -LIMIT),
]  # fmt: skip


@pytest.mark.parametrize("numbers", RANGES)
def test_a_range_of_numbers_that_int64_hardly_holds(numbers):
    same_outcome(lambda: torch.arange(*numbers))


def test_a_range_whose_ends_vary():
    def program(k):
        return torch.arange(k, k + 3), torch.arange(k, k + 3, dtype=torch.int32)

    compiled = lamina.compile(program)
    for k in (4, 6, 2**53 + 1, LIMIT - 9, LIMIT - 2, LIMIT, 8):
        if k >= LIMIT - 2:
            with pytest.raises(RuntimeError, match="without overflow"):
                compiled(k)
        else:
            torch.testing.assert_close(compiled(k), program(k))


def test_a_range_of_bools():
    same_outcome(lambda: torch.arange(-2, 2, dtype=torch.bool))
