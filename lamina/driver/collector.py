"""Python's garbage collector waits while something compiles.

A compile makes some hundred thousand objects, most of which live until its end: the collector would look at
them again and again, and at all that torch keeps besides, for a fifth of the time. Instead each is looked at
once after the stage that made it, so that the next stage takes the place of what is gone and the process
stays small, and once more at the end.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import linecache
import sys
import threading
from collections.abc import Callable, Iterator

from lamina.runtime.devices.cpu import resident

MANY = 20_000
"""Objects made since the last look that are worth another."""
_lock = threading.Lock()
_depth = 0
_was_enabled = False
_looked_at = ""
"""The newest entry of Python's cache of lines that was there last time and stayed: a dict keeps its order."""


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """No collection inside; compiles may nest and run in several threads."""
    global _depth, _was_enabled
    forget_source_lines()
    resident.note_pages()
    with _lock:
        if _depth == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            is_last = _depth == 0
            is_collected = is_last and _was_enabled
            if is_collected:
                gc.enable()
        if is_collected:
            gc.collect(1)
        if is_last:
            release()


def tidy() -> None:
    """Between two stages of a compile: free what the last one left behind."""
    if gc.get_count()[0] > MANY:
        gc.collect(0)
    forget_source_lines()


def release() -> None:
    """Return what is free to the system.

    CPython's cache of methods holds the names that were looked up last, among them each name that a `match`
    on a class or a `getattr` made: a thousand small strings that keep as many pages of freed objects.
    """
    _forget_lookups()
    resident.give_back()


def _find_cache_clearing() -> Callable[[], None]:
    # Since Python 3.13 the narrower function is deprecated.
    found: Callable[[], None] = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    return found


_forget_lookups = _find_cache_clearing()


def forget_source_lines() -> None:
    """Drop the lines of source files that Python keeps for tracebacks; it reads them again when asked.

    Torch's fake modes note where they were made, which reads each file on the way. Text that is in no file
    (our generated code) has no time of change and stays; it is looked at once.
    """
    global _looked_at
    lines = linecache.cache
    known = _looked_at
    stayed = []
    for file in itertools.takewhile(lambda file: file != known, reversed(list(lines))):
        entry = lines.get(file, ())
        if len(entry) == 4 and entry[1] is not None:
            lines.pop(file, None)
        else:
            stayed.append(file)
    if stayed:
        _looked_at = stayed[0]
