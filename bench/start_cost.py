"""`python -m bench.start_cost`: what lamina adds to the start of a program that has run before.

Each measurement has a fresh process, whose clock runs from before `import lamina` to the end of the first
call; lamina's finds its program and kernels on disk, eager's is the same program without it. Seconds are the
calling thread's own (threads that wait for work spin, and other programs take their share of the machine);
those on the clock are beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from bench.peers import PEERS
from bench.process import ROOT, write_bytecode
from bench.workloads import NETWORKS, get

SYSTEMS = ("eager", "lamina")
TARGET = 1.5
"""Seconds that a second process may start later than eager's."""
Seconds = tuple[float, float]
"""Of the calling thread, and on the clock."""


def measure(name: str, system: str) -> Seconds:
    """Until the first result in this process."""
    example = get(name).build()
    with torch.no_grad():
        thread, clock = time.thread_time(), time.perf_counter()
        PEERS[system].prepare(example)()
        return time.thread_time() - thread, time.perf_counter() - clock


def measure_apart(name: str, system: str, cache: str) -> Seconds:
    """The same in a process of its own, with the caches in the folder `cache`."""
    command = [sys.executable, "-m", "bench.start_cost", "--one", name, system]
    environment = os.environ | {"LAMINA_CACHE_DIR": cache}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    thread, clock = json.loads(done.stdout.splitlines()[-1])
    return thread, clock


def added_seconds(name: str, rounds: int) -> Seconds:
    """Lamina's seconds less eager's: medians over processes that take turns."""
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as cache:
        measure_apart(name, "lamina", cache)
        times: dict[str, list[Seconds]] = {system: [] for system in SYSTEMS}
        for _ in range(rounds):
            for system in SYSTEMS:
                times[system].append(measure_apart(name, system, cache))
    eager, ours = (
        [statistics.median(each) for each in zip(*times[system], strict=True)] for system in SYSTEMS
    )
    return ours[0] - eager[0], ours[1] - eager[1]


def main() -> None:
    """Print a row a network, and the largest."""
    parser = argparse.ArgumentParser(prog="python -m bench.start_cost", description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("WORKLOAD", "SYSTEM"), help=argparse.SUPPRESS)
    parser.add_argument("--workload", help="names, separated by commas; all networks where none is named")
    parser.add_argument("--rounds", type=int, default=3, help="processes a system, taking turns")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return
    write_bytecode()
    networks = [workload.name for workload in NETWORKS]
    chosen = arguments.workload.split(",") if arguments.workload else networks
    if not set(chosen) <= set(networks):
        raise SystemExit(f"there are: {', '.join(networks)}")
    added = []
    print(f"{'network':<14} {'thread s':>9} {'clock s':>9}")
    for name in chosen:
        thread, clock = added_seconds(name, arguments.rounds)
        added.append(thread)
        print(f"{name:<14} {thread:9.2f} {clock:9.2f}", flush=True)
    print(f"largest {max(added):.2f} s of the thread (target {TARGET})")


if __name__ == "__main__":
    main()
