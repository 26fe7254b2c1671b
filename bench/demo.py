"""`make demo`: BERT-base, GPT-2, ResNet-50 compiled and compared with eager, and one example's memory
traffic.

Weights are random and nothing is downloaded. Needs a minute or two; the numbers are this machine's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import lamina
from bench.accuracy import largest_error, reference_of
from bench.peers.peer import call_with
from bench.timing import time_calls
from bench.workloads import Example, get

NETWORKS = {"bert": "BERT-base, 128 tokens", "gpt2": "GPT-2, 128 tokens", "resnet50": "ResNet-50, 224 x 224"}
FUSION_EXAMPLE = "norm-linear-gelu"
ROUNDS = 5


@dataclass(frozen=True)
class Comparison:
    """One program in eager and compiled. kernels: launches of a call; bytes: read and written by a call."""

    eager_seconds: float
    lamina_seconds: float
    compile_seconds: float
    eager_error: float
    lamina_error: float
    eager_kernels: int
    generated_kernels: int
    library_calls: int
    eager_bytes: int
    lamina_bytes: int
    least_bytes: int


def compare(example: Example) -> Comparison:
    """Compile, check against float64, time in alternating rounds, read the compiler's own accounting."""
    compiled = lamina.compile(example.function)
    start = time.perf_counter()
    result = compiled(*example.args, **example.kwargs)
    compile_seconds = time.perf_counter() - start
    reference = reference_of(example)
    eager_error = largest_error(example.function(*example.args, **example.kwargs), reference)
    eager, ours = alternate(call_with(example.function, example), call_with(compiled, example))
    graphs = lamina.explain(example.function, *example.args, **example.kwargs).graphs
    return Comparison(
        eager_seconds=eager,
        lamina_seconds=ours,
        compile_seconds=compile_seconds,
        eager_error=eager_error,
        lamina_error=largest_error(result, reference),
        eager_kernels=sum(graph.operations for graph in graphs),
        generated_kernels=sum(graph.launches for graph in graphs),
        library_calls=sum(sum(graph.externs.values()) for graph in graphs),
        eager_bytes=sum(graph.traffic.eager for graph in graphs),
        lamina_bytes=sum(graph.traffic.lamina for graph in graphs),
        least_bytes=sum(graph.traffic.least for graph in graphs),
    )


def alternate(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[float, float]:
    """Median seconds of a call of each, in rounds that alternate."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        times[0].append(time_calls(first, seconds=0.2))
        times[1].append(time_calls(second, seconds=0.2))
    return statistics.median(times[0]), statistics.median(times[1])


def draw(comparisons: dict[str, Comparison]) -> Table:
    """One column a program."""
    table = Table(
        title=f"eager against lamina, {torch.get_num_threads()} threads, float32", title_justify="left"
    )
    table.add_column("")
    for name in comparisons:
        table.add_column(name, justify="right")
    rows: dict[str, Callable[[Comparison], str]] = {
        "eager, ms": lambda c: f"{c.eager_seconds * 1e3:.1f}",
        "lamina, ms": lambda c: f"{c.lamina_seconds * 1e3:.1f}",
        "times faster": lambda c: f"{c.eager_seconds / c.lamina_seconds:.2f}",
        "compile, s": lambda c: f"{c.compile_seconds:.1f}",
        "error against float64, eager": lambda c: f"{c.eager_error:.1e}",
        "error against float64, lamina": lambda c: f"{c.lamina_error:.1e}",
        "kernels, eager": lambda c: str(c.eager_kernels),
        "kernels, lamina": lambda c: f"{c.generated_kernels} + {c.library_calls} library calls",
        "MB moved, eager": lambda c: f"{c.eager_bytes / 2**20:.0f}",
        "MB moved, lamina": lambda c: f"{c.lamina_bytes / 2**20:.0f}",
    }
    for label, show in rows.items():
        table.add_row(label, *(show(comparison) for comparison in comparisons.values()))
    return table


def show(console: Console, title: str, workload: str) -> Comparison:
    """Compare one workload; says what it is at, and a line when it is done."""
    with console.status(f"{title}: building, compiling, measuring"):
        comparison = compare(get(workload).build())
    speed = comparison.eager_seconds / comparison.lamina_seconds
    console.print(f"{title}: compiled in {comparison.compile_seconds:.1f} s, {speed:.2f} times eager's speed")
    return comparison


def describe_traffic(example: Comparison) -> str:
    """What the fusion example moves: 40 MB in eager by hand count, 24 at least."""
    eager, ours, least = (
        f"{count / 2**20:.1f} MB"
        for count in (example.eager_bytes, example.lamina_bytes, example.least_bytes)
    )
    return (
        "LayerNorm -> Linear -> GELU (activations 4 MB, weights 16 MB), by the compiler's own accounting: "
        f"{eager} in eager, {ours} with lamina, {least} at least; "
        f"{example.eager_seconds * 1e3:.1f} ms in eager, {example.lamina_seconds * 1e3:.1f} ms with lamina."
    )


def main() -> int:
    """Compare, print; 1 where a compiled result is further from float64 than twice eager's."""
    console = Console()
    comparisons = {}
    with torch.no_grad():
        for name, title in NETWORKS.items():
            comparisons[title] = show(console, title, name)
        example = show(console, "LayerNorm -> Linear -> GELU", FUSION_EXAMPLE)
    console.print(draw(comparisons))
    console.print(describe_traffic(example), highlight=False)
    everything = [*comparisons.values(), example]
    is_right = all(each.lamina_error <= max(2 * each.eager_error, 1e-6) for each in everything)
    console.print("results: right" if is_right else "results: NOT within twice eager's own error")
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
