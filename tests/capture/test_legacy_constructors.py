"""Constructors of older torch programs inside captured ones."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch.autograd import Variable

import lamina

PROGRAMS = {
    "sizes": lambda x: x + torch.Tensor(2, 3).fill_(2),
    "no sizes": lambda x: (x, torch.Tensor()),
    "size": lambda x: x + torch.FloatTensor(x.size()).zero_(),
    "new size": lambda x: x + x.new(x.size()).fill_(2),
    "new sizes": lambda x: x + x.new(2, 3).fill_(2),
    "new numbers": lambda x: x + x.new((1, 2, 3)),
    "numbers": lambda x: x * torch.Tensor([1, 2.5, True and 3]),
    "nested numbers": lambda x: x * torch.FloatTensor([[1, 2, 3], (4, 5, 6)]),
    "tuple": lambda x: torch.Tensor((2, 3)),
    "numpy's numbers": lambda x: x * torch.Tensor([numpy.exp(-number) for number in range(3)]),
    "requires no gradient": lambda x: setattr(x, "requires_grad", False) or x + 1,
    "long": lambda x: x[torch.LongTensor([1, 0])],
    "double": lambda x: x.double() * torch.DoubleTensor([1, 2, 0.1]),
    "int": lambda x: torch.IntTensor([3, 4])[0] + x.int(),
    "small ints": lambda x: (torch.ShortTensor([3]), torch.CharTensor([-3]), torch.ByteTensor([[3], [255]])),
    "halves": lambda x: (torch.HalfTensor([0.1, 2]), torch.BFloat16Tensor([0.1, 2])),
    "converted": lambda x: (x > 2).type(torch.FloatTensor) + x.type(torch.LongTensor),
}


def change_through_variable(x):
    y = Variable(x)
    y += 1
    return y is x, x * 2, y.requires_grad


@pytest.mark.parametrize(
    "program", [*PROGRAMS.values(), change_through_variable], ids=[*PROGRAMS, "variable"]
)
def test_captured_whole(program):
    graphs = []
    compiled = lamina.compile(program, backend=lambda graph, inputs: graphs.append(graph) or graph)
    ours, theirs = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
    got, expected = compiled(ours), program(theirs)
    for one, other in zip(
        *[value if isinstance(value, tuple) else (value,) for value in (got, expected)], strict=True
    ):
        if isinstance(one, torch.Tensor):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)
        else:
            assert one == other
    assert torch.equal(ours, theirs)
    assert len(graphs) == 1
    assert not lamina.explain(compiled, ours).breaks


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.Tensor(x) + 1,
        lambda x: torch.LongTensor([1.5]),
        lambda x: Variable(x, requires_grad=True).sum(),
        lambda x: torch.Tensor([x.sum(), 1]),
    ],
)
def test_the_rest_breaks_and_is_right(program):
    compiled = lamina.compile(program, backend=lambda graph, inputs: graph)
    x = torch.arange(3.0)
    assert torch.equal(compiled(x), program(x))
    assert {each["code"] for each in lamina.explain(compiled, x).breaks} >= {"legacy-constructor"}
