"""Programs of torch.export as input of `lamina.compile`: the module that each is, in one graph."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

import lamina


class Counting(torch.nn.Module):
    """Nested inputs and outputs, keywords, a buffer that counts calls, constants, an input handed back."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4).requires_grad_(False)
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("ones", torch.ones(4), persistent=False)
        self.positions = torch.arange(4.0)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0, extra: dict[str, Any]) -> dict[str, Any]:
        self.calls.add_(1)
        y = torch.relu(self.linear(x)) * scale + self.positions + self.ones
        return {"y": y * extra["a"] + extra["b"][0], "rest": (y.sum(0), x)}


@pytest.fixture(scope="module")
def counting() -> tuple[Counting, ExportedProgram]:
    model, rows = Counting(), Dim("rows", min=2, max=64)
    shapes = {"x": {0: rows}, "scale": None, "extra": {"a": None, "b": [None]}}
    program = export(model, (torch.randn(3, 8),), keywords(), dynamic_shapes=shapes)
    return model, program


def keywords() -> dict[str, Any]:
    return {"scale": 2.0, "extra": {"a": torch.randn(4), "b": [torch.randn(1)]}}


def test_all_sizes_of_the_program_from_the_first_call_on(counting) -> None:
    model, program = counting
    lamina.reset()
    fast = lamina.compile(program, fullgraph=True)
    assert fast.state_dict().keys() == model.state_dict().keys()
    for rows in (3, 5, 64):
        x, named = torch.randn(rows, 8), keywords()
        calls = model.calls.item()
        got = fast(x, **named)
        assert model.calls.item() == calls + 1
        torch.testing.assert_close(got, model(x, **named))
        assert list(got) == ["y", "rest"] and got["rest"][1] is x
        torch.testing.assert_close(fast(x, **dict(reversed(named.items()))), model(x, **named))
    counted = lamina.counters()
    assert (counted["graphs"], counted["breaks"]) == (2, 0)  # keywords in another order are another call
    assert counted["kernels"] == 4


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 65},
        {"columns": 9},
        {"scale": 3.0},
        {"scale": None},
        {"extra": {"a": torch.zeros(4)}},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_the_program_was_not_exported_for_is_the_modules_error(counting, change) -> None:
    program = counting[1]
    fast, module = lamina.compile(program), program.module()
    named = {**keywords(), **change}
    x = torch.randn(named.pop("rows", 3), named.pop("columns", 8))
    named = {name: value for name, value in named.items() if value is not None}
    with pytest.raises(Exception) as expected:
        module(x, **named)
    with pytest.raises(type(expected.value)) as got:
        fast(x, **named)
    assert str(got.value) == str(expected.value)


class Steps(torch.nn.Module):
    """Writes to an input, a region without gradients, a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4).requires_grad_(False)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        memory.mul_(0.5).add_(x.mean(0))
        with torch.no_grad():
            scale = torch.sigmoid(memory)
        return self.norm(x) * scale


def save_and_load(program: ExportedProgram) -> ExportedProgram:
    kept = io.BytesIO()
    torch.export.save(program, kept)
    kept.seek(0)
    return torch.export.load(kept)


@pytest.mark.parametrize("decomposed", [False, True])
def test_writes_and_saved_programs(decomposed: bool) -> None:
    model = Steps().eval()
    program = export(model, (torch.randn(6, 4), torch.zeros(4)))
    if decomposed:
        program = program.run_decompositions()
    for each in (program,) if decomposed else (program, save_and_load(program)):
        fast = lamina.compile(each)
        x, memory = torch.randn(6, 4), torch.randn(4)
        other = memory.clone()
        for _ in range(2):
            torch.testing.assert_close(fast(x, memory), model(x, other))
            torch.testing.assert_close(memory, other)


def test_sizes_that_depend_on_values_stay_in_the_graph() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x[mask].relu() * 2

    model = Rows()
    program = export(model, (torch.randn(6, 4), torch.tensor([True] * 3 + [False] * 3)))
    fast = lamina.compile(program)
    for count in (3, 4, 6, 2):
        x, mask = torch.randn(6, 4), torch.arange(6) < count
        torch.testing.assert_close(fast(x, mask), model(x, mask))
    assert not lamina.explain(fast, x, mask).breaks


def test_explain_and_modes_of_the_module(counting) -> None:
    program = counting[1]
    explanation = lamina.explain(program, torch.randn(4, 8), **keywords())
    assert len(explanation.graphs) == 1 and not explanation.breaks
    with pytest.raises(NotImplementedError):
        lamina.compile(program).train()


def test_a_program_inside_of_compiled_code(counting) -> None:
    model, program = counting
    inner = lamina.compile(program)

    def outer(x: torch.Tensor, named: dict[str, Any]) -> torch.Tensor:
        return inner(x * 2, **named)["y"] + 1

    fast, x, named = lamina.compile(outer, fullgraph=True), torch.randn(5, 8), keywords()
    torch.testing.assert_close(fast(x, named), model(x * 2, **named)["y"] + 1)
