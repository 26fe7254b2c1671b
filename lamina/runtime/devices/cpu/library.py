"""Object code -> callable kernels in this process.

Generated code enters threads through libgomp, the very one that torch has loaded, so that both share one
pool of threads. Where the process has none, a stand-in runs everything on the calling thread.
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
SERIAL = """
define void @lamina_serial_parallel(ptr %function, ptr %data, i32 %threads, i32 %flags) {
  call void %function(ptr %data)
  ret void
}
define i32 @lamina_serial_thread() {
  ret i32 0
}
define i32 @lamina_serial_threads() {
  ret i32 1
}
"""
"""What stands in for libgomp: one thread, which is the caller."""
SERIAL_NAMES = ("lamina_serial_parallel", "lamina_serial_thread", "lamina_serial_threads")
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
    """Tell LLVM's linker where libgomp's functions are; whether they are the real ones."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    functions = openmp_functions(openmp_path())
    for name, address in (functions or serial_functions()).items():
        llvm.add_symbol(name, address)
    return functions is not None


def has_threads() -> bool:
    """Whether kernels can run on more than one thread here."""
    with _LOCK:
        return _prepare()


@cache
def _serial_engine() -> llvm.ExecutionEngine:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(SERIAL), _machine())
    engine.finalize_object()
    return engine


def serial_functions() -> dict[str, int]:
    """The stand-ins for libgomp's functions."""
    engine = _serial_engine()
    return {name: engine.get_function_address(own) for name, own in zip(OPENMP, SERIAL_NAMES, strict=True)}


def _machine() -> llvm.TargetMachine:
    """A new one for each engine, which takes it over."""
    return llvm.Target.from_default_triple().create_target_machine(reloc="pic", jit=True)


def _load(object_code: bytes) -> llvm.ExecutionEngine:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    return engine
