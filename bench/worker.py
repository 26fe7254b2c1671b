"""One process that holds one workload prepared by one peer and answers commands, a JSON line each.

`python -m bench.worker WORKLOAD PEER THREADS` builds the workload, then reads commands from stdin:
`prepare` compiles and answers seconds and memory, `round SECONDS` answers the seconds of one call, `error`
answers the distance from float64. Answers go to the stdout that the process was started with; all other
output goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.accuracy import largest_error, reference_of
from bench.peers import PEERS, Peer
from bench.timing import time_calls
from bench.workloads import Example, get

CALLS_FOR_MEMORY = 3


def main() -> None:
    workload_name, peer_name, threads = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    torch.set_num_threads(int(threads))
    with torch.no_grad():
        session = Session(get(workload_name).build(), PEERS[peer_name])
        for line in sys.stdin:
            command, *words = line.split()
            answers.write(json.dumps(session.answer(command, words)) + "\n")
            answers.flush()


class Session:
    """The prepared workload; `call` is there after `prepare`."""

    def __init__(self, example: Example, peer: Peer) -> None:
        self.example = example
        self.peer = peer
        self.call: Callable[[], Any] = lambda: None

    def answer(self, command: str, words: list[str]) -> dict[str, Any]:
        """The result of a command, or {"reason": why there is none}."""
        commands = {"prepare": self.prepare, "error": self.measure_error}
        try:
            if command == "round":
                return {"seconds": time_calls(self.call, float(words[0]))}
            return commands[command]()
        except Exception as error:
            return {"reason": describe(error)}

    def prepare(self) -> dict[str, Any]:
        """Compile and call once (`compile_seconds` has both); the memory that this and further calls take."""
        reset_peak_memory()
        start = time.perf_counter()
        self.call = self.peer.prepare(self.example)
        self.call()
        seconds = time.perf_counter() - start
        for _ in range(CALLS_FOR_MEMORY):
            self.call()
        compile_peak = read_peak_memory()
        reset_peak_memory()
        for _ in range(CALLS_FOR_MEMORY):
            self.call()
        run_peak = read_peak_memory()
        memory = {"compile_peak": compile_peak, "run_peak": run_peak}
        return {"compile_seconds": seconds, **memory, "counters": self.peer.count()}

    def measure_error(self) -> dict[str, Any]:
        """Largest distance from a float64 run, relative to the largest float64 result."""
        return {"error": largest_error(self.call(), reference_of(self.example))}


def reset_peak_memory() -> None:
    """Let the kernel count this process's peak from now on; without the right to, it keeps counting from its
    start.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def read_peak_memory() -> int:
    """The largest resident size since the last reset, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status: peak memory is measured on Linux only")


def describe(error: BaseException) -> str:
    """One line for the table: the kind of the error, or of its cause, and the start of the message."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ModuleNotFoundError):
        return f"not installed: {error.name} (pip install -r requirements/bench.txt)"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:160]


if __name__ == "__main__":
    main()
