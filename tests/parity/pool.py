"""Judges entries in worker processes, so that a crash or a hang costs one entry and not the run."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tests.parity.judge import Entry, Verdict

ENTRIES_BEFORE_RESTART = 150  # a worker keeps what it compiled: a fresh one now and then bounds its memory


def work(pipe: Connection, compiler_name: str, most_samples: int) -> None:
    """A worker: judges the entries that come through the pipe until None comes."""
    import torch

    from tests.parity.compilers import COMPILERS
    from tests.parity.judge import judge

    torch.set_num_threads(1)
    compiler = COMPILERS[compiler_name]()
    while (entry := pipe.recv()) is not None:
        try:
            pipe.send(judge(entry, compiler, most_samples))
        except Exception as error:
            pipe.send(Verdict("crashed", reason=f"the judge failed: {type(error).__name__}: {error}"))


@dataclass
class Slot:
    """A place in the pool: its worker, and the entry that it is at."""

    process: BaseProcess
    pipe: Connection
    entry: Entry | None = None
    started: float = 0.0
    judged: int = 0

    def end(self) -> None:
        """Stop the worker, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Pool:
    """`size` workers; `judge_all` yields verdicts as they come."""

    def __init__(self, compiler_name: str, most_samples: int, size: int, limit: float) -> None:
        self.compiler_name = compiler_name
        self.most_samples = most_samples
        self.size = size
        self.limit = limit
        self.context = multiprocessing.get_context("spawn")

    def start(self) -> Slot:
        """A fresh worker."""
        ours, theirs = self.context.Pipe()
        process = self.context.Process(
            target=work, args=(theirs, self.compiler_name, self.most_samples), daemon=True
        )
        process.start()
        theirs.close()
        return Slot(process, ours)

    def judge_all(self, entries: list[Entry]) -> Iterator[tuple[Entry, Verdict, float]]:
        """(entry, verdict, seconds) for each entry, in the order in which they end."""
        waiting = list(reversed(entries))
        slots = [self.start() for _ in range(min(self.size, len(entries)))]
        try:
            while waiting or any(slot.entry for slot in slots):
                for number, slot in enumerate(slots):
                    if slot.entry is None and waiting:
                        slots[number] = self.give(slot, waiting.pop())
                wait([slot.pipe for slot in slots if slot.entry], timeout=1.0)
                for number, slot in enumerate(slots):
                    outcome = self.collect(slot)
                    if outcome is None or slot.entry is None:
                        continue
                    yield slot.entry, outcome, time.monotonic() - slot.started
                    slot.entry = None
                    if outcome.verdict in ("crashed", "late"):
                        slot.end()
                        slots[number] = self.start()
        finally:
            for slot in slots:
                slot.end()

    def give(self, slot: Slot, entry: Entry) -> Slot:
        """Send an entry to a worker, to a fresh one where this one is old."""
        if slot.judged >= ENTRIES_BEFORE_RESTART:
            slot.end()
            slot = self.start()
        slot.entry, slot.started = entry, time.monotonic()
        slot.judged += 1
        slot.pipe.send(entry)
        return slot

    def collect(self, slot: Slot) -> Verdict | None:
        """The verdict of what a worker is at, None while there is none."""
        if slot.entry is None:
            return None
        try:
            if slot.pipe.poll():
                verdict: Verdict = slot.pipe.recv()
                return verdict
        except (EOFError, ConnectionResetError):
            slot.process.join()
            return Verdict("crashed", reason=f"the process ended with code {slot.process.exitcode}")
        if time.monotonic() - slot.started > self.limit:
            return Verdict("late", reason=f"more than {self.limit:.0f} s")
        return None
