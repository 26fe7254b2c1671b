"""Judges names in a worker process, so that a crash, a hang or a leak costs one name and not the run."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from tests.peers.judging import Outcome

NAMES_BEFORE_RESTART = 40  # a worker keeps what it compiled
SECONDS_BETWEEN_LOOKS = 0.2
IDLE_FACTOR = 10
"""How much longer than its limit a name may take where others use the processor."""


def work(pipe: Connection, judge_name: Callable[[str], Outcome]) -> None:
    """The worker: judges the names that come through the pipe until None comes."""
    import torch

    torch.set_num_threads(1)
    while (name := pipe.recv()) is not None:
        try:
            outcome = judge_name(name)
        except Exception as error:
            outcome = Outcome("skipped", reason=f"{type(error).__name__}: {error}"[:300])
        pipe.send(outcome)


def judge_all(
    judge_name: Callable[[str], Outcome], names: list[str], limit: float
) -> Iterator[tuple[str, Outcome]]:
    """(name, outcome) in order; a name may take `limit` seconds of the processor."""
    worker: Any = None
    count = 0
    try:
        for name in names:
            if worker is None:
                worker, count = start(judge_name), 0
            outcome = ask(worker, name, limit)
            count += 1
            if outcome.verdict in ("late", "crashed") or count >= NAMES_BEFORE_RESTART:
                end(worker)
                worker = None
            yield name, outcome
    finally:
        if worker is not None:
            end(worker)


def start(judge_name: Callable[[str], Outcome]) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, judge_name), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def ask(worker: tuple[Any, Connection], name: str, limit: float) -> Outcome:
    process, pipe = worker
    pipe.send(name)
    begun, elapsed = time.monotonic(), cpu_seconds(process.pid)
    while not pipe.poll(SECONDS_BETWEEN_LOOKS):
        waited = time.monotonic() - begun
        if cpu_seconds(process.pid) - elapsed > limit or waited > IDLE_FACTOR * limit:
            return Outcome("late", reason=f"more than {limit:.0f} s")
    try:
        outcome: Outcome = pipe.recv()
    except EOFError:
        return Outcome("crashed", reason="the process ended")
    return outcome


def cpu_seconds(process: int) -> float:
    """What a process has used of the processor; 0 where the system does not say, or it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end(worker: tuple[Any, Connection]) -> None:
    process, pipe = worker
    process.kill()
    process.join()
    pipe.close()
