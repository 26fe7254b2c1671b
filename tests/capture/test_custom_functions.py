"""`torch.autograd.Function.apply`: captured where no gradient is needed, a break where one is."""

from __future__ import annotations

import pytest
import torch

import lamina


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        assert not torch.is_grad_enabled()
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor * 10, None


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.add_(1)
        return x, 5


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)


class GivesInputWithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


class WithDefault(torch.autograd.Function):
    @staticmethod
    def forward(x, factor=2, shift=5):
        return x * factor + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, factor, shift = inputs
        ctx.kept = x.shape, factor, shift


def scale(x):
    return Scale.apply(x, 3) + torch.is_grad_enabled()


def identity(x):
    y = Identity.apply(x)
    return y, y is x


def add_in_place(x):
    y, five = AddInPlace.apply(x)
    return y is x, x * five


def with_setup(x):
    return WithSetup.apply(x, x * 2)


def with_default(x):
    return WithDefault.apply(x), WithDefault.apply(x, 3, 0)


def with_keyword(x):
    return WithDefault.apply(x, shift=1)


def without_input(x):
    try:
        return WithDefault.apply()
    except TypeError as error:
        return str(error)


def gives_input_with_setup(x):
    return GivesInputWithSetup.apply(x)


def run(function, x):
    try:
        result = function(x)
    except RuntimeError as error:
        return str(error)[:40]
    return [
        (value.tolist(), value.requires_grad) if isinstance(value, torch.Tensor) else value
        for value in (result if isinstance(result, tuple) else (result,))
    ]


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("is_enabled", [False, True])
@pytest.mark.parametrize(
    "function, is_whole",
    [
        (scale, True),
        (identity, True),
        (add_in_place, True),
        (with_setup, True),
        (with_default, True),
        pytest.param(
            with_keyword,
            True,
            marks=pytest.mark.skipif(
                torch.__version__ < (2, 12), reason="eager's apply takes no keyword arguments"
            ),
        ),
        (without_input, False),
        (gives_input_with_setup, False),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_same_as_eager(function, is_whole, is_enabled, needs_gradient):
    graphs = []
    compiled = lamina.compile(function, backend=lambda graph, inputs: graphs.append(graph) or graph)
    with torch.set_grad_enabled(is_enabled):
        inputs = [torch.arange(3.0).requires_grad_(needs_gradient) for _ in range(2)]
        assert run(compiled, inputs[0]) == run(function, inputs[1])
        assert torch.equal(*inputs)
        if is_whole and not (is_enabled and needs_gradient):
            assert len(graphs) == 1
            assert not lamina.explain(compiled, inputs[0]).breaks


def test_the_custom_backward_stays():
    x = torch.arange(3.0, requires_grad=True)
    lamina.compile(scale)(x).sum().backward()
    assert x.grad.tolist() == [30.0, 30.0, 30.0]
