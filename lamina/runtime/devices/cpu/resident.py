"""Gives memory back that compiling needed and running does not.

LLVM's library is a hundred megabytes, of which making a few kernels touches seventy, and tracing touches
parts of torch's libraries that no call of an operation does: pages that the kernel reads again should they
be needed. And what packing and tracing freed lies in malloc's heaps until somebody asks for it to be
returned.
"""

from __future__ import annotations

import contextlib
import ctypes

from lamina.runtime.devices.cpu.clean_pages import Pages, Range, drop, read_clean_pages

COMPILERS = ("libllvmlite",)
PROGRAMS = ("libtorch_cpu", "libtorch_python")
"""Libraries of which compiling uses other parts than running."""
_LIBC = ctypes.CDLL(None)
_was_used = False
_before: dict[Range, Pages] | None = None
"""What of the program's libraries was in memory before the first compile."""


def note_pages() -> None:
    """Something is to be compiled: what is in memory now is not ours to let go."""
    global _before
    if _before is None:
        _before = {}
        with contextlib.suppress(OSError):
            _before = read_clean_pages(PROGRAMS)


def note_use() -> None:
    """A library has done what is done once, LLVM's or torch's: the next `give_back` lets its pages go."""
    global _was_used
    _was_used = True


def give_back() -> None:
    """Both; does nothing where the system has no way to."""
    global _was_used
    if _was_used:
        # Looking at the pages takes milliseconds.
        _was_used = False
        drop_new_pages()
    trim_heap()


def trim_heap() -> None:
    """Return what is free in malloc's heaps to the system (glibc's malloc only)."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(0)


def drop_new_pages() -> int:
    """Let go of the compilers' clean pages, and of those of the program's libraries that have come since
    `note_pages`; their bytes.
    """
    total = 0
    with contextlib.suppress(OSError):
        for mapping, pages in read_clean_pages(COMPILERS + PROGRAMS).items():
            before = (_before or {}).get(mapping)
            total += drop(mapping, pages if before is None else pages & ~before)
    return total
