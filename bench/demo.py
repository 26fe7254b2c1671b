"""The main job, as `make demo` runs it: three real networks compiled and compared with eager, and where their
memory traffic goes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import lamina
from bench.accuracy import largest_error, reference_of
from bench.workloads import Example, get

NETWORKS = ("bert", "gpt2", "resnet50")
EXAMPLE = "norm-linear-gelu"
ROUNDS = 9
MEGABYTE = 1e6


def main() -> None:
    """Compile, check and time the networks; then the traffic of the LayerNorm -> Linear -> GELU example."""
    console = Console(width=132)
    console.print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, random weights\n")
    table = Table(title="eager against lamina", title_justify="left")
    for heading in (
        "network", "eager ms", "lamina ms", "speed-up", "error eager", "error lamina", "kernels", "bytes moved", "compile s",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "network" else "right")
    with torch.no_grad():
        for name in NETWORKS:
            with console.status(f"{name}: compile, check against float64, time"):
                table.add_row(name, *run_network(get(name).build()))
        console.print(table)
        console.print("error: largest distance from the same network in float64, over its largest value")
        console.print("kernels, bytes moved: op by op in eager -> lamina's kernels and library calls\n")
        show_traffic(console, get(EXAMPLE).build())


def run_network(example: Example) -> list[str]:
    """The row of one network."""
    function, args, kwargs = example
    compiled = lamina.compile(function, fullgraph=True)
    started = time.perf_counter()
    result = compiled(*args, **kwargs)
    compile_seconds = time.perf_counter() - started
    reference = reference_of(example)
    errors = largest_error(function(*args, **kwargs), reference), largest_error(result, reference)
    eager, ours = time_in_turn([lambda: function(*args, **kwargs), lambda: compiled(*args, **kwargs)])
    (graph,) = lamina.explain(compiled, *args, **kwargs).graphs
    traffic = graph.traffic
    return [
        f"{eager * 1e3:.1f}",
        f"{ours * 1e3:.1f}",
        f"{eager / ours:.2f}x",
        *(f"{error:.1e}" for error in errors),
        f"{graph.operations} -> {graph.launches + sum(graph.externs.values())}",
        f"{traffic.eager / MEGABYTE:.0f} -> {traffic.lamina / MEGABYTE:.0f} MB",
        f"{compile_seconds:.2f}",
    ]


def time_in_turn(sides: list[Callable[[], Any]]) -> list[float]:
    """Median seconds of each side, in alternating rounds."""
    times: list[list[float]] = [[] for _ in sides]
    for side in sides:
        side()
    for _ in range(ROUNDS):
        for side, taken in zip(sides, times, strict=True):
            started = time.perf_counter()
            side()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in times]


def show_traffic(console: Console, example: Example) -> None:
    """Bytes moved by LayerNorm -> Linear -> GELU: by eager, by lamina now, and the least possible."""
    function, args, kwargs = example
    (graph,) = lamina.explain(function, *args, **kwargs).graphs
    table = Table(title="LayerNorm -> Linear -> GELU: bytes moved", title_justify="left")
    for heading in ("", "eager", "lamina", "least possible"):
        table.add_column(heading, justify="right")
    traffic = graph.traffic
    totals = (traffic.eager, traffic.lamina, traffic.least)
    table.add_row("MB", *(f"{size / 2**20:.1f}" for size in totals))
    console.print(table)
    console.print("The least possible needs the normalisation and the GELU inside the matrix product.")


if __name__ == "__main__":
    main()
