"""The collector waits while something compiles, and works again afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest

from lamina.driver.collector import paused_collector


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


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
