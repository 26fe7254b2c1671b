"""The run over the database: crashes cost one entry, verdicts are kept, a second run judges what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity import __main__ as run
from tests.parity.judge import Entry, Verdict
from tests.parity.pool import Pool

EXP, SIN = Entry("exp", "float32"), Entry("sin", "float32")


def test_verdicts_are_kept_until_the_sources_change(tmp_path: Path) -> None:
    key = {"sources": "a", "samples": "4"}
    path = tmp_path / "verdicts.jsonl"
    record = run.Record(path, key, is_fresh=False, is_any_source=False)
    record.add(EXP, Verdict("same", 4))
    record.add(SIN, Verdict("differs", 1, 0, "values"))
    again = run.Record(path, key, is_fresh=False, is_any_source=False)
    assert again.verdicts == {EXP: Verdict("same", 4), SIN: Verdict("differs", 1, 0, "values")}
    newer = key | {"sources": "b"}
    assert len(run.Record(path, newer, is_fresh=False, is_any_source=True).verdicts) == 2
    assert not run.Record(path, newer, is_fresh=False, is_any_source=False).verdicts


def test_a_second_run_judges_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--compiler", "nothing", "--only", "exp2", "--dtype", "float32", "--results", str(tmp_path)]
    words += ["--jobs", "1"]
    monkeypatch.setattr(run, "digest_sources", lambda: "fixed")
    assert run.main(words) == 0
    judged: list[Entry] = []
    monkeypatch.setattr(Pool, "judge_all", lambda self, entries: iter(judged.extend(entries) or ()))
    assert run.main(words) == 0
    assert judged == []


def test_a_failure_is_told_and_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict("crashed", reason="the process ended with code -11")
    monkeypatch.setattr(Pool, "judge_all", lambda self, entries: ((entry, verdict, 0.0) for entry in entries))
    words = ["--compiler", "nothing", "--only", "exp2", "--dtype", "float32", "--results", str(tmp_path)]
    assert run.main(words) == 1
    assert "the process ended with code -11" in (tmp_path / "nothing-summary.json").read_text()


def test_a_dead_worker_costs_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool("nothing", most_samples=1, size=1, limit=120.0)
    verdicts = {}
    for entry, verdict, _ in pool.judge_all([Entry("no such operator", "float32"), EXP]):
        verdicts[entry.operator] = verdict.verdict
    assert verdicts == {"no such operator": "crashed", "exp": "same"}


def test_a_slow_entry_is_given_up() -> None:
    pool = Pool("nothing", most_samples=1, size=1, limit=0.0)
    ((_, verdict, _),) = pool.judge_all([EXP])
    assert verdict == Verdict("late", reason="more than 0 s")
