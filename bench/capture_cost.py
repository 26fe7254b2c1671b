"""`python -m bench.capture_cost`: seconds of the first capture of each network, against torch.compile's own.

Each measurement has a fresh process. Ours is `lamina.capture.trace` of the first call; torch.compile's is the
first call with `backend="eager"`, which captures and compiles nothing, less a later eager call. Both are
imported before the clock starts, as a program does at its own start.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time

import torch

from bench.process import write_bytecode
from bench.workloads import NETWORKS, get

SYSTEMS = ("lamina", "torch")


def measure(name: str, system: str) -> float:
    """Seconds of one capture in this process."""
    function, args, kwargs = get(name).build()
    with torch.no_grad():
        function(*args, **kwargs)
        start = time.perf_counter()
        function(*args, **kwargs)
        eager = time.perf_counter() - start
        if system == "lamina":
            from lamina.capture import trace

            start = time.perf_counter()
            trace(function, args, kwargs, fullgraph=True)
            return time.perf_counter() - start
        importlib.import_module("torch._dynamo")  # before the clock starts, as lamina is

        compiled = torch.compile(function, backend="eager")
        start = time.perf_counter()
        compiled(*args, **kwargs)
        return time.perf_counter() - start - eager


def measure_apart(name: str, system: str) -> float:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "bench.capture_cost", "--one", name, system]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds: float = json.loads(done.stdout.splitlines()[-1])
    return seconds


def main() -> None:
    """Print a row a network, and the largest and the mean ratio."""
    parser = argparse.ArgumentParser(prog="python -m bench.capture_cost", description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("WORKLOAD", "SYSTEM"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="processes a system, taking turns")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return
    write_bytecode()
    ratios = []
    print(f"{'network':<14} {'lamina s':>9} {'torch s':>9} {'ratio':>6}")
    for workload in NETWORKS:
        times: dict[str, list[float]] = {system: [] for system in SYSTEMS}
        for _ in range(arguments.rounds):
            for system in SYSTEMS:
                times[system].append(measure_apart(workload.name, system))
        ours, theirs = (statistics.median(times[system]) for system in SYSTEMS)
        ratios.append(ours / theirs)
        print(f"{workload.name:<14} {ours:9.2f} {theirs:9.2f} {ratios[-1]:6.2f}", flush=True)
    print(f"largest {max(ratios):.2f}, geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
