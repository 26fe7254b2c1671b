"""Pages that nobody wrote to can go, and come back as they were."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import llvmlite.binding as llvm
import pytest
import torch

import lamina
from lamina.codegen.llvm.compile import compile_text
from lamina.runtime import library_calls
from lamina.runtime.devices.cpu import resident
from lamina.runtime.devices.cpu.clean_pages import drop, find_mappings, read_clean_pages
from lamina.runtime.devices.cpu.library import Library
from lamina.runtime.devices.cpu.resident import drop_new_pages, give_back

MAPS = """\
7f0000000000-7f0000200000 r-xp 00001000 08:01 42                         /lib/libllvmlite.so
7f0000200000-7f0000300000 r--p 00201000 08:01 42                         /lib/libllvmlite.so
7f0000400000-7f0000500000 rw-p 00401000 08:01 42                         /lib/libllvmlite.so
7f0000500000-7f0000600000 r-xp 00001000 08:01 43                         /lib/libother.so
7f0000600000-7f0000700000 r--p 00000000 00:00 0
"""


def resident_bytes(library: str) -> int:
    total, is_wanted = 0, False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            if "-" in line[:17]:
                is_wanted = library in line
            elif is_wanted and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total


def test_only_what_nobody_can_write() -> None:
    found = find_mappings(MAPS, ["libllvmlite"])
    assert found == [(0x7F0000000000, 0x7F0000200000), (0x7F0000200000, 0x7F0000300000)]


def test_written_pages_stay(tmp_path: Path) -> None:
    """A private mapping whose second page was written, as a relocation does."""
    file = tmp_path / "libsome.so"
    file.write_bytes(b"a" * 3 * mmap.PAGESIZE)
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    _ = bytes(mapped)
    mapped[mmap.PAGESIZE] = ord("b")
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(mapped)), 1) == 0
    ((mapping, pages),) = read_clean_pages([str(file)]).items()
    assert mapping == (address, address + len(mapped))
    assert pages.tolist() == [True, False, True]
    assert drop(mapping, pages) == 2 * mmap.PAGESIZE
    assert read_clean_pages([str(file)])[mapping].tolist() == [False, False, False]
    assert ctypes.string_at(address, len(mapped)) == bytes(mapped)
    assert mapped[mmap.PAGESIZE] == ord("b")


def test_the_library_still_works() -> None:
    llvm.initialize_native_target()
    text = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
    before = str(llvm.parse_assembly(text))
    taken = resident_bytes("libllvmlite")
    assert drop_new_pages() > 0
    assert resident_bytes("libllvmlite") < taken / 2
    assert str(llvm.parse_assembly(text)) == before


def test_the_programs_own_pages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "_before", None)
    monkeypatch.setattr(resident, "PROGRAMS", ("libllvmlite",))
    monkeypatch.setattr(resident, "COMPILERS", ())
    drop_new_pages()
    str(llvm.parse_assembly("define i32 @f() {\n  ret i32 0\n}\n"))
    resident.note_pages()
    kept = resident_bytes("libllvmlite")
    compile_text("define void @g(ptr %args, i64 %threads) {\n  ret void\n}\n", "scalar")
    assert resident_bytes("libllvmlite") > kept
    drop_new_pages()
    assert resident_bytes("libllvmlite") == kept


def test_a_library_that_is_not_loaded() -> None:
    assert read_clean_pages(["libnobodyhas"]) == {}


def test_pages_are_looked_for_only_after_the_library_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[bool] = []
    monkeypatch.setattr(resident, "drop_new_pages", lambda: walks.append(True))
    give_back()
    walks.clear()
    give_back()
    assert not walks
    text = "define void @here(ptr %args, i64 %threads) {\n  ret void\n}\n"
    Library(compile_text(text, "scalar").object_code, ["here"])
    give_back()
    give_back()
    assert walks == [True]


@pytest.mark.skipif("mkl" not in library_calls.available_libraries(), reason="packs for MKL")
def test_packed_weights_lie_on_fresh_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """MKL asks for more than it writes: what lies there must not be what somebody else freed."""
    trims: list[bool] = []
    monkeypatch.setattr(library_calls, "trim_heap", lambda: trims.append(True))
    layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(3))).eval()
    with torch.no_grad():
        lamina.compile(layers)(torch.randn(16, 256))
    assert len(trims) == 3
