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
