"""A seeded part of the judges that `python -m tests.peers` runs whole, and the counts that may only improve."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.peers import function_db, module_db, optimizer_db, transformers_models
from tests.peers.__main__ import read_outcomes

SEED = 7
HEAVY = ("Transformer", "RNN", "LSTM", "GRU", "CrossEntropy")


def choose(names: list[str], count: int) -> list[str]:
    return random.Random(SEED).sample(sorted(names), count)


@pytest.mark.parametrize("name", choose(transformers_models.BENCHMARK, 4))
def test_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    outcome = transformers_models.judge_name(name)
    assert outcome.verdict == "same" and outcome.is_whole, outcome


@pytest.mark.parametrize(
    "name", choose([each for each in module_db.entries() if not any(word in each for word in HEAVY)], 12)
)
def test_modules(name: str) -> None:
    outcome = module_db.judge_module(name, most_samples=3)
    assert outcome.verdict in ("same", "skipped"), outcome


@pytest.mark.parametrize("name", choose([each for each in function_db.entries() if "hop/" not in each], 8))
def test_functions(name: str) -> None:
    outcome = function_db.judge_function(name, most_samples=2)
    assert outcome.verdict in ("same", "skipped"), outcome


@pytest.mark.parametrize("name", choose(list(optimizer_db.entries()), 3))
def test_optimizers(name: str) -> None:
    outcome = optimizer_db.judge_optimizer(name, most_samples=1)
    assert outcome.verdict == "same", outcome


def test_counts() -> None:
    """Of what builds: no silent difference, at least as many whole as were counted."""
    counts: dict[str, Counter[str]] = {}
    for (judge, _), outcome in read_outcomes().items():
        counts.setdefault(judge, Counter())[outcome.split()[0].rstrip(",")] += 1
    for judge, fewest in {
        "transformers": 55,
        "modules": 101,
        "functions": 27,
        "timm": 18,
        "torchvision": 71,
        "optimizers": 12,
    }.items():
        assert counts[judge]["differs"] == 0 and counts[judge]["whole"] >= fewest, (judge, counts[judge])
