"""One program and its kernels for all sizes: kernels are built once, each result is eager's, text is MLIR."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import lamina
from lamina.capture import trace
from lamina.driver.levels import texts_by_level
from lamina.driver.open_sizes import OpenGraph, OpenProgram, open_fakes
from lamina.driver.watch import Watch
from lamina.ir.compare import equal
from lamina.ir.sizes import Decisions, deciding
from lamina.ir.text import parse_module, print_module
from lamina.ir.verify import verify
from lamina.options import Options
from tests.ir.upstream import HAS_MLIR, LEGAL_TABLES, UPSTREAM_LEVELS, judge

torch.manual_seed(0)
LINEAR = torch.nn.Linear(8, 16).requires_grad_(False)
KERNEL = torch.randn(4, 3, 3, 3)
ENCODER = torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False
).eval()
IMAGES = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(8, 8, 3),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(8, 5),
).eval()
NORMED = torch.nn.LayerNorm(40).requires_grad_(False)


def make(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int, int], tuple[Any, ...]]]] = {
    "scale": (lambda x: x * 2 + 1, lambda n, m: (make(n, 8),)),
    "broadcast": (lambda x, y: torch.tanh(x + y) * x, lambda n, m: (make(n, m), make(m))),
    "softmax of rows": (lambda x: torch.softmax(x, -1), lambda n, m: (make(n, m),)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), lambda n, m: (make(n, m),)),
    "layer norm": (NORMED, lambda n, m: (make(n, 40),)),
    "layer norm of all": (
        lambda x: functional.layer_norm(x, (x.shape[-1],)),
        lambda n, m: (make(4, n * m),),
    ),
    "mean and variance": (lambda x: (x.mean(-1), x.var(0)), lambda n, m: (make(n, m),)),
    "sum": (lambda x: x.sum(), lambda n, m: (make(n, m),)),
    "position": (lambda x: (x.argmax(-1), x.argmin(0)), lambda n, m: (make(n, m),)),
    "transposed": (lambda x, y: x.t() * 2 + y, lambda n, m: (make(n, m + 40), make(m + 40, n))),
    "strided": (lambda x, y: torch.relu(x) + y, lambda n, m: (make(n, 2 * m)[:, ::2], make(m, n).t())),
    "linear": (lambda x: torch.relu(LINEAR(x)), lambda n, m: (make(n, m, 8),)),
    "product": (lambda x, y: torch.relu(x @ y) + 1, lambda n, m: (make(n, m), make(m, n + m))),
    "heads": (
        lambda x: x.view(-1, 2, 4).transpose(0, 1).reshape(2, -1) * 2,
        lambda n, m: (make(n, m, 8),),
    ),
    "concatenation": (lambda x, y: torch.cat([x * 2, y + 1], 1), lambda n, m: (make(n, m), make(n, 5))),
    "slice": (lambda x: x[2:, 1:-1] * 2, lambda n, m: (make(n + 2, m + 4),)),
    "slice of half": (lambda x: x[: x.shape[0] // 2] * 2, lambda n, m: (make(n + 4, 8),)),
    "padding": (lambda x: functional.pad(x, (1, 2)) * 2, lambda n, m: (make(n, m),)),
    "triangle": (lambda x: torch.tril(x) + x.flip(0), lambda n, m: (make(n, m),)),
    "positions": (lambda x: x + torch.arange(x.shape[1]) * x.shape[0], lambda n, m: (make(n, m),)),
    "gather": (lambda x, i: x[i] * 2, lambda n, m: (make(n, 6), torch.randint(0, n, (m,)))),
    "convolution": (
        lambda x: torch.relu(functional.conv2d(x, KERNEL, stride=2)),
        lambda n, m: (make(2, 3, n + 5, m + 5),),
    ),
    "padded": (
        lambda x: functional.pad(functional.conv2d(x, KERNEL, stride=2), (1, 1, 1, 1)) * 2,
        lambda n, m: (make(2, 3, n + 5, m + 5),),
    ),
    "halved and padded": (
        lambda x: functional.pad(functional.conv2d(x, KERNEL, stride=2, padding=1), (0, 1, 0, 1)) * 2,
        lambda n, m: (make(2, 3, 2 * n + 5, 2 * m + 5),),
    ),
    "upsampled": (
        lambda x: functional.interpolate(functional.conv2d(x, KERNEL, stride=2), scale_factor=2) + 1,
        lambda n, m: (make(2, 3, n + 5, m + 5),),
    ),
    "attention": (
        lambda q, k: functional.scaled_dot_product_attention(q, k, k) * 2,
        lambda n, m: (make(2, 4, n, 16), make(2, 4, m, 16)),
    ),
    "encoder": (ENCODER, lambda n, m: (make(n, m, 32),)),
    "images": (IMAGES, lambda n, m: (make(2 + n % 8, 3, n + 7, m + 8),)),
    "number": (lambda x, n: x[:n].amax(0) * n, lambda n, m: (make(70, 8), n)),
    "bools": (lambda x: (x > 0).sum(0), lambda n, m: (make(n, m),)),
    "bfloat16": (lambda x: torch.softmax(x * 2, -1), lambda n, m: (make(n, m).bfloat16(),)),
    "integers": (lambda x: (x * 3 // 2).amax(0), lambda n, m: (torch.randint(-50, 50, (n, m)),)),
}
SIZES = [(3, 4), (5, 9), (7, 13), (16, 8), (2, 31), (33, 2), (64, 67), (6, 128)]
"""Two that make it dynamic, then primes, whole vectors, less than one, and one more."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_new_size_builds_no_kernel(name: str) -> None:
    if name == "encoder" and torch.__version__ < (2, 12):
        pytest.skip("its fused operator has no shape rule for sizes that vary")
    function, arguments = PROGRAMS[name]
    compiled = lamina.compile(function)
    built = []
    with torch.no_grad():
        for n, m in SIZES:
            given = arguments(n, m)
            torch.testing.assert_close(compiled(*given), function(*given))
            built.append(lamina.counters()["kernel_compilations"])
    assert built[1:] == [built[1]] * (len(SIZES) - 1)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(2))
def test_random_sizes(name: str, seed: int) -> None:
    function, arguments = PROGRAMS[name]
    compiled, source = lamina.compile(function), random.Random(f"{name} {seed}")
    with torch.no_grad():
        for _ in range(8):
            given = arguments(source.randint(2, 70), source.choice([2, 3, 17, source.randint(2, 300)]))
            torch.testing.assert_close(compiled(*given), function(*given))


def test_written_inputs_and_views_of_them() -> None:
    def function(x, y):
        x.add_(y)
        return x[1:], (x * 2).sum(0), x.shape[0]

    compiled = lamina.compile(function)
    for n in (3, 4, 6, 9):
        x, y = make(n, 5), make(5)
        other = x.clone()
        outputs = compiled(x, y)
        torch.testing.assert_close(outputs, function(other, y))
        torch.testing.assert_close(x, other)
        assert outputs[0].data_ptr() == x[1:].data_ptr()


def test_rows_that_lie_far_apart() -> None:
    """Places of elements are computed in 64 bits."""
    step = 2**30 + 8
    memory = torch.empty(3 * step + 64, dtype=torch.int8)

    def rows(n: int) -> torch.Tensor:
        view = memory.as_strided((n, 40), (step, 1))
        view.copy_(torch.randint(-9, 9, (n, 40), dtype=torch.int8))
        return view

    def function(x):
        return x * 2 + 1, x.amax(0)

    compiled = lamina.compile(function)
    for n in (2, 3, 4):
        x = rows(n)
        torch.testing.assert_close(compiled(x), function(x))


def make_program(
    function: Callable[..., Any], inputs: list[Any], varying: list[tuple[int, int | None]]
) -> tuple[OpenGraph, OpenProgram]:
    with torch.no_grad():
        captured = trace(function, tuple(inputs), {})
        graph = OpenGraph(captured.graph_module, ["input"] * len(inputs), varying, Options(cache=False))
        return graph, graph.compile(inputs, Watch())


def test_sizes_that_are_equal_at_first_may_differ_later() -> None:
    _, program = make_program(lambda x, y: (x * 2, y.sum(0)), [make(3, 4), make(3, 4)], [(0, 0), (1, 0)])
    assert program.program.conditions == []
    x, y = make(5, 4), make(7, 4)
    torch.testing.assert_close(program.bind([x, y], Watch())([x, y]), [x * 2, y.sum(0)])


def test_what_was_taken_for_granted_is_a_condition() -> None:
    _, program = make_program(lambda x, y: x + y, [make(3, 4), make(3, 4)], [(0, 0), (1, 0)])
    assert [str(each) for each in program.program.conditions] == ["s0 - s1 == 0"]
    assert program.holds([make(9, 4), make(9, 4)])
    assert not program.holds([make(9, 4), make(8, 4)])
    assert not program.holds([make(1, 4), make(1, 4)])


def test_a_float_is_no_size(tmp_path: Path) -> None:
    """Neither here nor as a program found on disk that was made for ints."""

    def function(x, n):
        return x * n + n

    options = {"cache": True, "cache_dir": str(tmp_path)}
    for numbers in ((2, 3, 4, 5), (2.5, 3.5, 4.5, 2.0)):
        compiled = lamina.compile(function, dynamic=True, options=options)
        for number in numbers:
            x = torch.tensor(2.0)
            torch.testing.assert_close(compiled(x, number), function(x, number))


def test_a_graph_that_needs_a_size_says_so(tmp_path: Path) -> None:
    def function(x):
        return torch.ops.aten.tril_indices(x.shape[0], x.shape[0])[0, 0] + x * 0.7183

    options = {"cache": True, "cache_dir": str(tmp_path)}
    compiled, counts = lamina.compile(function, options=options), []
    for n in (3, 4, 5, 6):
        x = make(n, 3)
        torch.testing.assert_close(compiled(x), function(x))
        counts.append(lamina.counters()["kernel_compilations"])
    assert counts == sorted(set(counts))
    remarks = [each for graph in lamina.explain(compiled, make(6, 3)).graphs for each in graph.remarks]
    remark = next(each for each in remarks if each["pass"] == "sizes")
    assert remark["kind"] == "refused" and "tril_indices" in remark["text"]
    assert remark["file"] == __file__


@pytest.mark.filterwarnings("default:lamina. compiling failed")
def test_a_bug_is_seen_and_each_set_of_sizes_is_compiled_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(graph: OpenGraph, inputs: object, watch: object) -> None:
        raise IndexError("a mistake of ours")

    monkeypatch.setattr(OpenGraph, "compile", fail)
    compiled = lamina.compile(lambda x: torch.tanh(x) * 0.5918, dynamic=True)
    with pytest.warns(UserWarning, match="IndexError: a mistake of ours; each set of sizes"):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.tanh(torch.ones(3)) * 0.5918)
    torch.testing.assert_close(compiled(torch.ones(4)), torch.tanh(torch.ones(4)) * 0.5918)


MODELS = """
import sys, torch, lamina
function = lamina.compile(lambda x, w: torch.softmax(torch.relu(x @ w)[1:] * 2, -1), dynamic=True)
for n in map(int, sys.argv[1:]):
    x, w = torch.randn(n, 12), torch.randn(12, n + 3)
    torch.testing.assert_close(function(x, w), torch.softmax(torch.relu(x @ w)[1:] * 2, -1))
print(lamina.counters()["kernel_compilations"], lamina.counters()["cache_hits"])
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    def run(*sizes: str) -> list[int]:
        environment = {"LAMINA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", MODELS, *sizes]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        return [int(number) for number in done.stdout.split()]

    assert run("5", "6")[0] > 0
    built, hits = run("9", "4", "17")
    assert built == 0 and hits > 0


CASES: dict[str, tuple[Callable[..., Any], list[torch.Tensor], list[tuple[int, int | None]]]] = {
    "softmax": (lambda x: torch.softmax(x * 2 + 1, -1), [make(5, 37)], [(0, 0), (0, 1)]),
    "mean": (lambda x: x.mean(0), [make(5, 37)], [(0, 0), (0, 1)]),
    "transposed": (
        lambda x, y: x.t() + y,
        [make(50, 37), make(37, 50)],
        [(0, 0), (0, 1), (1, 0), (1, 1)],
    ),
    "concatenation": (
        lambda x, y: torch.cat([x, y + 1], 1)[:, 1:],
        [make(50, 37), make(50, 4)],
        [(0, 0), (0, 1), (1, 0)],
    ),
    "convolution": (
        lambda x: torch.relu(torch.conv2d(x, KERNEL)),
        [make(5, 3, 9, 11)],
        [(0, 0), (0, 2), (0, 3)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_level_is_text(name: str) -> None:
    function, inputs, varying = CASES[name]
    with torch.no_grad():
        captured = trace(function, tuple(inputs), {})
        kinds = ["input"] * len(captured.example_inputs)
        graph = OpenGraph(captured.graph_module, kinds, varying, Options())
        given = captured.fetch_inputs(tuple(inputs), {})
        fakes, sizes = open_fakes(given, graph.dimensions(), {})
        texts = texts_by_level(captured.graph_module, fakes, Options(), kinds, sizes)
    for level, modules in texts.items():
        for text in modules if level != "llvm_ir" else ():
            module = parse_module(text)
            again = print_module(module, locations=True)
            assert again == text and equal(parse_module(again), module)
            if level in LEGAL_TABLES:
                with deciding(Decisions(sizes.hints)):
                    verify(module, LEGAL_TABLES[level])
    if HAS_MLIR:
        kernels = [text for level in UPSTREAM_LEVELS for text in texts[level]]
        shown = [print_module(parse_module(text), names=False) for text in kernels]
        is_accepted, told = judge("".join(shown))
        assert is_accepted, told[:3000]


def test_a_program_holds_for_the_strides_it_was_made_for() -> None:
    graph = trace(lambda x: x * 2 + 1, (make(3, 5),), {}).graph_module
    program = OpenGraph(graph, ["input"], [(0, 0), (0, 1)], Options()).compile([make(3, 5)], Watch())
    assert program.holds([make(7, 4)])
    assert not program.holds([make(4, 7).t()])
    assert not program.holds([make(7, 8)[:, ::2]])
