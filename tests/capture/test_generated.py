"""Generated functions: what is read, and when."""

from __future__ import annotations

import gc
import linecache
import traceback

import pytest

from lamina.capture.generated import LazyWriter, Writer, compile_function


def test_what_is_used_once_is_read_where_it_is_used():
    writer = LazyWriter("f", "args, kwargs")
    first = writer.read("args[0]")
    once = writer.read(f"{first}['v0']")
    writer.add(f"if {once} != {'v0'!r}: return None")
    twice = writer.read(f"{first}['v1']")
    writer.add(f"return [{twice}, {twice}]")
    text = writer.text()
    assert text.splitlines() == [
        "def f(args, kwargs):",
        "    v0 = args[0]",
        "    if v0['v0'] != 'v0': return None",
        "    v2 = v0['v1']",
        "    return [v2, v2]",
    ]
    assert writer.build()(({"v0": "v0", "v1": 3},), {}) == [3, 3]


@pytest.mark.parametrize("name", ["\0", "\x000\0", "v0", "a\nb", "'"])
def test_names_that_look_like_ours_stay_what_they_are(name):
    writer = LazyWriter("f", "args, kwargs")
    entries = writer.read("args[0]")
    value = writer.read(f"{entries}[{writer.constant(name)}]")
    writer.add(f"return [{value}, {writer.constant(name)}]")
    assert writer.build()(({name: 7},), {}) == [7, name]


def test_a_failed_read_gives_none():
    writer = LazyWriter("f", "args, kwargs")
    writer.add(f"if {writer.read('args[1]')} is None: return None")
    writer.add("return []")
    function = writer.build(guarded=True)
    assert function((1,), {}) is None and function((1, 2), {}) == []


def write_raising():
    writer = Writer("f", "value")
    writer.add("return 1 // value")
    return writer.build()


def test_lines_stay_as_long_as_a_traceback_needs_them():
    try:
        write_raising()(0)
    except ZeroDivisionError as error:
        kept = error
    forget_by_making_another()
    assert "return 1 // value" in "".join(traceback.format_exception(kept))


def test_lines_of_functions_that_are_gone_are_dropped():
    function = write_raising()
    file = function.__code__.co_filename
    forget_by_making_another()
    assert linecache.getline(file, 2) == "    return 1 // value\n"
    del function
    forget_by_making_another()
    assert file not in linecache.cache


def forget_by_making_another():
    gc.collect()
    compile_function("g", "def g(): pass\n", {})
