"""Kernels that write over an input nobody needs any more: which do, and that their results are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lamina.ir.attributes import plain
from lamina.ir.core import Operation
from lamina.passes.program.to_program import buffer_root
from tests.passes.program.lowered import lower

Tensor = torch.Tensor

OVER: dict[str, Callable[[Tensor], Tensor]] = {
    "pointwise": lambda x: torch.relu(x @ x.t()) + 1,
    "softmax": lambda x: torch.softmax(x @ x.t(), -1),
    "softmax over columns": lambda x: torch.softmax(x @ x.t(), 0),
    "centred twice": lambda x: (y := x @ x.t()) - y.mean(-1, keepdim=True) * y.amax(-1, keepdim=True) + y,
    # Two kernels of sums, then a pointwise one.
    "rows and columns": lambda x: (y := x @ x.t()) - y.sum(-1, keepdim=True) + y.amax(0, keepdim=True),
}
APART: dict[str, Callable[[Tensor], Any]] = {
    "read later": lambda x: torch.softmax(y := x @ x.t(), -1) @ y,
    "sums only": lambda x: (x @ x.t()).sum(-1),
    "a row's sum in another row": lambda x: (y := x @ x.t()) + y.sum(-1),
    "transposed": lambda x: (y := x @ x.t()) * y.t(),
}


def count_over(program: Operation) -> int:
    """Launches whose output is in the memory of an input."""
    count = 0
    for launch in program.body:
        if launch.name == "program.launch":
            outputs = plain(launch.attributes["outputs"])
            inputs = {buffer_root(value) for value in launch.operands[:-outputs]}
            count += any(buffer_root(value) in inputs for value in launch.operands[-outputs:])
    return count


@pytest.mark.parametrize("shape", [(8, 8), (37, 5), (150, 64)])
@pytest.mark.parametrize("name", [*OVER, *APART])
@torch.no_grad()
def test_written_over_only_where_it_is_right(name: str, shape: tuple[int, int]) -> None:
    x = torch.randn(shape) / 4

    def used(x: Tensor) -> Any:
        # A result is memory of the caller's: what is looked at is an intermediate.
        return (OVER | APART)[name](x) @ x

    program, run = lower(used, x)
    torch.testing.assert_close(run([x])[0], used(x), rtol=1e-4, atol=1e-4)
    assert count_over(program) == (name in OVER)
