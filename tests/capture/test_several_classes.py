"""Objects of several classes that intercept torch functions, in one call; subclasses of `torch.nn.Parameter`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn import functional

import lamina
from tests.capture.test_subclasses import same


class Teller(torch.Tensor):
    """Tells whom torch asked, and with what."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls, func.__name__, types, [type(each) for each in args], sorted(kwargs or ())


class Below(Teller):
    """Is asked before what it derives from."""


class Beside(torch.Tensor):
    """Leaves additions to others."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.add, torch.Tensor.add):
            return NotImplemented
        return "beside", func.__name__, types


class Wrapping(torch.Tensor):
    """Does what torch does."""


class Thing:
    """No tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "thing", func.__name__, types


class Tagged(torch.nn.Parameter):
    """Intercepts nothing, has attributes and methods."""

    factor = 2.0

    def __new__(cls, data, tag=None):
        made = super().__new__(cls, data)
        made.tag, made.offset = tag, torch.full((1,), 3.0)
        return made

    def scaled(self) -> torch.Tensor:
        return self * self.factor + self.offset

    @property
    def rows(self) -> int:
        return self.shape[0]


class Doubling(torch.nn.Parameter):
    """Doubles what two functions give."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result * 2 if func in (functional.linear, torch.Tensor.add) else result


class Silent(torch.Tensor):
    """Says that it does not intercept."""

    __torch_function__ = torch._C._disabled_torch_function_impl


KINDS = (Teller, Below, Beside, Wrapping, Thing, torch.Tensor, torch.nn.Parameter)


def make(kind: type) -> Any:
    if not issubclass(kind, torch.Tensor):
        return kind()
    data = torch.arange(4.0)
    if issubclass(kind, torch.nn.Parameter):
        return kind(data)
    return data if kind is torch.Tensor else data.as_subclass(kind)


def functions(x, y):
    return torch.sub(y, other=x), torch.cat([x, y]), torch.where(torch.ones(4) > 0, y, x)


def python_functions(x, y):
    return functional.cosine_similarity(x, y, dim=0), functional.mse_loss(x, y)


def addition(x, y):
    return torch.add(x, y)


def operators(x, y):
    return x * y, x < y, x - y


PAIRS = [pair for pair in itertools.product(KINDS, repeat=2) if any(k not in KINDS[-2:] for k in pair)]


@pytest.mark.parametrize(
    "program", [functions, python_functions, addition, operators], ids=lambda f: f.__name__
)
def test_torch_asks_in_eagers_order(program) -> None:
    for first, second in PAIRS:
        if Thing in (first, second) and program in (operators, python_functions):
            continue
        x, y = make(first), make(second)
        with torch.no_grad():
            try:
                expected = program(x, y)
            except TypeError:
                with pytest.raises(TypeError, match="NotImplemented"):
                    lamina.compile(program)(x, y)
                continue
            fast = lamina.compile(program, fullgraph=True, backend=lambda module, inputs: module)
            same(fast(x, y), expected)


class Layer(torch.nn.Module):
    """A linear layer and a scale whose parameters are of class `kind`."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.linear.weight = kind(torch.randn(4, 4))
        self.scale = kind(torch.randn(4))

    def forward(self, x):
        y = self.linear(x) * self.scale
        if isinstance(self.scale, Tagged):
            y = y + self.scale.scaled() * self.scale.rows
            if self.scale.tag is None:
                y = y * 3
        scale = self.scale
        own = scale.requires_grad, scale.is_leaf, scale.grad, isinstance(scale, torch.nn.Parameter)
        return y, own, -scale, x @ self.linear.weight, scale[1:], sum(p.numel() for p in self.parameters())


@pytest.mark.parametrize("kind", [Tagged, Doubling])
def test_modules_with_parameters_of_other_classes(kind) -> None:
    model = Layer(kind)
    fast = lamina.compile(model, fullgraph=True)
    for step in range(4):
        x = torch.randn(2, 4)
        with torch.no_grad():
            same(fast(x), model(x))
            model.scale.data.mul_(1.5)
        if step == 1:
            model.scale.tag = "seen"
        if step == 2:
            model.scale.grad = torch.ones(4)


def test_gradients_of_parameters_of_other_classes() -> None:
    model = Layer(Tagged)
    fast = lamina.compile(model, fullgraph=True, backend=lambda module, inputs: module)
    x, found = torch.randn(2, 4), []
    for function in (model, fast):
        result = function(x)[0]
        found.append((result, torch.autograd.grad(result.sum(), list(model.parameters()))))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", [Tagged, Doubling, Silent])
def test_arguments_that_are_written_to(kind) -> None:
    def program(p, x):
        p.mul_(2)
        return p + x, torch.cat([p, x]), torch.add(x, p, alpha=2), p

    fast, x = lamina.compile(program, fullgraph=True), torch.randn(4)
    with torch.no_grad():
        mine, other = make(kind), make(kind)
        same(fast(mine, x)[:3], program(other, x)[:3])
        assert fast(mine, x)[3] is mine
        same(mine.tolist(), program(other, x)[3].tolist())
