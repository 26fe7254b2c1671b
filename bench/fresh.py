"""Measurements that have a fresh process each: the frame and the command line that they share.

A measurement is a function of a network's and a system's name that gives a few numbers. Processes of the
systems take turns, each with empty caches unless told otherwise; medians over them count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.process import ROOT, write_bytecode

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What `python -m MODULE` measures in a process of its own."""

    module: str
    measure: Callable[[str, str], Numbers]
    """Of (network, system), in the process that calls it."""

    def run(self, network: str, system: str, cache: Path | None = None) -> Numbers:
        """In a fresh process, whose caches on disk are in the folder `cache`, or empty."""
        command = [sys.executable, "-m", self.module, "--one", network, system]
        with tempfile.TemporaryDirectory(prefix="lamina-bench-") as empty:
            caches = cache or Path(empty)
            environment = os.environ | {
                "LAMINA_CACHE_DIR": str(caches / "lamina"),
                "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            }
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    def medians(
        self, network: str, systems: Iterable[str], rounds: int, cache: Path | None = None
    ) -> dict[str, Numbers]:
        """Of each number of each system, over `rounds` processes."""
        found: dict[str, list[Numbers]] = {system: [] for system in systems}
        for _ in range(rounds):
            for system, rows in found.items():
                rows.append(self.run(network, system, cache))
        return {
            system: tuple(statistics.median(column) for column in zip(*rows, strict=True))
            for system, rows in found.items()
        }

    def parse(self, description: str | None, networks: Sequence[str]) -> tuple[list[str], int]:
        """The networks and the number of rounds that the command line asks for.

        In the process of one measurement: makes it, prints its numbers and ends the process.
        """
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=description)
        parser.add_argument("--one", nargs=2, metavar=("WORKLOAD", "SYSTEM"), help=argparse.SUPPRESS)
        parser.add_argument("--workload", help="names, separated by commas; all where none is named")
        parser.add_argument("--rounds", type=int, default=3, help="processes a system, taking turns")
        arguments = parser.parse_args()
        if arguments.one:
            print(json.dumps(self.measure(*arguments.one)))
            raise SystemExit
        chosen = arguments.workload.split(",") if arguments.workload else list(networks)
        if not set(chosen) <= set(networks):
            raise SystemExit(f"there are: {', '.join(networks)}")
        write_bytecode()
        return chosen, arguments.rounds
