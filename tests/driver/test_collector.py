"""The collector waits while something compiles, and works again afterwards."""

from __future__ import annotations

import gc
import linecache
import sys
import weakref
from pathlib import Path

import pytest

from lamina.driver import collector
from lamina.driver.collector import paused_collector, tidy
from lamina.runtime.devices.cpu import resident


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_paused_inside_also_when_nested_or_failing() -> None:
    assert gc.isenabled()
    with pytest.raises(RuntimeError), paused_collector():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise RuntimeError
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_collected() -> None:
    with paused_collector():
        ring = Ring()
        seen = weakref.ref(ring)
        del ring
        assert seen() is not None
    assert seen() is None


def test_memory_is_given_back_once_all_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[weakref.ref[Ring]] = []
    alive_then: list[bool] = []
    monkeypatch.setattr(resident, "give_back", lambda: alive_then.append(seen[0]() is not None))
    with paused_collector():
        with paused_collector():
            seen.append(weakref.ref(Ring()))
        assert alive_then == []
    assert alive_then == [False]


def test_names_that_were_looked_up_are_forgotten() -> None:
    name = "".join(["looked_up", "_once"])
    before = sys.getrefcount(name)
    with paused_collector():
        getattr(Ring, name, None)
        assert sys.getrefcount(name) > before
    assert sys.getrefcount(name) == before


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_between_stages_cycles_go_and_what_lives_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MANY", 0)
    with paused_collector():
        rings = [Ring(), Ring()]
        seen = [weakref.ref(ring) for ring in rings]
        del rings[0]
        tidy()
        assert seen[0]() is None and seen[1]() is rings[0]
        assert not gc.isenabled()


def test_lines_of_files_are_forgotten_and_generated_text_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("first\nsecond\n")
    generated = "<lamina test of lines>"
    linecache.cache[generated] = (5, None, ["guard\n"], generated)
    try:
        assert linecache.getline(str(file), 2) == "second\n"
        tidy()
        assert str(file) not in linecache.cache
        assert linecache.getline(str(file), 2) == "second\n"
        assert linecache.getline(generated, 1) == "guard\n"
    finally:
        del linecache.cache[generated]


def test_lines_are_looked_at_again_where_the_newest_are_gone(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("first\n")
    linecache.cache["<lamina gone>"] = (5, None, ["gone\n"], "<lamina gone>")
    tidy()
    del linecache.cache["<lamina gone>"]
    assert linecache.getline(str(file), 1) == "first\n"
    tidy()
    assert str(file) not in linecache.cache
