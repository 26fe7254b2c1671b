"""Python's garbage collector waits while something compiles.

A compile makes some hundred thousand objects, most of which live until its end: the collector would look at
them again and again, and at all that torch keeps besides, for a fifth of the time. Afterwards what was made
meanwhile, and nothing else, is looked at once.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_depth = 0
_was_enabled = False


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """No collection inside; compiles may nest and run in several threads."""
    global _depth, _was_enabled
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
            is_last = _depth == 0 and _was_enabled
            if is_last:
                gc.enable()
        if is_last:
            gc.collect(0)
