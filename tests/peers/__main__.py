"""`python -m tests.peers JUDGE [--only NAME] [--rest] [--write]`: whole runs of the judges.

Each name is judged in a worker process and printed with its outcome; `--write` keeps the outcomes in outcomes.txt.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.peers import function_db, module_db, optimizer_db, transformers_models, vision_models
from tests.peers.isolation import judge_all
from tests.peers.judging import Outcome

OUTCOMES = Path(__file__).with_name("outcomes.txt")
LIMIT = 180.0
GOOD = ("same", "asked", "skipped")
Judge = Callable[[str], Outcome]
JUDGES: dict[str, tuple[Judge, Callable[[], list[str]]]] = {
    "transformers": (transformers_models.judge_name, lambda: transformers_models.BENCHMARK),
    "architectures": (
        transformers_models.judge_architecture,
        lambda: list(transformers_models.architectures()),
    ),
    "modules": (module_db.judge_module, lambda: list(module_db.entries())),
    "functions": (function_db.judge_function, lambda: list(function_db.entries())),
    "optimizers": (optimizer_db.judge_optimizer, lambda: list(optimizer_db.entries())),
    "timm": (vision_models.judge_timm, lambda: list(vision_models.TIMM)),
    "torchvision": (vision_models.judge_torchvision, vision_models.list_torchvision),
}


def read_outcomes() -> dict[tuple[str, str], str]:
    """What is kept, by judge and name."""
    lines = OUTCOMES.read_text(encoding="utf-8").splitlines() if OUTCOMES.exists() else []
    fields = (line.split(" ", 2) for line in lines if line and not line.startswith("#"))
    return {(judge, name): outcome for judge, name, outcome in fields}


def write_outcomes(outcomes: dict[tuple[str, str], str]) -> None:
    head = (
        "# What `python -m tests.peers JUDGE --write` found: judge, name, outcome. Counts may only improve.\n"
    )
    lines = (f"{judge} {name} {outcome}\n" for (judge, name), outcome in outcomes.items())
    OUTCOMES.write_text(head + "".join(lines), encoding="utf-8")


def main(words: list[str] | None = None) -> int:
    """Run one judge; 1 where a program is not eager's."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("judge", choices=JUDGES)
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--rest", action="store_true", help="names without a kept outcome")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args(words)
    judge, names = JUDGES[arguments.judge]
    kept = read_outcomes()
    count: Counter[str] = Counter()
    chosen = [each for each in names() if arguments.only in each]
    if arguments.rest:
        chosen = [each for each in chosen if (arguments.judge, each) not in kept]
    for name, outcome in judge_all(judge, chosen, LIMIT):
        line = " ".join(outcome.line().split())[:120]
        count["whole" if outcome.is_whole else outcome.verdict] += 1
        print(f"{name}: {line}", *outcome.breaks, sep="\n    ", flush=True)
        if arguments.write:
            # Another run may have written others meanwhile.
            write_outcomes({**read_outcomes(), (arguments.judge, name): line})
    print(dict(count))
    return 0 if all(verdict in (*GOOD, "whole") for verdict in count) else 1


if __name__ == "__main__":
    sys.exit(main())
