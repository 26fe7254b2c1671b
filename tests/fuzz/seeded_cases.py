"""The command line of the fuzzes whose cases are one seed each: run many, print those that are wrong."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import lamina


def run_cases(description: str | None, run_case: Callable[[int, str], str], count: int, shown: str) -> bool:
    """Whether a case was wrong: `run_case(seed, only)` gives what is. count: by default; shown: what they are."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    wrong = 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        found = run_case(seed, arguments.only)
        if found:
            wrong += 1
            print(f"seed {seed}: {found}", flush=True)
        if seed % 100 == 99:
            lamina.reset()
    print(f"{arguments.count} {shown}: {wrong} wrong")
    return wrong > 0
