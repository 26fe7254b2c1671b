"""`python -m bench`: the workloads against eager, lamina and the peers; a Markdown table and JSON in
bench/results/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.measure import Plan, measure
from bench.peers import BASELINE, PEERS, Peer
from bench.process import write_bytecode
from bench.results import FOLDER, Results
from bench.tables import render, write_between_marks
from bench.workloads import MICRO, NETWORKS, WORKLOADS, Workload

T = TypeVar("T")

GROUPS = {"network": NETWORKS, "micro": MICRO, "all": (*NETWORKS, *MICRO)}
DOCUMENTS = ("README.md", "docs/performance.md")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--workload", help="names, separated by commas (see --list)")
    parser.add_argument("--group", choices=GROUPS, default="all", help="which workloads, where none is named")
    parser.add_argument("--peer", help="names, separated by commas; eager always runs along")
    parser.add_argument("--rounds", type=int, default=Plan.rounds)
    parser.add_argument("--round-seconds", type=float, default=Plan.round_seconds)
    parser.add_argument("--threads", type=int, default=Plan.threads)
    parser.add_argument("--limit", type=float, default=Plan.compile_limit, help="seconds a compile may take")
    parser.add_argument(
        "--no-warm", action="store_true", help="leave out the second process with filled caches"
    )
    parser.add_argument("--rerun", action="store_true", help="measure finished cells again")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder of results")
    parser.add_argument("--list", action="store_true", help="print workloads and peers, measure nothing")
    parser.add_argument("--report", action="store_true", help="print the tables, measure nothing")
    parser.add_argument(
        "--write-docs", action="store_true", help=f"put the tables into {', '.join(DOCUMENTS)}"
    )
    return parser.parse_args(words)


def choose(names: str | None, known: dict[str, T], kind: str) -> list[T]:
    """The named ones, all where none is named; SystemExit lists what there is."""
    if names is None:
        return list(known.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"no {kind} {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in wanted]


def main(words: list[str] | None = None) -> int:
    """Measure what is missing, then write and show the report; the exit code is 130 after an interrupt."""
    arguments = parse_arguments(words)
    if arguments.list:
        print_lists()
        return 0
    group = {workload.name: workload for workload in GROUPS[arguments.group]}
    workloads = choose(arguments.workload, WORKLOADS if arguments.workload else group, "workload")
    peers = choose(arguments.peer, PEERS, "peer")
    results = Results(arguments.results / "results.json")
    code = 0
    if not arguments.report and not arguments.write_docs:
        code = measure_all(workloads, peers, results, arguments)
    report(results, arguments)
    return code


def measure_all(
    workloads: list[Workload], peers: list[Peer], results: Results, arguments: argparse.Namespace
) -> int:
    """Every chosen workload, with progress on the terminal."""
    plan = Plan(
        threads=arguments.threads,
        rounds=arguments.rounds,
        round_seconds=arguments.round_seconds,
        compile_limit=arguments.limit,
        is_warm_measured=not arguments.no_warm,
    )
    if arguments.rerun:
        for workload in workloads:
            for peer in peers:
                results.forget(workload.name, peer)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=len(workloads))

        def say(text: str) -> None:
            progress.update(task, description=text)
            if not console.is_terminal:
                print(text, file=sys.stderr, flush=True)

        write_bytecode()
        try:
            for workload in workloads:
                measure(workload, peers, results, plan, say)
                progress.advance(task)
        except KeyboardInterrupt:
            console.print("interrupted: what is finished is saved, the same command goes on from here")
            return 130
        finally:
            results.save()
    return 0


def report(results: Results, arguments: argparse.Namespace) -> None:
    """The tables as a file and on the screen; into the documents where asked."""
    text = render(results)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "results.md").write_text(text, encoding="utf-8")
    if sys.stdout.isatty():
        Console().print(Markdown(text))
    else:
        print(text)
    if arguments.write_docs:
        for name in DOCUMENTS:
            titles = write_between_marks(Path(__file__).parents[1] / name, results)
            print(f"{name}: {len(titles)} tables written")


def print_lists() -> None:
    """Names of workloads with their sizes, names of peers with their settings."""
    for workload in WORKLOADS.values():
        batch, length = workload.size
        print(f"{workload.name:22s} {workload.group:8s} batch {batch}, length {length}")
    for peer in PEERS.values():
        role = "baseline" if peer.name == BASELINE else "peer"
        print(f"{peer.name:22s} {role:8s} {peer.settings or 'defaults'}")


if __name__ == "__main__":
    raise SystemExit(main())
