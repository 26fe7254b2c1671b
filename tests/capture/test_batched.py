"""`torch.vmap` and what is made of it: associative scans, attention with functions of scores and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import lamina
from lamina.errors import Unsupported
from tests.capture.as_it_is import run_as_it_is

Program = Callable[..., Any]
SCAN: Any = torch._higher_order_ops.associative_scan


def mapped_with_free_tensors(x: torch.Tensor, y: torch.Tensor) -> Any:
    scale = y.exp()
    return torch.vmap(lambda row: (row * scale).sum() + row.max())(x)


def mapped_over_two(x: torch.Tensor, y: torch.Tensor) -> Any:
    def outer(column: torch.Tensor, by: torch.Tensor) -> Any:
        return torch.vmap(lambda item, add: item * by + add.sum(), in_dims=(0, None))(column, y)

    return torch.vmap(outer, in_dims=(1, 0), out_dims=1)(x, y)


def mapped_to_containers(x: torch.Tensor, y: torch.Tensor) -> Any:
    def program(pair: Any, shift: float, *, scale: torch.Tensor) -> Any:
        row, other = pair["row"], pair["other"]
        return {"sum": row.cumsum(0) + shift, "both": (row * scale, [row, other + 1])}

    dims: Any = {"sum": 1, "both": 0}
    mapped = torch.vmap(program, in_dims=({"row": 0, "other": -1}, None), out_dims=dims)
    return mapped({"row": x, "other": x.t()}, 2.0, scale=y)


def mapped_in_chunks(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.vmap(lambda row: torch.outer(row, y).tanh(), chunk_size=2)(x)


def written_inside(x: torch.Tensor, y: torch.Tensor) -> Any:
    def program(row: torch.Tensor) -> torch.Tensor:
        made = row.clone()
        made[0] += y.sum()
        return made.view(-1, 1)

    return torch.vmap(program)(x)


def of_what_lies_around(x: torch.Tensor, y: torch.Tensor) -> Any:
    dims: Any = (None, 0, 0)
    return torch.vmap(lambda row: (y, row.new_ones(x.shape[0]) * row.sum(), row), out_dims=dims)(x)


def scanned(x: torch.Tensor, y: torch.Tensor) -> Any:
    return SCAN(lambda a, b: a * y + b, x, dim=0, combine_mode="generic")


def scanned_pairs(x: torch.Tensor, y: torch.Tensor) -> Any:
    """A recurrence h = gate * h + input, as state-space models have it."""

    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    return SCAN(combine, (x.sigmoid(), x), dim=1, reverse=True, combine_mode="generic")


PROGRAMS = [
    mapped_with_free_tensors,
    mapped_over_two,
    mapped_to_containers,
    mapped_in_chunks,
    written_inside,
    of_what_lies_around,
    scanned,
    scanned_pairs,
]
NAMES = [each.__name__ for each in PROGRAMS]


def arguments(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.rand(rows, columns, dtype=torch.float64), torch.rand(columns, dtype=torch.float64)


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 5)])
def test_in_one_graph(program: Program, size: tuple[int, int]) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True, dynamic=False)
    x, y = arguments(*size)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, y), program(x, y), check_stride=True)
    assert lamina.counters()["graphs"] == 1


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_gradients(program: Program) -> None:
    compiled = lamina.compile(program, fullgraph=True, backend=run_as_it_is)
    found = []
    for each in (compiled, program):
        x, y = (value.requires_grad_() for value in arguments(4, 4))
        total = sum((result * result).sum() for result in pytree.tree_leaves(each(x, y)))
        found.append(torch.autograd.grad(total, (x, y), materialize_grads=True))
    torch.testing.assert_close(*found)


def test_beside_sizes_that_depend_on_values() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        places = (y > 0.5).nonzero()
        return torch.vmap(lambda row: row.sin() * y)(x), places + 1, x[places[:, 0]] * 2

    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = torch.rand(6, 6), torch.rand(6)
        torch.testing.assert_close(compiled(x, y), program(x, y))
    assert lamina.counters()["graphs"] == 1


@pytest.mark.parametrize("program", [mapped_with_free_tensors, of_what_lies_around])
def test_one_capture_for_all_sizes(program: Program) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    for size in (3, 5, 8):
        x, y = arguments(size, size + 1)
        torch.testing.assert_close(compiled(x, y), program(x, y))
    assert lamina.counters()["graphs"] == 2


def test_what_the_function_changes_is_a_break() -> None:
    def program(x: torch.Tensor) -> Any:
        seen: list[int] = []

        def each(row: torch.Tensor) -> torch.Tensor:
            seen.append(1)
            return row + 1

        return torch.vmap(each)(x), seen

    with pytest.raises(Unsupported, match="changes a list"):
        lamina.compile(program, fullgraph=True)(torch.ones(3))
    found, seen = lamina.compile(program)(torch.ones(3))
    assert found.tolist() == [2, 2, 2]
    assert seen == [1]


def causal(batch: Any, head: Any, row: Any, column: Any) -> Any:
    return row >= column


class Attention(torch.nn.Module):
    """Attention with a bias by position, slopes by head and capped scores, under a mask made here or before."""

    bias: torch.Tensor
    slopes: torch.Tensor

    def __init__(self, size: int, makes_mask: bool) -> None:
        super().__init__()
        self.size = size
        self.makes_mask = makes_mask
        self.register_buffer("bias", torch.randn(2, size, size))
        self.register_buffer("slopes", torch.rand(2))
        self.mask = self.make_mask()

    def make_mask(self) -> Any:
        from torch.nn.attention.flex_attention import create_block_mask

        return create_block_mask(causal, None, None, self.size, self.size, device="cpu", BLOCK_SIZE=4)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
        from torch.nn.attention.flex_attention import flex_attention

        def change(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
            biased = score + self.bias[head, row, column] - self.slopes[head] * (row - column)
            return torch.tanh(biased / 5) * 5

        mask = self.make_mask() if self.makes_mask else self.mask
        return flex_attention(query, key, value, score_mod=change, block_mask=mask)


@pytest.mark.parametrize(("size", "makes_mask"), [(1, False), (7, False), (8, True)])
def test_flex_attention(size: int, makes_mask: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.attention import flex_attention

    # Eager would compile it with torch's compiler.
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    lamina.reset()
    torch.manual_seed(0)
    model = Attention(size, makes_mask)
    query, key, value = torch.randn(3, 2, 2, size, 6).transpose(2, 3).contiguous().transpose(2, 3).unbind()
    compiled = lamina.compile(model, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(query, key, value), model(query, key, value), check_stride=True)
    assert lamina.counters()["graphs"] == 1
