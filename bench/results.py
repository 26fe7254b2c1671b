"""The results on disk: one record for each workload and peer, saved after every step, so that an interrupt
loses nothing.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.peers import BASELINE, Peer

FOLDER = Path(__file__).with_name("results")
FORMAT = 1


@dataclass
class Cell:
    """What is known of one workload with one peer.

    version: of the peer (for lamina a digest of its sources); seconds in rounds are pairs of eager's and
    the peer's in the same round; reason: why there is no result.
    """

    version: str = ""
    cold_seconds: float | None = None
    warm_seconds: float | None = None
    compile_peak: int | None = None
    run_peak: int | None = None
    error: float | None = None
    counters: dict[str, int] = field(default_factory=dict)
    rounds: list[tuple[float, float]] = field(default_factory=list)
    reason: str = ""

    def is_finished(self, rounds: int, needs_warm: bool) -> bool:
        """Whether nothing more is to be measured."""
        if self.reason:
            return True
        has_compile = self.cold_seconds is not None and (self.warm_seconds is not None or not needs_warm)
        return has_compile and self.error is not None and len(self.rounds) >= rounds


class Results:
    """All cells, by workload and peer, with the machine they were measured on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, dict[str, Cell]] = {}
        self.machine = describe_machine()
        if path.exists():
            self._read(json.loads(path.read_text(encoding="utf-8")))

    def _read(self, stored: dict[str, Any]) -> None:
        if stored.get("format") != FORMAT or stored.get("machine") != self.machine:
            kept = self.path.with_suffix(".old.json")
            self.path.rename(kept)
            print(f"results of another machine or version are kept in {kept.name}")
            return
        for workload, peers in stored["cells"].items():
            self.cells[workload] = {peer: Cell(**values) for peer, values in peers.items()}

    def cell(self, workload: str, peer: Peer, version: str) -> Cell:
        """The cell, a new one where there is none or another version of the peer filled it."""
        peers = self.cells.setdefault(workload, {})
        if peer.name not in peers or peers[peer.name].version != version:
            peers[peer.name] = Cell(version=version)
        return peers[peer.name]

    def forget(self, workload: str, peer: Peer) -> None:
        """Drop a cell, to measure it again."""
        self.cells.get(workload, {}).pop(peer.name, None)

    def save(self) -> None:
        """Write everything; a half-written file never replaces a whole one."""
        cells = {
            name: {peer: asdict(cell) for peer, cell in peers.items()} for name, peers in self.cells.items()
        }
        text = json.dumps({"format": FORMAT, "machine": self.machine, "cells": cells}, indent=1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.path)


def version_of(peer: Peer) -> str:
    """The peer's version, "" where it is not installed; for lamina a digest of its sources as well."""
    try:
        version = importlib.metadata.version(peer.package)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if peer.name == BASELINE or peer.package != "lamina":
        return version
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parents[1] / "lamina").rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{version}+{digest.hexdigest()[:12]}"


def describe_machine() -> dict[str, str]:
    """What a comparison depends on: processor, cores, Python and torch."""
    return {
        "processor": read_processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
    }


def read_processor() -> str:
    """The processor's name, as Linux gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
