"""Lamina with its default options."""

from __future__ import annotations

from bench.peers.peer import Call, Peer, call_with
from bench.workloads import Example


def prepare(example: Example) -> Call:
    """Compiled whole: a graph break or an unsupported op would be an error, not a slow success."""
    import lamina

    return call_with(lamina.compile(example.function), example)


def count() -> dict[str, int]:
    """Graphs, breaks, kernels, extern calls."""
    import lamina

    return {name: int(value) for name, value in dict(lamina.counters()).items()}


PEER = Peer("lamina", "lamina", prepare, has_disk_cache=True, count=count)
