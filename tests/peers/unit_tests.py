"""Runs other people's unit tests in worker processes, so that a crash or a hang costs one test.

A worker appends to a report a line of JSON before each test and one after; a report that is kept is gone on from.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from tests.peers.isolation import IDLE_FACTOR, cpu_seconds

Verdicts = dict[str, tuple[str, str]]
"""Of each test: passed, failed, skipped or ended (the process with it), and the reason."""
SECONDS_BETWEEN_LOOKS = 0.5
TAKES_TOO_LONG = "takes too long"


def run_tests(
    worker: str, arguments: Sequence[str], limit: float, report: pathlib.Path | None = None
) -> Verdicts:
    """Run `python -m worker ARGUMENTS REPORT [TEST ...]` until every test has a verdict.

    The worker leaves out the tests named. limit: seconds of the processor for a test, and for the start.
    """
    verdicts: Verdicts = {}
    with tempfile.TemporaryDirectory() as scratch:
        report = report or pathlib.Path(scratch, "report")
        report.touch()
        while True:
            verdicts, started = read_report(report)
            count = len(verdicts)
            ended = run_worker([worker, *arguments, str(report), *verdicts], scratch, report, limit)
            verdicts, started = read_report(report)
            if not started:
                if len(verdicts) == count and ended:
                    print(f"{' '.join(arguments)}: {ended}")
                return verdicts
            with report.open("a") as stream:
                stream.write(json.dumps([started, "ended", ended]) + "\n")


def read_report(report: pathlib.Path) -> tuple[Verdicts, str]:
    """The verdicts, and the test that has begun and has none."""
    verdicts: Verdicts = {}
    started = ""
    for line in report.read_text().splitlines():
        name, verdict, reason = json.loads(line)
        started = name if verdict == "started" else ""
        if not started:
            verdicts[name] = verdict, reason
    return verdicts, started


def run_worker(words: list[str], scratch: str, report: pathlib.Path, limit: float) -> str:
    """Why the process ended otherwise than by itself; "" if it did not."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": scratch, "OMP_NUM_THREADS": "1"}
    errors = pathlib.Path(scratch, "errors")
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], env=environment, stdout=subprocess.DEVNULL, stderr=stream
        )
        size, since, elapsed = -1, 0.0, 0.0
        while process.poll() is None:
            if report.stat().st_size != size:
                size, since, elapsed = report.stat().st_size, time.monotonic(), cpu_seconds(process.pid)
            if cpu_seconds(process.pid) - elapsed > limit or time.monotonic() - since > IDLE_FACTOR * limit:
                process.kill()
                process.wait()
                return TAKES_TOO_LONG
            time.sleep(SECONDS_BETWEEN_LOOKS)
    last = errors.read_text(errors="replace").strip().splitlines()[-1:]
    return (last or [f"exit status {process.returncode}"])[0] if process.returncode else ""


def count_passed(verdicts: Verdicts) -> int:
    return sum(verdict == "passed" for verdict, _ in verdicts.values())


def read_reasons(path: pathlib.Path) -> dict[str, str]:
    """`test: reason` a line: why each test that fails does."""
    lines = path.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def report_failures(
    telling: Sequence[str], verdicts: Verdicts, reasons: dict[str, str], title: str = "telling tests"
) -> int:
    """Print the failures without a reason, what passes in spite of one, and the count; 1 for any of the first."""
    failed = [name for name in telling if verdicts.get(name, ("missing", ""))[0] != "passed"]
    unexplained = [name for name in failed if name not in reasons]
    for name in unexplained:
        print("fails", name, *verdicts.get(name, ("missing", "")))
    for name in reasons:
        if name in telling and name not in failed:
            print("passes now", name)
    passed = len(telling) - len(failed)
    print(f"{passed} of {len(telling)} {title} pass; {len(unexplained)} fail unexplained")
    return int(bool(unexplained))
