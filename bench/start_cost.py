"""`python -m bench.start_cost`: what lamina adds to the start of a program that has run before.

Each measurement has a fresh process, whose clock runs from before `import lamina` to the end of the first
call; lamina's finds its program and kernels on disk, eager's is the same program without it. Seconds are the
calling thread's own (threads that wait for work spin, and other programs take their share of the machine);
those on the clock are beside them.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

from bench.fresh import Measurement, Numbers
from bench.peers import PEERS
from bench.workloads import NETWORKS, get

SYSTEMS = ("eager", "lamina")
TARGET = 1.5
"""Seconds that a second process may start later than eager's."""


def measure(name: str, system: str) -> Numbers:
    """Seconds of the thread and on the clock until the first result in this process."""
    example = get(name).build()
    with torch.no_grad():
        thread, clock = time.thread_time(), time.perf_counter()
        PEERS[system].prepare(example)()
        return time.thread_time() - thread, time.perf_counter() - clock


MEASUREMENT = Measurement("bench.start_cost", measure)


def added_seconds(name: str, rounds: int) -> Numbers:
    """Lamina's seconds less eager's: medians over processes that take turns."""
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as folder:
        cache = Path(folder)
        MEASUREMENT.run(name, "lamina", cache)
        found = MEASUREMENT.medians(name, SYSTEMS, rounds, cache)
    thread, clock = (ours - eager for eager, ours in zip(found["eager"], found["lamina"], strict=True))
    return thread, clock


def main() -> None:
    """Print a row a network, and the largest."""
    networks, rounds = MEASUREMENT.parse(__doc__, [workload.name for workload in NETWORKS])
    added = []
    print(f"{'network':<14} {'thread s':>9} {'clock s':>9}")
    for name in networks:
        thread, clock = added_seconds(name, rounds)
        added.append(thread)
        print(f"{name:<14} {thread:9.2f} {clock:9.2f}", flush=True)
    print(f"largest {max(added):.2f} s of the thread (target {TARGET})")


if __name__ == "__main__":
    main()
