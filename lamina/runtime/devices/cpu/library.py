"""Object code -> callable kernels in this process.

Kernels enter threads through `lamina_parallel`, a small function made here (from LLVM text, once a process)
on top of libgomp, the very one that torch has loaded, so that both share one pool of threads. Where the
process has none, a stand-in runs everything on the calling thread.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import torch  # noqa: F401  (its libgomp must be in the process before we look for one)

from lamina.errors import CompilerBug

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

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
"""`void kernel(ptr args, i64 threads)`."""


class Library:
    """Kernels of one object file, loaded. The code stays mapped as long as this lives."""

    __slots__ = ("_engine", "addresses")

    def __init__(self, object_code: bytes, symbols: Iterable[str]) -> None:
        with _LOCK:
            _prepare()
            self._engine = _load(object_code)
            self.addresses = {name: self._engine.get_function_address(name) for name in symbols}
        missing = [name for name, address in self.addresses.items() if not address]
        if missing:
            raise CompilerBug(f"the object code lacks {', '.join(missing)}", stage="load")

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


@cache
def _prepare() -> bool:
    """Make `lamina_parallel` and tell LLVM's linker where it is; whether it has threads."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    functions = openmp_functions(openmp_path())
    for name, address in (functions or {}).items():
        llvm.add_symbol(name, address)
    llvm.add_symbol(PARALLEL, parallel_engine(functions is not None).get_function_address(PARALLEL))
    return functions is not None


def has_threads() -> bool:
    """Whether kernels can run on more than one thread here."""
    with _LOCK:
        return _prepare()


@cache
def parallel_engine(is_threaded: bool) -> llvm.ExecutionEngine:
    """Holds the code of `lamina_parallel`. Unoptimised: made in a millisecond, and it runs once a launch."""
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0, reloc="pic", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(THREADED if is_threaded else SERIAL), machine)
    engine.finalize_object()
    return engine


def _load(object_code: bytes) -> llvm.ExecutionEngine:
    """Link object code into the process. The engine takes over its target machine: a new one each time."""
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    return engine
