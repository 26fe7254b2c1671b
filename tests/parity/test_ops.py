"""A seeded sample of torch's operator database under `lamina.compile`; `make test-ops` judges all of it."""

from __future__ import annotations

import random

import pytest

from tests.parity.compilers import Compiler, use_lamina
from tests.parity.exceptions import EXCEPTIONS
from tests.parity.judge import Entry, judge, list_entries, operators

SEED = 2
COUNT = 150
SAMPLES = 2


def choose_entries() -> list[Entry]:
    """The same entries in every run; another seed chooses others."""
    return random.Random(SEED).sample(list_entries(), COUNT)


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return use_lamina()


@pytest.mark.parametrize("entry", choose_entries(), ids=str)
def test_entry(entry: Entry, compiler: Compiler) -> None:
    verdict = judge(entry, compiler, SAMPLES)
    assert verdict.is_good(entry), f"{verdict.verdict}: {verdict.reason}"


def test_exceptions_are_few_and_known() -> None:
    names = [excuse.operator for excuse in EXCEPTIONS]
    assert len(names) == len(set(names))
    assert set(names) <= set(operators())
    assert all(excuse.reason and excuse.kind in ("metadata", "refused") for excuse in EXCEPTIONS)
    assert len(names) < 0.02 * len(operators())
