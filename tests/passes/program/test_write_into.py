"""Products that write into the program's own memory: which do, exactly, and nothing of the caller's changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import lamina
from lamina.ir.facts import written_buffers
from lamina.ir.text import parse
from tests.parity.layouts import relay
from tests.passes.program.lowered import lower

Tensor = torch.Tensor


class Products(TorchDispatchMode):
    """Notes by which overload each matrix product is called: "default" ones give memory of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.overloads: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("mm", "bmm", "addmm", "baddbmm", "linear"):
            self.overloads.append(func._overloadname)
        return func(*args, **(kwargs or {}))


def scores(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x @ y.transpose(-2, -1), -1) @ y


PLANNED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mm": lambda x, y: (x[0] @ y[0].t()).relu() @ y[0] + 1,
    "bmm": lambda x, y: (torch.bmm(x, y.transpose(1, 2)).relu() @ y).tanh(),
    "addmm": lambda x, y: torch.addmm(x[0, 0], x[0], y[0].t() @ y[0], beta=2, alpha=3).tanh(),
    "baddbmm": lambda x, y: torch.baddbmm(x[:, :1], x, y.transpose(1, 2) @ y, beta=0.5).tanh(),
    "linear": lambda x, y: F.linear(F.linear(x[0], y[0]), y[0].t(), x[0, 0]).tanh(),
    "linear of batches": lambda x, y: F.linear(F.linear(x, y[0], x[0, 0, :7]), y[0].t()).tanh(),
    "linear of rank 4": lambda x, y: F.linear(x.view(3, 5, 2, 4), y[0, :, 4:]).tanh(),
    "repeated": lambda x, y: F.relu(F.relu(F.relu(x[0] @ y[0].t()) @ y[0]) @ y[0].t()) * 2,
    "broadcast": lambda x, y: (x[:1].expand(3, -1, -1) @ y.transpose(1, 2)).exp(),
    "turned": lambda x, y: (x[0] @ y[0].t()).t().exp() @ x[0],
}
"""What is returned comes from a kernel, but in "turned"; every product is small."""


def make(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))) / 2).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", PLANNED)
@torch.no_grad()
def test_products_allocate_nothing(name: str, dtype: torch.dtype) -> None:
    x, y = make(3, 5, 8, dtype=dtype), make(3, 7, 8, dtype=dtype)
    _, run = lower(PLANNED[name], x, y)
    for _ in range(2):
        with Products() as products:
            (result,) = run([x, y])
        torch.testing.assert_close(result, PLANNED[name](x, y))
        assert set(products.overloads) == ({"out", "default"} if name == "turned" else {"out"})


def test_with_out_torch_computes_the_same() -> None:
    """To the last bit, also on strange strides, no elements, and a linear layer's rows in a matrix."""
    rng = random.Random(0)
    for _ in range(80):
        dtype = rng.choice([torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64])
        batch, rows, inner, width = rng.choices([0, 1, 2, 3, 8, 17, 64], k=4)
        shapes = ((rows, inner), (inner, width), (batch, rows, inner), (batch, inner, width), (width,))
        x, y, xs, ys, bias = relay([make(*shape, dtype=dtype) for shape in shapes], rng)
        for function, args in (
            (torch.mm, (x, y)),
            (torch.bmm, (xs, ys)),
            (torch.addmm, (bias, x, y)),
            (torch.baddbmm, (bias, xs, ys)),
            (F.linear, (x, y.t())),
            (F.linear, (x, y.t(), bias)),
        ):
            expected = function(*args)
            given = torch.full(expected.shape, 7, dtype=dtype)
            assert torch.equal(function(*args, out=given), expected)
        xs = make(batch, rows, inner, dtype=dtype)
        for rest in ((), (bias.contiguous(),)):
            given = torch.full((batch * rows, width), 7, dtype=dtype)
            F.linear(xs.view(batch * rows, inner), y.t(), *rest, out=given)
            assert torch.equal(given.view(batch, rows, width), F.linear(xs, y.t(), *rest))


@torch.no_grad()
def test_a_call_leaves_the_results_of_the_ones_before() -> None:
    """Large products that are returned lie in the pool of outputs, which gives no memory twice."""

    def products(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        first = x @ y
        return first, first.t() @ first

    x, y = make(300, 8), make(8, 400)
    _, run = lower(products, x, y)
    kept = run([x, y])
    copies = [each.clone() for each in kept]
    other = x + 1
    with Products() as seen:
        later = run([other, y])
    assert seen.overloads == ["out", "out"]
    for one, copy, expected in zip(kept, copies, products(x, y), strict=True):
        assert torch.equal(one, copy)
        torch.testing.assert_close(one, expected)
    assert len({each.untyped_storage().data_ptr() for each in (*kept, *later)}) == 4


@torch.no_grad()
def test_memory_of_products_is_planned() -> None:
    """Of ten products in a row, two are alive at once."""
    lamina.reset()

    def chain(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(10):
            x = x @ y
        return x + 1

    x, y = make(64, 64), make(64, 64) / 8
    (graph,) = lamina.explain(chain, x, y).graphs
    assert graph.arena_bytes == 2 * 64 * 64 * 4
    torch.testing.assert_close(lamina.compile(chain)(x, y), chain(x, y))


@torch.no_grad()
def test_one_program_for_all_sizes() -> None:
    lamina.reset()
    layer = torch.nn.Linear(8, 8)

    def layered(x: Tensor, y: Tensor) -> Tensor:
        return layer(scores(layer(x), y)).relu()

    compiled = lamina.compile(layered, fullgraph=True)
    for length in (4, 9, 17, 5):
        x, y = make(2, length, 8), make(2, length + 1, 8)
        torch.testing.assert_close(compiled(x, y), layered(x, y))


def test_such_a_call_writes_its_last_operand() -> None:
    text = """"func.func"() ({
    ^bb0(%x: memref<4x4xf32>, %y: memref<4x4xf32>):
      "program.call"(%x, %x, %y) {args = [unit, unit], callee = "aten.mm.out", kwargs = {out}}
        : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
      "func.return"() : () -> ()
    }) {function_type = (memref<4x4xf32>, memref<4x4xf32>) -> (), sym_name = "f"} : () -> ()"""
    function = parse(text)
    call = function.body.first
    assert call is not None and written_buffers(call) == [function.body.arguments[1]]
