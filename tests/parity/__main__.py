"""`python -m tests.parity`: all of torch's operator database, eager against compiled; resumable, two
processes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import track

from tests.parity.compilers import COMPILERS
from tests.parity.judge import Entry, Verdict, list_entries
from tests.parity.pool import Pool

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("results")


class Record:
    """Verdicts on disk, one JSON line each, appended as they come: an interrupted run goes on from there."""

    def __init__(self, path: Path, key: dict[str, str], is_fresh: bool, is_any_source: bool) -> None:
        self.path = path
        self.verdicts: dict[Entry, Verdict] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() and not is_fresh else []
        known = json.loads(lines[0]) if lines else {}
        if is_any_source and known:
            key = key | {"sources": known["sources"]}
        if known != key:
            path.write_text(json.dumps(key) + "\n", encoding="utf-8")
            return
        for line in lines[1:]:
            stored = json.loads(line)
            entry = Entry(*stored.pop("entry"))
            self.verdicts[entry] = Verdict(**stored)

    def add(self, entry: Entry, verdict: Verdict) -> None:
        """Keep a verdict."""
        self.verdicts[entry] = verdict
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"entry": list(entry), **verdict.to_json()}) + "\n")


def digest_sources() -> str:
    """Changes with any source of lamina or of the judge: old verdicts say nothing about new code."""
    digest = hashlib.sha256()
    for folder in ("lamina", "tests/parity"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--compiler", choices=COMPILERS, default="lamina")
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--dtype", default="", help="dtypes, separated by commas; all of the six where empty")
    parser.add_argument("--samples", type=int, default=4, help="samples of each entry, 0 for all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that one entry may take")
    parser.add_argument("--fresh", action="store_true", help="forget earlier verdicts")
    parser.add_argument(
        "--any-source", action="store_true", help="keep verdicts from before a change of sources"
    )
    parser.add_argument("--results", type=Path, default=FOLDER)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Judge what has no verdict yet, write the summary; 1 where an entry is neither eager's result nor
    excused.
    """
    arguments = parse_arguments(words)
    dtypes = arguments.dtype.split(",") if arguments.dtype else []
    entries = [
        entry
        for entry in list_entries()
        if arguments.only in entry.operator and (not dtypes or entry.dtype in dtypes)
    ]
    key = {"sources": digest_sources(), "samples": str(arguments.samples)}
    path = arguments.results / f"{arguments.compiler}.jsonl"
    record = Record(path, key, arguments.fresh, arguments.any_source)
    missing = [entry for entry in entries if entry not in record.verdicts]
    pool = Pool(arguments.compiler, arguments.samples, arguments.jobs, arguments.limit)
    console = Console(stderr=True)
    verdicts = pool.judge_all(missing)
    try:
        for entry, verdict, _ in track(
            verdicts,
            total=len(missing),
            console=console,
            description="judging",
            disable=not console.is_terminal,
        ):
            record.add(entry, verdict)
            if not verdict.is_good(entry):
                console.print(
                    f"{entry}: {verdict.verdict}: {verdict.reason}",
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        return 130
    return summarize({entry: record.verdicts[entry] for entry in entries}, arguments)


def summarize(verdicts: dict[Entry, Verdict], arguments: argparse.Namespace) -> int:
    """Counts, as text and as JSON."""
    counts = Counter(verdict.verdict for verdict in verdicts.values())
    bad = {entry: verdict for entry, verdict in verdicts.items() if not verdict.is_good(entry)}
    summary = {
        "compiler": arguments.compiler,
        "entries": len(verdicts),
        "operators": len({entry.operator for entry in verdicts}),
        "samples": sum(verdict.samples for verdict in verdicts.values()),
        "with_breaks": sum(verdict.breaks > 0 for verdict in verdicts.values()),
        "verdicts": dict(counts),
        "bad": {str(entry): f"{verdict.verdict}: {verdict.reason}" for entry, verdict in bad.items()},
    }
    path = arguments.results / f"{arguments.compiler}-summary.json"
    path.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    print(
        f"{len(verdicts)} entries of {summary['operators']} operators, {summary['samples']} samples: ", end=""
    )
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()), end="")
    print(f"; {summary['with_breaks']} with eager calls")
    print(f"{len(verdicts) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
