"""Pages of loaded libraries that are as they are in the file: known to the kernel, droppable at no loss.

/proc/self/maps tells where a library lies, /proc/self/pagemap in one word a page what is in memory and
whether it still belongs to the file (Linux: Documentation/admin-guide/mm/pagemap.rst). A page that somebody
wrote to, a relocation or a debugger's, belongs to the process and stays.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Range = tuple[int, int]
"""The first address of a mapping and the one past its end."""
Pages = npt.NDArray[np.bool_]
"""For each page of a mapping whether it is in memory and clean."""

MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \S+\s+(.+)")
IS_PRESENT, IS_FILE = 1 << 63, 1 << 61
CLEAN = np.uint64(IS_PRESENT | IS_FILE)
FORGET = 4
"""MADV_DONTNEED of Linux."""
_LIBC = ctypes.CDLL(None)


def read_clean_pages(libraries: Sequence[str]) -> dict[Range, Pages]:
    """The read-only mappings of files with one of these names in their path; OSError where Linux's files on
    them are not to be had.
    """
    found: dict[Range, Pages] = {}
    with open("/proc/self/pagemap", "rb", buffering=0) as words:
        for first, last in find_mappings(Path("/proc/self/maps").read_text(), libraries):
            words.seek(first // mmap.PAGESIZE * 8)
            read = np.frombuffer(words.read((last - first) // mmap.PAGESIZE * 8), np.uint64)
            found[first, last] = (read & CLEAN) == CLEAN
    return found


def find_mappings(maps: str, libraries: Sequence[str]) -> list[Range]:
    """Where the text and the constants of libraries are mapped, from the text of /proc/self/maps."""
    heads = filter(None, map(MAPPING.match, maps.splitlines()))
    return [
        (int(head[1], 16), int(head[2], 16)) for head in heads if any(name in head[3] for name in libraries)
    ]


def drop(mapping: Range, pages: Pages) -> int:
    """Let go of the chosen pages of a mapping; their bytes. They are read again when touched."""
    edges = np.flatnonzero(np.diff(pages, prepend=False, append=False))
    for start, end in edges.reshape(-1, 2).tolist():
        address = mapping[0] + start * mmap.PAGESIZE
        _LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t((end - start) * mmap.PAGESIZE), FORGET)
    return int(pages.sum()) * mmap.PAGESIZE
