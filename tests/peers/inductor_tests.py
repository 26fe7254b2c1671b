"""Inductor's common tests (not kept here), with Lamina as the compiler.

`python -m tests.peers.inductor_tests FOLDER [--only TEXT] [--by COMPILER] [--keep FOLDER]` runs `CommonTemplate` of
test_torchinductor.py in FOLDER, the `test/inductor` of a checkout of pytorch, on the CPU. The tests that tell
something about a compiler are those that pass where Dynamo's graphs run eagerly (`aot_eager`): the others look at
Inductor's own code, counters and caches. Then it prints how many of them pass with Lamina, and each failure that
`inductor_tests.txt` does not explain. --by: one compiler only, every test is shown:

    lamina     `lamina.compile` is `torch.compile`
    backend    Dynamo captures, Lamina compiles
    identity   nothing is compiled
    wrong      as `lamina`, with every result off by one: how much the tests see
    aot_eager  Dynamo captures, graphs run eagerly

--keep: where verdicts are kept, to go on from when run again.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections import Counter

from tests.peers.unit_tests import Verdicts, count_passed, read_reasons, report_failures, run_tests

REASONS = pathlib.Path(__file__).with_suffix(".txt")
COMPILERS = ("aot_eager", "lamina", "backend", "identity", "wrong")
SECONDS = 180.0


def run_all(given: argparse.Namespace, compiler: str) -> Verdicts:
    arguments = [str(given.folder), given.only, compiler]
    report = given.keep and given.keep / compiler
    verdicts = run_tests("tests.peers.inductor_worker", arguments, SECONDS, report)
    kinds = Counter(verdict for verdict, _ in verdicts.values())
    print(f"{compiler}: {count_passed(verdicts)} of {len(verdicts)} pass {dict(kinds)}", flush=True)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--by", choices=COMPILERS, help="one compiler only; every test is shown")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for verdicts to go on from")
    given = parser.parse_args()
    if given.folder is None or not given.folder.is_dir():
        print(f"Inductor's tests are skipped: there is no folder {given.folder or 'given'}")
        return 0
    if given.by:
        for name, (verdict, reason) in run_all(given, given.by).items():
            print(verdict, name, reason)
        return 0
    eager, ours = (run_all(given, compiler) for compiler in ("aot_eager", "lamina"))
    telling = [name for name, (verdict, _) in eager.items() if verdict == "passed"]
    return report_failures(telling, ours, read_reasons(REASONS))


if __name__ == "__main__":
    sys.exit(main())
