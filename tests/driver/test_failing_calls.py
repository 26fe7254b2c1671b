"""Calls that fail for values known only when they run: eager's error, and what the program did before it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import lamina
from lamina.driver.lowering import is_repeatable
from tests.passes.program.lowered import lower


def noted_before(x, i, notes):
    notes.append("before")
    y = x[i]
    notes.append("behind")
    return y * 2


def caught(x, i, notes):
    try:
        y = x[i]
    except IndexError:
        notes.append("caught")
        y = x[:1]
    return y + 1


def finally_noted(x, i, notes):
    try:
        return x[i]
    finally:
        notes.append("finally")


class Calls:
    count = 0


def counted_in_a_class(x, i, notes):
    Calls.count += 1
    notes.append(Calls.count)
    return F.embedding(i, x[:, None]).sum()


def behind_a_break(x, i, notes):
    notes.append("before")
    lamina.graph_break()
    notes.append("between")
    return F.embedding(i, x[:, None]) + 1


def writes_first(x, i, notes):
    x.add_(1)
    notes.append("written")
    return x[i]


def writes_between(x, i, notes):
    y = x[i]
    x.mul_(2)
    notes.append("written")
    return F.cross_entropy(y[None], i[:1]) + x.sum()


def not_definite(x, i, notes):
    notes.append("before")
    return torch.linalg.cholesky(torch.eye(2) * (3.0 - x[i[:1] % 5]))


PROGRAMS = [
    noted_before,
    caught,
    finally_noted,
    counted_in_a_class,
    behind_a_break,
    writes_first,
    writes_between,
    not_definite,
]


def list_outcomes(function):
    """Of calls with good and bad indices: result or error, what was noted, what the argument became."""
    Calls.count = 0
    outcomes, notes = [], []
    for indices in ([1, 0], [9, 2], [0, 1], [4, 9], [1, 1]):
        x = torch.arange(5.0)
        try:
            found = function(x, torch.tensor(indices), notes)
        except (RuntimeError, IndexError) as error:
            found = type(error), str(error)
        outcomes.append((repr(found), list(notes), x.tolist(), Calls.count))
    return outcomes


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager(program):
    assert list_outcomes(lamina.compile(program)) == list_outcomes(program)


def add_and_index(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x[i]


def add(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * i


def test_a_kernel_writes_an_argument_behind_the_checks_alone():
    inputs = torch.arange(5.0), torch.tensor([1])
    checked, _ = lower(add_and_index, *inputs)
    free, _ = lower(add, *inputs)
    names = [[each.name for each in program.body] for program in (checked, free)]
    assert names[0].index("program.call") < names[0].index("program.copy") and is_repeatable(checked)
    assert "program.copy" not in names[1] and is_repeatable(free)


def drop_and_index(x, i, notes):
    notes.append("before")
    return F.dropout(x, 0.5)[i]


def test_a_graph_that_drew_random_numbers_is_not_run_again():
    fast = lamina.compile(drop_and_index)
    notes: list[str] = []
    fast(torch.ones(5), torch.tensor([1]), notes)
    torch.manual_seed(0)
    with pytest.raises(RuntimeError, match="out of bounds"):
        fast(torch.ones(5), torch.tensor([9]), notes)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    F.dropout(torch.ones(5), 0.5)
    assert torch.equal(torch.get_rng_state(), after) and notes == ["before"]
