"""`python -m bench.peak_memory`: the resident memory of a running network, lamina's over eager's.

The peak of a few calls after the first ones, of the whole process, as the bench has it. One process's figure
moves by some percent with the places that malloc finds, eager's as well: these are medians over processes
that take turns. Packed copies of weights are left out of lamina's and named beside it.
"""

from __future__ import annotations

import torch

from bench.fresh import Measurement, Numbers
from bench.measure import Plan
from bench.peers import PEERS
from bench.worker import Session
from bench.workloads import NETWORKS, get

SYSTEMS = ("eager", "lamina")
TARGET = 1.05
MEBIBYTE = 2**20


def measure(name: str, system: str) -> Numbers:
    """MiB that this process has at most while it runs the network, packed weights aside; MiB of those."""
    torch.set_num_threads(Plan.threads)
    with torch.no_grad():
        answer = Session(get(name).build(), PEERS[system]).prepare()
    packed = answer["counters"].get("packed_bytes", 0)
    return (answer["run_peak"] - packed) / MEBIBYTE, packed / MEBIBYTE


MEASUREMENT = Measurement("bench.peak_memory", measure)


def main() -> None:
    """Print a row a network, and the largest ratio."""
    networks, rounds = MEASUREMENT.parse(__doc__, [workload.name for workload in NETWORKS])
    ratios = []
    print(f"{'network':<14} {'eager MiB':>9} {'lamina MiB':>10} {'packed':>8} {'ratio':>6}")
    for name in networks:
        found = MEASUREMENT.medians(name, SYSTEMS, rounds)
        (eager, _), (ours, packed) = found["eager"], found["lamina"]
        ratios.append(ours / eager)
        print(f"{name:<14} {eager:9.0f} {ours:10.0f} {packed:8.0f} {ratios[-1]:6.2f}", flush=True)
    print(f"largest {max(ratios):.3f} (target {TARGET})")


if __name__ == "__main__":
    main()
