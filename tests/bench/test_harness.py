"""The benchmark harness: cells fill, are resumed, survive crashes, hangs, interrupts; tables, documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bench import measure, tables
from bench.__main__ import choose, main
from bench.accuracy import largest_error
from bench.measure import Plan
from bench.peers import PEERS
from bench.process import Worker
from bench.results import Cell, Results
from bench.worker import describe
from bench.workloads import get

QUICK = Plan(threads=1, rounds=2, round_seconds=0.02)


def filled(tmp_path: Path) -> Results:
    """Results as after a run of two workloads with two peers."""
    results = Results(tmp_path / "results.json")
    rounds = [(0.004, 0.002), (0.004, 0.002), (0.008, 0.002)]
    results.cells = {
        name: {
            "eager": Cell("1", 0.1, None, 50 << 20, 40 << 20, 1e-7, {}, [(a, a) for a, _ in rounds]),
            "lamina": Cell("1", 2.5, 0.5, 60 << 20, 24 << 20, 5e-8, {"packed_bytes": 4 << 20}, rounds),
        }
        for name in ("mlp", "bert")
    }
    results.cells["mlp"]["openvino"] = Cell(reason="not installed: openvino")
    return results


def test_a_run_fills_cells_and_a_second_one_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    said: list[str] = []
    measure.measure(get("add-one"), [PEERS["eager"]], Results(path), QUICK, said.append)
    cell = Results(path).cells["add-one"]["eager"]
    assert cell.is_finished(QUICK.rounds, needs_warm=False)
    assert cell.error is not None and cell.error < 1e-6
    assert cell.run_peak is not None and cell.run_peak > 50 << 20

    monkeypatch.setattr(measure, "Worker", None)
    measure.measure(get("add-one"), [PEERS["eager"]], Results(path), QUICK, said.append)
    assert said[-1] == "add-one: round 2 of 2"


def test_crashes_and_hangs_become_reasons(tmp_path: Path) -> None:
    with Worker("no-such-workload", "eager", 1, tmp_path) as worker:
        answer = worker.ask("prepare", 5)
    assert "exit code 1" in answer["reason"] and "no workload 'no-such-workload'" in answer["reason"]
    with Worker("softmax", "eager", 1, tmp_path) as worker:
        assert "compile_seconds" in worker.ask("prepare", 60)
        assert worker.ask("round 30", 0.2)["reason"] == "round took more than 0 s"


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    filled(tmp_path).save()
    monkeypatch.setattr("bench.__main__.measure", interrupt)
    assert main(["--results", str(tmp_path), "--workload", "bert,gelu", "--peer", "eager"]) == 130
    assert Results(tmp_path / "results.json").cells["bert"]["lamina"].cold_seconds == 2.5


def test_a_new_version_of_a_peer_is_measured_anew(tmp_path: Path) -> None:
    results = filled(tmp_path)
    assert results.cell("mlp", PEERS["lamina"], "1").cold_seconds == 2.5
    assert results.cell("mlp", PEERS["lamina"], "2").cold_seconds is None


def test_results_of_another_machine_are_set_aside(tmp_path: Path) -> None:
    results = filled(tmp_path)
    results.machine["processor"] = "another"
    results.save()
    assert Results(tmp_path / "results.json").cells == {}
    assert (tmp_path / "results.old.json").exists()


def test_tables(tmp_path: Path) -> None:
    text = tables.render(filled(tmp_path))
    assert "| mlp | 4 | 2.00 | n/a |" in text  # median of 2, 2, 4
    assert "| **geometric mean** (of how many) |  | 2.00 (2) | n/a (0) |" in text
    assert "| mlp | 0.10 | 2.50 / 0.5 | n/a |" in text
    assert "| mlp | 40 | 0.50 (+4) | n/a |" in text  # 24 MiB, of which 4 are packed weights
    assert "| mlp | 1.0e-07 | 0.50 | n/a |" in text
    assert "- mlp with openvino: not installed: openvino" in text


def test_an_unfinished_cell_says_how_to_go_on(tmp_path: Path) -> None:
    results = filled(tmp_path)
    assert "not finished" not in tables.render(results)
    results.cells["bert"]["lamina"].rounds = []
    reason = "- bert with lamina: not finished; `python -m bench --workload bert --peer lamina` goes on"
    assert reason in tables.render(results)


def test_documents_are_rewritten_between_marks(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    title = "Speed: networks, times eager's (higher is better)"
    document.write_text(f"before\n<!-- bench: {title} -->\nold\n<!-- /bench -->\nafter\n")
    assert tables.write_between_marks(document, filled(tmp_path)) == [title]
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("<!-- /bench -->\nafter\n")
    assert "| mlp | 4 | 2.00 | n/a |" in text and "old" not in text
    tables.write_between_marks(document, filled(tmp_path))
    assert document.read_text() == text

    document.write_text("<!-- bench: nothing -->\n<!-- /bench -->\n")
    with pytest.raises(ValueError, match="no table 'nothing'; there are: Speed"):
        tables.write_between_marks(document, filled(tmp_path))


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(SystemExit, match="no peer inductor; there are: eager, lamina"):
        choose("eager,inductor", PEERS, "peer")


def test_errors_are_relative_to_the_largest_result() -> None:
    reference = [torch.tensor([10.0, 0.0], dtype=torch.float64)]
    assert largest_error(torch.tensor([10.0, 0.1]), reference) == pytest.approx(0.01)
    with pytest.raises(RuntimeError, match="results have shapes"):
        largest_error(torch.zeros(3), reference)


def test_a_reason_is_the_cause_and_says_what_to_do() -> None:
    def fail() -> None:
        try:
            raise ValueError("a size is missing\nand more")
        except ValueError as error:
            raise RuntimeError("export failed") from error

    with pytest.raises(RuntimeError) as failure:
        fail()
    assert describe(failure.value) == "ValueError: a size is missing"
    missing = ModuleNotFoundError("No module named 'openvino'", name="openvino")
    assert describe(missing) == "not installed: openvino (pip install -r requirements/bench.txt)"
