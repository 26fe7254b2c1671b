"""Operations that raise for some values raise them, though nobody uses their result."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import lamina

MATRIX, GOOD, BAD = torch.eye(3), torch.tensor([0, 1, 2]), torch.tensor([0, 1, 3])
PROGRAMS = {
    "index": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "embedding": lambda x, i: functional.embedding(i, x),
    "cross entropy": lambda x, i: functional.cross_entropy(x, i),
    "division": lambda x, i: i // (i - 3),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "eigenvalues": lambda x, i: torch.linalg.eigh(x / (3 - i.max())),
    "cholesky": lambda x, i: torch.linalg.cholesky(x * (3 - i.max())),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unused_result_is_checked(name):
    def program(x, i):
        PROGRAMS[name](x, i)
        return x.t()

    fast = lamina.compile(program, fullgraph=True)
    assert torch.equal(fast(MATRIX, GOOD), MATRIX)
    with pytest.raises(Exception) as expected:
        program(MATRIX, BAD)
    with pytest.raises(expected.type):
        fast(MATRIX, BAD)


IMAGES, NUMBERS = torch.arange(16).reshape(1, 1, 4, 4), torch.arange(4)
REFUSED = {
    "pool": lambda: functional.adaptive_avg_pool2d(IMAGES, 2),
    "resize": lambda: functional.interpolate(IMAGES, scale_factor=2, mode="bilinear"),
    "unfold": lambda: functional.unfold(IMAGES, 2),
    "log sigmoid": lambda: functional.logsigmoid(NUMBERS),
    "batch norm": lambda: functional.batch_norm(IMAGES, torch.zeros(1), torch.ones(1)),
    "median": lambda: (NUMBERS > 1).median(),
    "top": lambda: torch.topk(NUMBERS > 1, 1)[0],
    "zero among divisors": lambda: 7 // NUMBERS,
    "a remainder by zero": lambda: NUMBERS % NUMBERS,
    "index": lambda: NUMBERS[NUMBERS + 1],
    "class": lambda: functional.cross_entropy(torch.ones(4, 3), NUMBERS),
}


@pytest.mark.parametrize("use", [lambda made: made * 0, lambda made: torch.zeros(3), torch.zeros_like])
@pytest.mark.parametrize("name", REFUSED)
def test_an_error_is_not_folded_away(name, use):
    def program():
        return use(REFUSED[name]())

    with pytest.raises(Exception) as expected:
        program()
    with pytest.raises(expected.type):
        lamina.compile(program)()
