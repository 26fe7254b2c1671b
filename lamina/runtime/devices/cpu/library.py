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
from lamina.runtime.devices.cpu.resident import note_use

OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
PARALLEL = "lamina_parallel"
THREADED = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare i64 @llvm.smin.i64(i64, i64)
%job = type { ptr, ptr, i64, i64, i64 }

define void @lamina_parallel(ptr %loop, ptr %frame, i64 %first, i64 %last, i64 %step, i64 %threads) {
  %many = icmp sgt i64 %threads, 1
  br i1 %many, label %share, label %alone
share:
  %job = alloca %job
  store ptr %loop, ptr %job
  %p1 = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %frame, ptr %p1
  %p2 = getelementptr %job, ptr %job, i32 0, i32 2
  store i64 %first, ptr %p2
  %p3 = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %last, ptr %p3
  %p4 = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 %step, ptr %p4
  %count = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @lamina_share, ptr %job, i32 %count, i32 0)
  ret void
alone:
  call void %loop(ptr %frame, i64 %first, i64 %last)
  ret void
}

; Iterations [n * t / T, n * (t + 1) / T) of n, for thread t of T.
define internal void @lamina_share(ptr %job) {
  %loop = load ptr, ptr %job
  %p1 = getelementptr %job, ptr %job, i32 0, i32 1
  %frame = load ptr, ptr %p1
  %p2 = getelementptr %job, ptr %job, i32 0, i32 2
  %first = load i64, ptr %p2
  %p3 = getelementptr %job, ptr %job, i32 0, i32 3
  %last = load i64, ptr %p3
  %p4 = getelementptr %job, ptr %job, i32 0, i32 4
  %step = load i64, ptr %p4
  %length = sub i64 %last, %first
  %less = sub i64 %step, 1
  %rounded = add i64 %length, %less
  %n = sdiv i64 %rounded, %step
  %t32 = call i32 @omp_get_thread_num()
  %t = sext i32 %t32 to i64
  %T32 = call i32 @omp_get_num_threads()
  %T = sext i32 %T32 to i64
  %next = add i64 %t, 1
  %n_t = mul i64 %n, %t
  %begin = sdiv i64 %n_t, %T
  %n_next = mul i64 %n, %next
  %end = sdiv i64 %n_next, %T
  %begin_steps = mul i64 %begin, %step
  %end_steps = mul i64 %end, %step
  %a = add i64 %first, %begin_steps
  %b = add i64 %first, %end_steps
  %bounded = call i64 @llvm.smin.i64(i64 %b, i64 %last)
  call void %loop(ptr %frame, i64 %a, i64 %bounded)
  ret void
}
"""
"""What generated code calls for a parallel loop: see `codegen/llvm/parallel.py`."""
SERIAL = """
define void @lamina_parallel(ptr %loop, ptr %frame, i64 %first, i64 %last, i64 %step, i64 %threads) {
  call void %loop(ptr %frame, i64 %first, i64 %last)
  ret void
}
"""
"""The same on the calling thread alone."""
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


@cache
def _parallel_address() -> int:
    address: int = parallel_code(has_threads())[PARALLEL]
    return address


@cache
def parallel_code(is_threaded: bool) -> llvm.ResourceTracker:
    """The code of `lamina_parallel`: with libgomp's threads, or on the caller alone."""
    builder = llvm.JITLibraryBuilder().add_ir(THREADED if is_threaded else SERIAL).export_symbol(PARALLEL)
    for name, address in ((_openmp() or {}) if is_threaded else {}).items():
        builder.import_symbol(name, address)
    return builder.link(_linker(), f"{PARALLEL}_{is_threaded}")


def _load(object_code: bytes, symbols: tuple[str, ...]) -> llvm.ResourceTracker:
    """Link object code into the process: a fifth of a millisecond."""
    note_use()
    builder = llvm.JITLibraryBuilder().add_object_img(object_code)
    builder.import_symbol(PARALLEL, _parallel_address()).add_current_process()
    for name in symbols:
        builder.export_symbol(name)
    try:
        return builder.link(_linker(), f"kernels_{next(_COUNT)}")
    except RuntimeError as error:
        raise CompilerBug(f"the object code is not loadable: {error}", stage="load") from None


@cache
def load_text(text: str, symbol: str) -> int:
    """Compile LLVM text of the runtime's own, once a process; the address of a function in it."""
    note_use()
    with _LOCK:
        code = llvm.JITLibraryBuilder().add_ir(text).export_symbol(symbol).link(_linker(), symbol)
        _OWN_CODE.append(code)
        address: int = code[symbol]
        return address


_OWN_CODE: list[llvm.ResourceTracker] = []
"""Keeps what `load_text` made mapped."""
