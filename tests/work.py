"""A measure of work that the machine's load does not change."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def count_calls(run: Callable[[], object]) -> int:
    """The number of calls, of Python and of C functions, that `run()` makes in this thread."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # A collection of garbage would call finalizers and weak references' callbacks of whatever ran before.
    gc.collect()
    gc.disable()
    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(previous)
        gc.enable()
    return count
