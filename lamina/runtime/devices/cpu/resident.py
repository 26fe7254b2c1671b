"""Gives memory back that compiling needed and running does not.

LLVM's library is a hundred megabytes, of which making a few kernels touches seventy: pages of the file that
nobody has written to, which the kernel reads again should they be needed. And what packing and tracing freed
lies in malloc's heaps until somebody asks for it to be returned.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libllvmlite"
FORGET = 4
"""MADV_DONTNEED of Linux."""
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(.*)")
_LIBC = ctypes.CDLL(None)
_was_used = False


def note_use() -> None:
    """LLVM's library has made or loaded code: the next `give_back` lets its pages go."""
    global _was_used
    _was_used = True


def give_back() -> None:
    """Both; does nothing where the system has no way to."""
    global _was_used
    if _was_used:
        # Finding the pages takes a walk over all memory of the process: tens of milliseconds in a large one.
        _was_used = False
        drop_clean_pages(LIBRARY)
    trim_heap()


def trim_heap() -> None:
    """Return what is free in malloc's heaps to the system (glibc's malloc only)."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(0)


def drop_clean_pages(library: str) -> int:
    """Let go of a library's pages that are as they are in its file; the bytes of the mappings."""
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for first, last in clean_mappings(Path("/proc/self/smaps").read_text(), library):
            if _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), FORGET) == 0:
                total += last - first
    return total


def clean_mappings(smaps: str, library: str) -> Iterator[tuple[int, int]]:
    """(first, last) of each read-only mapping of a library in which no page was written."""
    found = None
    for line in smaps.splitlines():
        if "-" in line[:17] and (head := MAPPING.match(line)) is not None:
            is_wanted = library in head.group(4) and head.group(3) in ("r-xp", "r--p")
            found = (int(head.group(1), 16), int(head.group(2), 16)) if is_wanted else None
        elif found is not None and line.startswith("Private_Dirty:"):
            if line.split()[1] == "0":
                yield found
            found = None
