"""Measures one workload with all its peers: compiles in fresh processes, then alternating rounds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.peers import BASELINE, PEERS, Peer
from bench.process import Worker
from bench.results import Cell, Results, version_of
from bench.workloads import Workload

PAUSE = 0.05  # seconds between two peers: thread pools spin for a while after their last task
ROUND_LIMIT = 120.0
ERROR_LIMIT = 300.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How much to measure: rounds of `round_seconds` each, `compile_limit` seconds for a compile."""

    threads: int = 2
    rounds: int = 7
    round_seconds: float = 0.3
    compile_limit: float = 900.0
    is_warm_measured: bool = True


def measure(workload: Workload, peers: list[Peer], results: Results, plan: Plan, say: Say) -> None:
    """Fill the cells of a workload that are not finished; the baseline runs along, as each ratio needs it."""
    cells = {peer.name: results.cell(workload.name, peer, version_of(peer)) for peer in peers}
    unfinished = [
        peer for peer in peers if not cells[peer.name].is_finished(plan.rounds, needs_warm(peer, plan))
    ]
    if not unfinished:
        return
    baseline = PEERS[BASELINE]
    cells[BASELINE] = results.cell(workload.name, baseline, version_of(baseline))
    chosen = [baseline, *(peer for peer in unfinished if peer.name != BASELINE)]
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for peer in chosen:
            say(f"{workload.name}: {peer.name} compiles")
            worker = prepare(workload, peer, cells[peer.name], plan, stack)
            results.save()
            if not cells[peer.name].reason:
                workers[peer.name] = worker
        if BASELINE in workers:
            alternate(workload, workers, cells, results, plan, say)


def needs_warm(peer: Peer, plan: Plan) -> bool:
    """Whether a second process is to be timed with the caches that the first one filled."""
    return peer.has_disk_cache and plan.is_warm_measured


def prepare(workload: Workload, peer: Peer, cell: Cell, plan: Plan, stack: ExitStack) -> Worker:
    """A worker ready for rounds, its compile, memory and error recorded; the cold compile is always a fresh
    process.
    """
    cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamina-bench-")))
    worker = stack.enter_context(Worker(workload.name, peer.name, plan.threads, cache))
    answer = worker.ask("prepare", plan.compile_limit)
    if "reason" in answer:
        cell.reason = answer["reason"]
        return worker
    cell.cold_seconds = answer["compile_seconds"]
    cell.compile_peak, cell.run_peak = answer["compile_peak"], answer["run_peak"]
    cell.counters = answer["counters"]
    if needs_warm(peer, plan):
        with Worker(workload.name, peer.name, plan.threads, cache) as second:
            again = second.ask("prepare", plan.compile_limit)
        if "reason" in again:
            cell.reason = f"second process: {again['reason']}"
            return worker
        cell.warm_seconds = again["compile_seconds"]
    answer = worker.ask("error", ERROR_LIMIT)
    cell.error, cell.reason = answer.get("error"), answer.get("reason", "")
    return worker


def alternate(
    workload: Workload,
    workers: dict[str, Worker],
    cells: dict[str, Cell],
    results: Results,
    plan: Plan,
    say: Say,
) -> None:
    """Rounds A B C, A B C, ... so that a change of the machine's speed meets everyone; each is saved when it
    ends.
    """
    for name in workers:
        cells[name].rounds = []
    for number in range(plan.rounds):
        say(f"{workload.name}: round {number + 1} of {plan.rounds}")
        seconds: dict[str, float] = {}
        for name, worker in list(workers.items()):
            time.sleep(PAUSE)
            answer = worker.ask(f"round {plan.round_seconds}", ROUND_LIMIT)
            if "reason" in answer:
                cells[name].reason = answer["reason"]
                del workers[name]
            else:
                seconds[name] = answer["seconds"]
        if BASELINE not in seconds:
            return
        for name, value in seconds.items():
            cells[name].rounds.append((seconds[BASELINE], value))
        results.save()
