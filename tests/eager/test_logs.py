"""Torch's log of shape errors is quiet in the threads that run fakes, and only there, only then."""

from __future__ import annotations

import logging
import threading

import pytest

from lamina.eager.logs import LOGGER, quiet_fakes


def log(text: str) -> None:
    LOGGER.error(text)


def test_quiet_inside_and_loud_after(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, LOGGER.name):
        with quiet_fakes(), quiet_fakes():
            log("inside")
        with quiet_fakes():
            log("inside")
        log("after")
    assert [record.message for record in caplog.records] == ["after"]


def test_threads_that_overlap_leave_the_log_on(caplog: pytest.LogCaptureFixture) -> None:
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with quiet_fakes():
            entered.set()
            left.wait(10)

    with caplog.at_level(logging.ERROR, LOGGER.name):
        thread = threading.Thread(target=other)
        with quiet_fakes():
            thread.start()
            assert entered.wait(10)
        log("loud beside a thread that is quiet")
        left.set()
        thread.join()
        log("loud after both")
    assert len(caplog.records) == 2 and not LOGGER.disabled
