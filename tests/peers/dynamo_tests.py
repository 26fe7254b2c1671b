"""Dynamo's own tests as of October 2022 (not kept here), with Lamina in Dynamo's place.

`python -m tests.peers.dynamo_tests FOLDER [--only TEXT] [--by COMPILER]` runs the tests in FOLDER, the `test/dynamo`
of a checkout of pytorch/torchdynamo at 85369080. The tests that tell something are those that pass with today's
Dynamo and fail where compiling does nothing: they are run with both first. Then it prints how many of them pass
with Lamina, and each failure that `dynamo_tests.txt` does not explain.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REASONS = pathlib.Path(__file__).with_suffix(".txt")
COMPILERS = ("dynamo", "identity", "lamina")
FILES = (
    "test_functions",
    "test_global",
    "test_global_declaration",
    "test_misc",
    "test_model_output",
    "test_modules",
    "test_python_autograd",
    "test_recompile_ux",
    "test_repros",
    "test_skip_non_tensor",
    "test_subgraphs",
    "test_unspec",
    "test_verify_correctness",
)
"""Left out: those that do not load with today's Dynamo, and those of what only Dynamo has (export, replays)."""
SECONDS_FOR_A_FILE = 900.0
Verdicts = dict[str, tuple[str, str]]
"""Of each test: passed, failed, skipped or ended (the process with it), and the reason."""


def run_file(folder: pathlib.Path, file: str, compiler: str) -> Verdicts:
    """Run a file's tests, in as many processes as tests end theirs."""
    verdicts: Verdicts = {}
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report")
        while True:
            report.write_text("")
            ended = run_worker([str(folder), file, compiler, str(report), *verdicts], scratch)
            started = ""
            for line in report.read_text().splitlines():
                name, verdict, reason = json.loads(line)
                started = name if verdict == "started" else ""
                if not started:
                    verdicts[name] = verdict, reason
            if not started:
                if not verdicts and ended:
                    print(f"{file} does not load: {ended}")
                return verdicts
            verdicts[started] = "ended", ended


def run_worker(arguments: list[str], scratch: str) -> str:
    """Why the process ended otherwise than by itself; "" if it did not."""
    command = [sys.executable, "-m", "tests.peers.dynamo_worker", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": scratch, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=SECONDS_FOR_A_FILE
        )
    except subprocess.TimeoutExpired:
        return "takes too long"
    return done.stderr.strip().splitlines()[-1:][0] if done.returncode and done.stderr else ""


def run_all(folder: pathlib.Path, compiler: str, only: str) -> Verdicts:
    verdicts: Verdicts = {}
    for file in FILES:
        if only in file and (folder / f"{file}.py").exists():
            verdicts |= run_file(folder, file, compiler)
    passed = sum(verdict == "passed" for verdict, _ in verdicts.values())
    print(f"{compiler}: {passed} of {len(verdicts)} pass", flush=True)
    return verdicts


def read_reasons() -> dict[str, str]:
    """Of each discriminating test that fails with Lamina: why."""
    lines = REASONS.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def is_telling(name: str, dynamo: Verdicts, nothing: Verdicts) -> bool:
    return dynamo[name][0] == "passed" and nothing.get(name, ("failed", ""))[0] != "passed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--only", default="", help="files whose name contains this")
    parser.add_argument("--by", choices=COMPILERS, help="one compiler only; every test is shown")
    parser.add_argument(
        "--save", type=pathlib.Path, help="write the verdicts of the compiler to this JSON file"
    )
    given = parser.parse_args()
    if given.folder is None or not given.folder.is_dir():
        print(f"Dynamo's tests are skipped: there is no folder {given.folder or 'given'}")
        return 0
    if given.by:
        verdicts = run_all(given.folder, given.by, given.only)
        for name, (verdict, reason) in verdicts.items():
            print(verdict, name, reason)
        if given.save:
            given.save.write_text(json.dumps(verdicts))
        return 0
    dynamo, nothing, ours = (run_all(given.folder, compiler, given.only) for compiler in COMPILERS)
    telling = [name for name in dynamo if is_telling(name, dynamo, nothing)]
    failed = [name for name in telling if ours.get(name, ("missing", ""))[0] != "passed"]
    reasons = read_reasons()
    unexplained = [name for name in failed if name not in reasons]
    for name in unexplained:
        print("fails", name, *ours.get(name, ("missing", "")))
    for name in reasons:
        if name in telling and name not in failed:
            print("passes now", name)
    passed = len(telling) - len(failed)
    print(f"{passed} of {len(telling)} telling tests pass; {len(unexplained)} fail unexplained")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
