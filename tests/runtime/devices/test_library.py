"""Loading object code; libgomp and its stand-in; the null device."""

from __future__ import annotations

import ctypes

import pytest

from lamina.codegen.llvm.compile import compile_text
from lamina.errors import CompilerBug
from lamina.runtime.devices.cpu import library
from lamina.runtime.devices.null import Launch, NullLibrary


def object_code(text: str) -> bytes:
    return compile_text(text, "scalar").object_code


EMPTY = "define void @here(ptr %args, i64 %threads) {\n ret void\n}\n"


def test_a_missing_symbol_is_named() -> None:
    code = object_code(EMPTY)
    assert set(library.Library(code, ["here"]).addresses) == {"here"}
    with pytest.raises(CompilerBug, match="there"):
        library.Library(code, ["here", "there"])


def test_an_unknown_callee_is_refused() -> None:
    text = "declare void @nowhere_at_all()\n" + EMPTY.replace("ret", "call void @nowhere_at_all()\n ret")
    with pytest.raises(CompilerBug, match="not loadable"):
        library.Library(object_code(text), ["here"])


@pytest.mark.parametrize("keep", [0, 100, 200])
def test_what_is_no_object_is_refused(keep: int) -> None:
    with pytest.raises(CompilerBug, match="not loadable"):
        library.Library(object_code(EMPTY)[:keep], ["here"])


def test_libraries_with_equal_names_live_side_by_side() -> None:
    """Kernels of different objects may have one name; code lives as long as its library."""
    text = "define void @kernel(ptr %args, i64 %threads) {{\n store i64 {0}, ptr %args\n ret void\n}}\n"
    libraries = [library.Library(object_code(text.format(number)), ["kernel"]) for number in range(4)]
    for number, found in enumerate(libraries):
        cell = ctypes.c_int64(-1)
        found.function("kernel")(ctypes.addressof(cell), 1)
        assert cell.value == number


LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)


def launch(is_threaded: bool, first: int, last: int, step: int, threads: int) -> list[tuple[int, int, int]]:
    calls: list[tuple[int, int, int]] = []
    loop = LOOP(lambda frame, a, b: calls.append((frame, a, b)))
    PARALLEL(library.own_code(is_threaded)[library.PARALLEL])(
        ctypes.cast(loop, ctypes.c_void_p), 42, first, last, step, threads
    )
    return sorted(calls)


def test_the_stand_in_runs_everything_on_the_caller() -> None:
    assert launch(False, 3, 10, 2, 8) == [(42, 3, 10)]


def test_threads_share_the_range() -> None:
    assert library.has_threads()
    assert launch(True, 3, 10, 2, 1) == [(42, 3, 10)]
    assert launch(True, 0, 64, 16, 2) == [(42, 0, 32), (42, 32, 64)]
    assert launch(True, 3, 10, 2, 3) == [(42, 3, 5), (42, 5, 7), (42, 7, 10)]
    assert launch(True, 0, 5, 16, 2) == [(42, 0, 0), (42, 0, 5)]


def test_openmp_is_torchs_own() -> None:
    path = library.openmp_path()
    assert path is not None
    functions = library.openmp_functions(path)
    assert functions is not None
    assert set(functions) == set(library.OPENMP)
    assert library.openmp_functions("/nowhere/libgomp.so") is None
    assert library.openmp_functions(None) is None


def test_null_device_records_launches() -> None:
    null = NullLibrary.of(["kernel_0", "kernel_1"])
    null.function("kernel_1")(4096, 2)
    null.function("kernel_0")(8192, 1)
    assert null.launches == [Launch("kernel_1", 4096, 2), Launch("kernel_0", 8192, 1)]
    with pytest.raises(KeyError):
        null.function("kernel_2")
