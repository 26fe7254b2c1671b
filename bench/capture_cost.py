"""`python -m bench.capture_cost`: seconds of each network's first capture, against torch.compile's own.

Each measurement has a fresh process with empty caches. Ours is `lamina.capture.trace` of the first call,
which captures whole; torch.compile's is the first call with `backend="eager"`, which captures and compiles
nothing, less an eager call. Both are imported before the clock starts, as a program does at its own start.
Seconds are the calling thread's own, and it is the only one: threads that wait for each other would be in the
eager call.

torch.compile as it comes may not capture a network in one graph: it leaves nn.LSTM to eager, and its graphs
are empty. Then a second pair of columns has what the whole takes: `fullgraph=True`, `allow_rnn` switched on.
"""

from __future__ import annotations

import importlib
import statistics
import time

import torch

from bench.fresh import Measurement, Numbers
from bench.workloads import NETWORKS, Example, get

SYSTEMS = ("lamina", "torch")
WHOLE = "torch, whole"
EAGER_CALLS = 5


def measure(name: str, system: str) -> Numbers:
    """Seconds of one capture in this process, and whether it gave the network in one graph."""
    torch.set_num_threads(1)
    example = get(name).build()
    with torch.no_grad():
        example.function(*example.args, **example.kwargs)
        if system == "lamina":
            from lamina.capture import trace

            start = time.thread_time()
            trace(*example, fullgraph=True)
            return time.thread_time() - start, True
        return measure_torch(example, is_whole=system == WHOLE)


def measure_torch(example: Example, *, is_whole: bool) -> Numbers:
    """The same for torch.compile. is_whole: all in one graph is asked for."""
    # Before the clock starts, as lamina is.
    dynamo = importlib.import_module("torch._dynamo")
    dynamo.config.allow_rnn |= is_whole
    function, args, kwargs = example
    eager = []
    for _ in range(EAGER_CALLS):
        start = time.thread_time()
        function(*args, **kwargs)
        eager.append(time.thread_time() - start)
    compiled = torch.compile(function, backend="eager", fullgraph=is_whole)
    start = time.thread_time()
    compiled(*args, **kwargs)
    seconds = time.thread_time() - start - statistics.median(eager)
    counters = dynamo.utils.counters
    frames = counters["frames"]
    is_one = counters["stats"]["unique_graphs"] == 1 and frames["ok"] == frames["total"]
    return seconds, is_one and not counters["graph_break"]


MEASUREMENT = Measurement("bench.capture_cost", measure)


def main() -> None:
    """Print a row a network, and the largest and the mean ratio."""
    networks, rounds = MEASUREMENT.parse(__doc__, [workload.name for workload in NETWORKS])
    ratios = []
    print(f"{'network':<14} {'lamina s':>9} {'torch s':>9} {'ratio':>6} {'whole s':>9} {'ratio':>6}")
    for name in networks:
        found = MEASUREMENT.medians(name, SYSTEMS, rounds)
        (ours, _), (theirs, is_one) = (found[system] for system in SYSTEMS)
        ratios.append(ours / theirs)
        row = f"{name:<14} {ours:9.3f} {theirs:9.3f} {ratios[-1]:6.2f}"
        if not is_one:
            whole, _ = MEASUREMENT.medians(name, (WHOLE,), rounds)[WHOLE]
            row += f" {whole:9.3f} {ours / whole:6.2f}"
        print(row, flush=True)
    print(f"largest {max(ratios):.2f}, geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
