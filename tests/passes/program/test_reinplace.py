"""Arguments that kernels write to at once: which, and that what the caller finds there is eager's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lamina.ir.core import BlockArgument, Operation
from tests.passes.program.lowered import lower

Tensor = torch.Tensor


def average(x: Tensor, y: Tensor, g: Tensor) -> None:
    x.lerp_(g, 0.1)
    y.mul_(0.9).addcmul_(g, g, value=0.1)
    g.sub_(x / (y.sqrt() + 1e-8))


def swap(x: Tensor, y: Tensor, g: Tensor) -> None:
    kept = x + g
    x.copy_(y * g)
    y.copy_(kept)


def turn(x: Tensor, y: Tensor, g: Tensor) -> None:
    x.add_(y.t())
    y.mul_(2)


def normalise(x: Tensor, y: Tensor, g: Tensor) -> None:
    x.sub_(y.sum(-1, keepdim=True))
    y.mul_(2)


def two_shapes(x: Tensor, y: Tensor, g: Tensor) -> None:
    x.add_(y)
    y.view(-1).mul_(x.view(-1) + y.view(-1))


def moved(x: Tensor, y: Tensor, g: Tensor) -> None:
    x.add_(y.roll(1, 0))
    y.mul_(2)


PROGRAMS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], None], int | None]] = {
    "moving averages": (average, 0),
    "swap": (swap, 0),
    "transposed": (turn, None),
    "rows": (normalise, None),
    "two shapes": (two_shapes, None),
    "moved": (moved, None),
}
"""With how many values are copied back; None where only the result is looked at."""


def count_copies(program: Operation) -> int:
    return sum(
        each.name == "program.copy" and isinstance(each.operand(1), BlockArgument) for each in program.body
    )


@pytest.mark.parametrize("size", [8, 37])
@pytest.mark.parametrize("name", PROGRAMS)
@torch.no_grad()
def test_arguments_hold_what_eager_leaves_there(name: str, size: int) -> None:
    function, copies = PROGRAMS[name]
    given = [torch.rand(size, size) for _ in range(3)]
    expected = [each.clone() for each in given]
    program, run = lower(function, *given)
    function(*expected)
    run(given)
    torch.testing.assert_close(given, expected)
    assert copies is None or count_copies(program) == copies


@torch.no_grad()
def test_numbers_share_a_launch() -> None:
    def advance(x: Tensor, y: Tensor, z: Tensor) -> None:
        for step in (x, y, z):
            step.add_(1)

    given = [torch.tensor(float(number)) for number in range(3)]
    program, run = lower(advance, *given)
    run(given)
    assert given == [1.0, 2.0, 3.0] and count_copies(program) == 0
    assert sum(each.name == "program.launch" for each in program.body) == 1
