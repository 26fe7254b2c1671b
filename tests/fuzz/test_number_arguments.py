"""Random numbers among the arguments of operations in short: every result, or error, is eager's."""

from __future__ import annotations

import pytest

from tests.fuzz.number_arguments import run_case


@pytest.mark.parametrize("first", [20000, 20006])
def test_results_are_eagers(first):
    found = [run_case(seed) for seed in range(first, first + 6)]
    assert not any(found), "\n".join(filter(None, found))
