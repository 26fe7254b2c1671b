"""Random call sequences in short: nothing stale is used."""

from __future__ import annotations

import pytest

from tests.fuzz.call_sequences import run_sequence


@pytest.mark.parametrize("first", [20000, 20001])
def test_no_stale_result(first):
    assert sum(run_sequence(seed, calls=10) for seed in range(first, first + 40, 2)) > 10
