"""Pages that nobody wrote to can go, and come back as they were."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from lamina.codegen.llvm.compile import compile_text
from lamina.runtime.devices.cpu import resident
from lamina.runtime.devices.cpu.library import Library
from lamina.runtime.devices.cpu.resident import clean_mappings, drop_clean_pages, give_back

SMAPS = """\
7f0000000000-7f0000200000 r-xp 00001000 08:01 42                         /lib/libllvmlite.so
Rss:                2048 kB
Private_Dirty:         0 kB
7f0000200000-7f0000300000 r--p 00201000 08:01 42                         /lib/libllvmlite.so
Private_Dirty:         4 kB
7f0000300000-7f0000400000 r--p 00301000 08:01 42                         /lib/libllvmlite.so
Private_Dirty:         0 kB
7f0000400000-7f0000500000 rw-p 00401000 08:01 42                         /lib/libllvmlite.so
Private_Dirty:         0 kB
7f0000500000-7f0000600000 r-xp 00001000 08:01 43                         /lib/libother.so
Private_Dirty:         0 kB
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


def test_only_what_is_as_in_the_file() -> None:
    found = list(clean_mappings(SMAPS, "libllvmlite"))
    assert found == [(0x7F0000000000, 0x7F0000200000), (0x7F0000300000, 0x7F0000400000)]


def test_the_library_still_works() -> None:
    llvm.initialize_native_target()
    text = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
    before = str(llvm.parse_assembly(text))
    taken = resident_bytes("libllvmlite")
    assert drop_clean_pages("libllvmlite") > 0
    assert resident_bytes("libllvmlite") < taken / 2
    assert str(llvm.parse_assembly(text)) == before


def test_a_library_that_is_not_loaded() -> None:
    assert drop_clean_pages("libnobodyhas") == 0
    give_back()


def test_pages_are_looked_for_only_after_the_library_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[str] = []
    monkeypatch.setattr(resident, "drop_clean_pages", walks.append)
    give_back()
    walks.clear()
    give_back()
    assert not walks
    text = "define void @here(ptr %args, i64 %threads) {\n  ret void\n}\n"
    Library(compile_text(text, "scalar").object_code, ["here"])
    give_back()
    give_back()
    assert walks == [resident.LIBRARY]
