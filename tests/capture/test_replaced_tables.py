"""What an object keeps its attributes, parameters, submodules and hooks in may itself be replaced: nothing stale."""

from __future__ import annotations

import collections
import types

import pytest
import torch

from lamina.capture import trace

X = torch.arange(3.0)


class Part:
    def __init__(self):
        self.rate = 2


class Reading:
    """Reads attributes in its own way."""

    def __init__(self):
        self.rate = 2

    def __getattribute__(self, name):
        return {} if name == "__dict__" else object.__getattribute__(self, name)


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        return self.inner(x) + self.shift


def replace_dict(owner, **changes):
    owner.__dict__ = {**object.__getattribute__(owner, "__dict__"), **changes}


def replace_table(owner, name, **changes):
    owner.__dict__[name] = {**owner.__dict__[name], **changes}


def zeros_hook(module, args, output):
    return output * 0


def replace_hooks(owner):
    owner._forward_hooks = collections.OrderedDict()
    owner.register_forward_hook(zeros_hook)


def rated(x):
    return x + rated.rate


PART, READING = Part(), Reading()
MODULE_CHANGES = [
    lambda whole: replace_dict(whole, _buffers={"shift": torch.zeros(3)}),
    lambda whole: replace_table(whole, "_buffers", shift=torch.zeros(3)),
    lambda whole: replace_table(whole, "_modules", inner=torch.nn.Identity()),
    lambda whole: replace_table(whole.inner, "_parameters", bias=None),
    lambda whole: replace_dict(
        whole.inner, _parameters={"weight": torch.nn.Parameter(torch.eye(3)), "bias": None}
    ),
    replace_hooks,
    lambda whole: replace_hooks(whole.inner),
]


@pytest.mark.parametrize("change", MODULE_CHANGES)
def test_modules_with_other_tables(change):
    whole = Whole()

    def program(x):
        return whole(x)

    captured = trace(program, (X,), {})
    assert captured.check((X,), {})
    change(whole)
    assert_follows(captured, program)


def test_objects_with_another_dict():
    def program(x):
        return x + PART.rate

    captured = trace(program, (X,), {})
    assert captured.check((X,), {})
    replace_dict(PART, rate=5)
    assert_follows(captured, program)
    assert "PART.rate: expected 2, got 5" in captured.explain_failure((X,), {})


def test_an_object_that_hides_its_dict():
    def program(x):
        return x + object.__getattribute__(READING, "rate")

    captured = trace(program, (X,), {})
    assert captured.check((X,), {})
    object.__setattr__(READING, "__dict__", {"rate": 5})
    assert_follows(captured, program)


def test_functions_with_another_dict():
    def program(x):
        return rated(x)

    rated.rate = 2
    captured = trace(program, (X,), {})
    assert captured.check((X,), {})
    rated.__dict__ = {"rate": 5}
    assert_follows(captured, program)


def test_namespaces():
    space = types.SimpleNamespace(rate=2)

    def program(x):
        return x + space.rate

    captured = trace(program, (X,), {})
    assert captured.check((X,), {})
    space.rate = 5
    assert_follows(captured, program)


def assert_follows(captured, program):
    """The capture no longer holds, or gives what eager gives."""
    with torch.no_grad():
        if captured.check((X,), {}):
            assert torch.equal(captured.call((X,), {}), program(X))
