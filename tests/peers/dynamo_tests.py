"""Dynamo's own tests as of October 2022 (not kept here), with Lamina in Dynamo's place.

`python -m tests.peers.dynamo_tests FOLDER [--only TEXT] [--by COMPILER]` runs the tests in FOLDER, the `test/dynamo`
of a checkout of pytorch/torchdynamo at 85369080. The tests that tell something are those that pass with today's
Dynamo and fail where compiling does nothing: they are run with both first. Then it prints how many of them pass
with Lamina, and each failure that `dynamo_tests.txt` does not explain.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

from tests.peers.unit_tests import Verdicts, count_passed, read_reasons, report_failures, run_tests

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
SECONDS = 180.0


def run_all(folder: pathlib.Path, compiler: str, only: str) -> Verdicts:
    verdicts: Verdicts = {}
    for file in FILES:
        if only in file and (folder / f"{file}.py").exists():
            verdicts |= run_tests("tests.peers.dynamo_worker", [str(folder), file, compiler], SECONDS)
    print(f"{compiler}: {count_passed(verdicts)} of {len(verdicts)} pass", flush=True)
    return verdicts


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
    return report_failures(telling, ours, read_reasons(REASONS))


if __name__ == "__main__":
    sys.exit(main())
