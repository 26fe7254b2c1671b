"""Object code -> callable kernels in this process.

Kernels enter threads through `lamina_parallel`, a small function made here (from LLVM text, once a process)
on top of libgomp, the very one that torch has loaded, so that both share one pool of threads. Where the
process has none, a stand-in runs everything on the calling thread.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import torch  # noqa: F401  (its libgomp must be in the process before we look for one)

from lamina.errors import CompilerBug
from lamina.runtime.devices.cpu.own_text import (
    FINGERPRINT,
    FINGERPRINTS,
    IDENTITIES,
    PARALLEL,
    ROWS,
    SERIAL,
    THREADED,
)
from lamina.runtime.devices.cpu.resident import note_use

OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_LOCK = threading.RLock()
_COUNT = itertools.count()

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
"""`void kernel(ptr args, i64 threads)`."""


class Library:
    """Kernels of one object file, loaded. The code stays mapped as long as this lives."""

    __slots__ = ("_code", "addresses")

    def __init__(self, object_code: bytes, symbols: Iterable[str]) -> None:
        names = tuple(symbols)
        with _LOCK:
            self._code = _load(object_code, names)
            try:
                self.addresses = {name: self._code[name] for name in names}
            except (KeyError, RuntimeError) as error:
                raise CompilerBug(f"the object code is not loadable: {error}", stage="load") from None

    def function(self, name: str) -> Any:
        """The kernel as a ctypes function of (address of the table of pointers, number of threads)."""
        return KERNEL(self.addresses[name])


def openmp_path() -> str | None:
    """The libgomp that this process has mapped (torch's own before any other); None when there is none."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    paths = {line.split(maxsplit=5)[5] for line in lines if "libgomp" in line}
    return min(paths, key=lambda path: ("torch" not in path, path), default=None)


def openmp_functions(path: str | None) -> dict[str, int] | None:
    """Addresses of the entry points that generated code calls, or None when they cannot be had."""
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path)
        found = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in OPENMP}
    except (OSError, AttributeError):
        return None
    return {name: address for name, address in found.items() if address}


def has_threads() -> bool:
    """Whether kernels can run on more than one thread here."""
    return _openmp() is not None


@cache
def _openmp() -> dict[str, int] | None:
    return openmp_functions(openmp_path())


@cache
def _linker() -> llvm.LLJIT:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # LLVM's older linker may put a kernel's constants more than 2 GB from its code, in a process with much
    # memory, and then ends the process.
    return llvm.create_lljit_compiler(use_jit_link=True)


def own_address(symbol: str) -> int:
    """Where a function of `own_text` lies."""
    with _LOCK:
        address: int = own_code(has_threads())[symbol]
        return address


@cache
def own_code(is_threaded: bool) -> llvm.ResourceTracker:
    """The code of `own_text`; `lamina_parallel` with libgomp's threads, or on the caller alone."""
    note_use()
    text = "".join((THREADED if is_threaded else SERIAL, FINGERPRINTS, ROWS))
    builder = llvm.JITLibraryBuilder().add_ir(text)
    for symbol in (PARALLEL, FINGERPRINT, IDENTITIES):
        builder.export_symbol(symbol)
    for name, address in ((_openmp() or {}) if is_threaded else {}).items():
        builder.import_symbol(name, address)
    return builder.link(_linker(), f"lamina_own_{is_threaded}")


def _load(object_code: bytes, symbols: tuple[str, ...]) -> llvm.ResourceTracker:
    """Link object code into the process: a fifth of a millisecond."""
    note_use()
    builder = llvm.JITLibraryBuilder().add_object_img(object_code)
    builder.import_symbol(PARALLEL, own_address(PARALLEL)).add_current_process()
    for name in symbols:
        builder.export_symbol(name)
    try:
        return builder.link(_linker(), f"kernels_{next(_COUNT)}")
    except RuntimeError as error:
        raise CompilerBug(f"the object code is not loadable: {error}", stage="load") from None
