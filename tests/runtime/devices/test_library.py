"""Loading object code; libgomp and its stand-in; the null device."""

from __future__ import annotations

import ctypes

import pytest
import torch

from lamina.errors import CompilerBug
from lamina.runtime.devices.cpu import library
from lamina.runtime.devices.cpu.threads import thread_count
from lamina.runtime.devices.null import Launch, NullLibrary


def test_a_missing_symbol_is_named() -> None:
    from lamina.codegen.llvm.compile import compile_text

    code = compile_text("define void @here(ptr %args, i64 %threads) {\n ret void\n}\n", "scalar").object_code
    assert set(library.Library(code, ["here"]).addresses) == {"here"}
    with pytest.raises(CompilerBug, match="lacks there"):
        library.Library(code, ["here", "there"])


def test_the_stand_in_runs_everything_on_the_caller() -> None:
    functions = library.serial_functions()
    calls = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    parallel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    parallel(functions["GOMP_parallel"])(ctypes.cast(callback, ctypes.c_void_p), 42, 8, 0)
    assert calls == [42]
    number = ctypes.CFUNCTYPE(ctypes.c_int)
    assert number(functions["omp_get_thread_num"])() == 0
    assert number(functions["omp_get_num_threads"])() == 1


def test_openmp_is_torchs_own() -> None:
    path = library.openmp_path()
    assert path is not None
    functions = library.openmp_functions(path)
    assert functions is not None
    assert set(functions) == set(library.OPENMP)
    assert library.openmp_functions("/nowhere/libgomp.so") is None
    assert library.openmp_functions(None) is None


def test_thread_count_follows_torch() -> None:
    assert thread_count() == torch.get_num_threads()
    assert thread_count(3) == 3


def test_null_device_records_launches() -> None:
    null = NullLibrary.of(["kernel_0", "kernel_1"])
    null.function("kernel_1")(4096, 2)
    null.function("kernel_0")(8192, 1)
    assert null.launches == [Launch("kernel_1", 4096, 2), Launch("kernel_0", 8192, 1)]
    with pytest.raises(KeyError):
        null.function("kernel_2")
