"""Judge 1 in short: some of CPython's own tests through the machine, held against the recorded counts."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from tests.peers.cpython_tests import COUNTS, SHORT, WRONG, judge_all, lost, read_counts, total_of

HERE = "{}.{}".format(*sys.version_info[:2])


@pytest.mark.parametrize("key", sorted(json.loads(COUNTS.read_text())))
def test_no_recorded_difference(key: str) -> None:
    total = total_of(json.loads(COUNTS.read_text())[key])
    assert not [kind for kind in WRONG if total[kind]]
    assert total["same"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", sorted(SHORT))
def test_short_form(mode: str) -> None:
    if importlib.util.find_spec("test.test_scope") is None:
        pytest.skip("this Python comes without its tests")
    if HERE != "3.11":
        pytest.skip("the counts of 3.11 are held")
    counts, _ = judge_all(sys.executable, mode, SHORT[mode], show=False)
    assert not lost(counts, read_counts(HERE, mode))
