"""What torch logs of errors of shape rules: nothing while a thread of ours runs them on fakes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("torch._subclasses.fake_tensor")
_thread = threading.local()


def is_heard(record: logging.LogRecord) -> bool:
    """A logging filter: records of threads that are in `quiet_fakes` are dropped."""
    return not getattr(_thread, "depth", 0)


@contextmanager
def quiet_fakes() -> Iterator[None]:
    """Keep torch from logging errors of shape rules in this thread: they are raised, or eager's to report."""
    LOGGER.addFilter(is_heard)
    _thread.depth = getattr(_thread, "depth", 0) + 1
    try:
        yield
    finally:
        _thread.depth -= 1
