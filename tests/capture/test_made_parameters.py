"""Parameters that a program makes: one graph, with eager's class, memory, gradients and errors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lamina


class Keeps(nn.Module):
    """Makes its parameter anew in each call."""

    def forward(self, x):
        self.weight = nn.Parameter(x.detach() * 2)
        return (self.weight * x).sum(), self.weight


def write_through(x):
    made = nn.Parameter(x, requires_grad=False)
    made.add_(1)
    return made, x * 2


def write_data(x):
    made = nn.Parameter(x[0])
    with torch.no_grad():
        made.mul_(3)
    return made, made * x


PROGRAMS = {
    "of a result": lambda x: (nn.Parameter(x * 2) + 1, isinstance(nn.Parameter(x), nn.Parameter)),
    "given back": lambda x: (nn.Parameter(x), nn.Parameter(x[1:] + 1), nn.Parameter(nn.Parameter(x + 1))),
    "without a gradient": lambda x: nn.Parameter(torch.arange(3), requires_grad=False) + x,
    "empty": lambda x: (nn.Parameter(), x + 1),
    "written": write_through,
    "written without gradients": write_data,
    "in a module": Keeps(),
}


@pytest.mark.parametrize("is_grad_enabled", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name, is_grad_enabled):
    program = PROGRAMS[name]
    compiled = lamina.compile(program, fullgraph=True)
    for _ in range(2):
        ours, theirs = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
        with torch.set_grad_enabled(is_grad_enabled):
            got, expected = compiled(ours), program(theirs)
        torch.testing.assert_close(ours, theirs)
        for one, other in zip(as_tuple(got), as_tuple(expected), strict=True):
            if not isinstance(other, torch.Tensor):
                assert one == other
                continue
            torch.testing.assert_close(one, other)
            assert (type(one), one.requires_grad, one.is_leaf) == (
                type(other),
                other.requires_grad,
                other.is_leaf,
            )
            is_own = one.untyped_storage().data_ptr() == ours.untyped_storage().data_ptr()
            assert is_own == (other.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr())


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_gradients_reach_it():
    compiled, x = lamina.compile(Keeps()), torch.arange(6.0)
    loss, weight = compiled(x)
    loss.backward()
    torch.testing.assert_close(weight.grad, x)


def test_integers_need_no_gradient():
    with pytest.raises(RuntimeError, match="floating point"):
        lamina.compile(lambda x: nn.Parameter(torch.arange(3)) + x)(torch.ones(3))
