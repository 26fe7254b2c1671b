"""The disk cache of whole programs: what tells two programs apart, and what an entry gives back."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

import lamina
from lamina.driver.graph import compile_graph
from lamina.driver.kernels import STORE
from lamina.driver.program import Program
from lamina.driver.program_key import program_text
from lamina.driver.watch import Watch, counters
from lamina.options import Options

Tensor = torch.Tensor
LIBRARIES = frozenset({"mkl", "mkldnn"})


def text_of(function: Callable[..., Any], inputs: Sequence[Any], **options: Any) -> str | None:
    with torch.no_grad():
        return program_text(fx.symbolic_trace(function), inputs, (), Options(**options), LIBRARIES)


def scaled(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x) * 2.0 + y


def test_equal_programs_have_equal_texts() -> None:
    one = text_of(scaled, [torch.randn(3, 4), torch.randn(4)])
    other = text_of(scaled, [torch.randn(3, 4), torch.randn(4)])
    assert one is not None and one == other


def variants() -> dict[str, str | None]:
    """Texts of programs that differ in one thing each."""
    x, y = torch.randn(3, 4), torch.randn(4)
    shared = torch.randn(16)
    texts = {
        "base": text_of(scaled, [x, y]),
        "scalar": text_of(lambda x, y: torch.relu(x) * 2.5 + y, [x, y]),
        "integer for float": text_of(lambda x, y: torch.relu(x) * 2 + y, [x, y]),
        "negative zero": text_of(lambda x, y: torch.relu(x) * -0.0 + y, [x, y]),
        "zero": text_of(lambda x, y: torch.relu(x) * 0.0 + y, [x, y]),
        "function": text_of(lambda x, y: torch.abs(x) * 2.0 + y, [x, y]),
        "order": text_of(lambda x, y: y + torch.relu(x) * 2.0, [x, y]),
        "size": text_of(scaled, [torch.randn(4, 4), y]),
        "stride": text_of(scaled, [torch.randn(4, 3).t(), y]),
        "offset": text_of(scaled, [torch.randn(13)[1:].view(3, 4), y]),
        "dtype": text_of(scaled, [x.double(), y]),
        "parameter": text_of(scaled, [x, torch.nn.Parameter(y, requires_grad=False)]),
        "shared memory": text_of(scaled, [shared[:12].view(3, 4), shared[12:]]),
        "memory apart": text_of(scaled, [shared[:12].view(3, 4), shared.clone()[12:]]),
        "option": text_of(scaled, [x, y], numerics="eager"),
        "number as input": text_of(lambda x, y: x * y, [x, 2]),
        "other number as input": text_of(lambda x, y: x * y, [x, 3]),
    }
    torch.set_default_dtype(torch.float64)
    try:
        texts["default dtype"] = text_of(scaled, [x, y])
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu"):
        texts["autocast"] = text_of(scaled, [x, y])
    with torch.inference_mode():
        texts["inference mode"] = program_text(fx.symbolic_trace(scaled), [x, y], (), Options(), LIBRARIES)
    texts["kinds"] = program_text(
        fx.symbolic_trace(scaled), [x, y], ("input", "buffer"), Options(), LIBRARIES
    )
    return texts


def test_whatever_differs_has_another_text() -> None:
    texts = variants()
    assert all(text is not None for text in texts.values())
    by_text: dict[Any, str] = {}
    for name, text in texts.items():
        assert by_text.setdefault(text, name) == name


class WithConstant(torch.nn.Module):
    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.value


def test_constants_count_by_their_content() -> None:
    x = torch.randn(2)
    texts = [
        text_of(WithConstant(torch.tensor(value)), [x]) for value in ([1.0, 2.0], [1.0, 3.0], [1.0, 2.0])
    ]
    assert texts[0] == texts[2] != texts[1]
    assert text_of(WithConstant(torch.zeros(1 << 20)), [x]) is None


def test_what_has_no_certain_name_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2)
    own = fx.Graph()
    own.output(own.call_function(lambda value: value + 1, (own.placeholder("x"),)))
    assert program_text(fx.GraphModule({}, own), [x], (), Options(), LIBRARIES) is None

    class Mine(Tensor):
        pass

    assert text_of(lambda x: torch.relu(x), [x.as_subclass(Mine)]) is None
    graph = fx.symbolic_trace(lambda x: torch.relu(x))
    assert program_text(graph, [x], (), Options(), LIBRARIES) is not None
    with torch.overrides.BaseTorchFunctionMode():
        assert program_text(graph, [x], (), Options(), LIBRARIES) is None
    monkeypatch.setattr(torch.library, "_impls", {*torch.library._impls, "aten/relu/CPU"})
    assert program_text(graph, [x], (), Options(), LIBRARIES) is None


PROGRAMS: dict[str, Callable[..., Any]] = {
    "fresh": lambda x, y: (x + y, x * 2),
    "views": lambda x, y: ((z := x + y), z[0], x.t()),
    "input itself": lambda x, y: (x, y * 2, x),
    "constants": lambda x, y: (x + y, 3, -0.0, None, "text", True, float("nan")),
    "mutation": lambda x, y: (x.add_(y), y.exp()),
    "product": lambda x, y: (
        torch.nn.functional.linear(x, y.expand(5, 4)),
        torch.tensor([1.5, 2.5]) + x[:, :2],
    ),
    "mapped": lambda x, y: (torch.vmap(lambda row: row.sin() * y)(x),),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_entry_gives_the_program_back(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    options = {"cache_dir": str(tmp_path)}
    x, y = torch.randn(3, 4), torch.randn(4)
    results = []
    with torch.no_grad():
        expected_x = x.clone()
        expected = program(expected_x, y)
        for round_ in range(2):
            STORE.clear()
            counters.reset()
            given = x.clone()
            results.append((lamina.compile(program, fullgraph=True, options=options)(given, y), given))
            assert (counters.kernel_compilations == 0) == (round_ == 1 or counters.kernels == 0)
    assert len(list((tmp_path / "program").rglob("*"))) > 0 and counters.cache_hits > 0
    for result, given in results:
        torch.testing.assert_close(given, expected_x)
        assert len(result) == len(expected)
        for ours, eagers in zip(result, expected, strict=True):
            if isinstance(eagers, str):
                assert ours == eagers
            else:
                torch.testing.assert_close(ours, eagers, equal_nan=True)
        if name == "views":
            assert result[1].data_ptr() == result[0].data_ptr() and result[2].data_ptr() == given.data_ptr()
        if name == "input itself":
            assert result[0] is given and result[2] is given


def test_the_second_reading_is_the_first(tmp_path: Path) -> None:
    """The record of a program and of its explanation survive the way through text."""
    graph = fx.symbolic_trace(lambda x, y: (torch.relu(x @ y) + 1, x.t()))
    inputs = [torch.randn(3, 4), torch.randn(4, 5)]
    options = Options(cache_dir=str(tmp_path))
    with torch.no_grad():
        first = compile_graph(graph, inputs, options, Watch())
        second = compile_graph(graph, inputs, options, Watch())
    assert "trace" in first.report.seconds and "trace" not in second.report.seconds
    assert dataclasses.replace(first.report, seconds={}) == dataclasses.replace(second.report, seconds={})
    assert first.is_repeatable and second.is_repeatable


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-5] if how == "half written" else b"#!/bin/sh\n")


@pytest.mark.parametrize("how", ["half written", "foreign"])
@pytest.mark.parametrize("kind", ["program", "object", "kernel"])
def test_a_damaged_entry_is_rebuilt_with_one_warning(kind: str, how: str, tmp_path: Path) -> None:
    options = {"cache_dir": str(tmp_path)}
    x, y = torch.randn(3, 4), torch.randn(4)

    def call() -> Tensor:
        STORE.clear()
        STORE.libraries.clear()
        with torch.no_grad():
            return lamina.compile(scaled, fullgraph=True, options=options)(x, y)

    call()
    for path in (tmp_path / kind).rglob("*"):
        if path.is_file():
            damage(path, how)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.testing.assert_close(call(), scaled(x, y))
    assert len([each for each in told if "rebuilt" in str(each.message)]) == 1
    counters.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(call(), scaled(x, y))
    assert counters.kernel_compilations == 0


def test_text_that_is_no_program_is_rebuilt(tmp_path: Path) -> None:
    """A sound file with a wrong record: written by another version, say."""
    from lamina.driver.graph import find_program
    from lamina.ir import machine
    from lamina.runtime.cache import Cache, key_of

    options = Options(cache_dir=str(tmp_path))
    cache = Cache(tmp_path)
    for payload in (b"{}", b"\xff", b"[1, 2]"):
        cache.put("program", key_of("text", machine.identity(options)), payload)
        cache.is_warned = False
        with pytest.warns(UserWarning, match="not readable"):
            assert find_program("text", options, cache, Watch()) is None
    with pytest.raises(ValueError):
        Program.from_bytes(b"no json")
