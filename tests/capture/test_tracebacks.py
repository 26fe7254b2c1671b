"""Tracebacks of errors that a program catches: files, lines, names and texts as CPython's."""

from __future__ import annotations

import gc
import json
import sys
import traceback

import pytest
import torch

import lamina
from tests.capture.test_breaks import call_broken


def fails(x, depth):
    if depth:
        return fails(x, depth - 1)
    raise ValueError("deep" + "er")


def list_entries(error):
    return [(each.filename, each.lineno, each.name) for each in traceback.extract_tb(error.__traceback__)]


def formatted(x):
    try:
        fails(x, 2)
    except ValueError:
        return x + 1, traceback.format_exc()


def by_exc_info(x):
    try:
        [1, 2][x.shape[0] + 5]
    except IndexError:
        kind, error, entries = sys.exc_info()
        return x * 2, kind, str(error), entries.tb_lineno, entries.tb_frame.f_code.co_name, entries.tb_next


def raised_again(x):
    seen = []
    try:
        try:
            fails(x, 1)
        except ValueError as error:
            seen.append(list_entries(error))
            raise
    except ValueError as error:
        seen.append(list_entries(error))
        first = error
    try:
        raise first
    except ValueError as error:
        seen.append(list_entries(error))
        seen.append(list_entries(error.with_traceback(None)))
    return x, seen


def chained(x):
    try:
        try:
            {}["key"]
        except KeyError as error:
            raise RuntimeError("behind it") from error
    except RuntimeError as error:
        return x + 1, "".join(traceback.format_exception(error))


def from_a_generator(x):
    def steps():
        yield 1
        raise LookupError("in the second step")

    try:
        for step in steps():
            x = x + step
    except LookupError as error:
        return x, list_entries(error)


def from_a_comprehension(x):
    try:
        return [x / 0 for x in (1, 2)]
    except ZeroDivisionError as error:
        return x, list_entries(error)


def from_the_library(x):
    try:
        json.loads("{")
    except json.JSONDecodeError as error:
        return x - 1, list_entries(error)[0], error.lineno


def in_a_context_manager(x):
    class Seen:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, entries):
            self.entries = list_entries(error)
            self.same = entries is error.__traceback__
            return True

    with Seen() as seen:
        fails(x, 0)
    return x, seen.entries, seen.same


def given_back(x):
    try:
        fails(x, 1)
    except ValueError as error:
        caught = error
    return x * 2, caught


PROGRAMS = [
    formatted,
    by_exc_info,
    raised_again,
    chained,
    from_a_generator,
    from_a_comprehension,
    from_the_library,
    in_a_context_manager,
]
programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


@programs
def test_as_in_eager(program):
    fast = lamina.compile(program)
    for _ in range(2):
        assert repr(fast(torch.ones(2))) == repr(program(torch.ones(2)))


@programs
def test_broken_everywhere(program):
    x = torch.ones(2)
    result = call_broken(program, (x,), 2)[0]
    torch.testing.assert_close(result[0], program(x)[0])


def with_cells(x, scale):
    def fails_in_a_closure(y, *rest, key=1, **named):
        return [y * scale + each / 0 for each in (1, len(rest))]

    try:
        fails_in_a_closure(2)
    except ZeroDivisionError as error:
        caught = error
    return x * scale, caught


def test_what_is_asked_of_its_frames():
    """As debuggers and reports of errors do: nothing of the program is kept, and nothing breaks."""
    _, error = lamina.compile(with_cells, fullgraph=True)(torch.ones(2), 3)
    entries, names = error.__traceback__, []
    while entries is not None:
        frame = entries.tb_frame
        names.append(frame.f_code.co_name)
        assert dict(frame.f_locals) == {} and frame.f_back is None and frame.f_globals is globals()
        assert isinstance(frame.f_lineno, (int, type(None))) and repr(frame) and not frame.f_trace
        entries = entries.tb_next
    assert names[:2] == ["with_cells", "fails_in_a_closure"]
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    assert "ZeroDivisionError" in "".join(shown.format())
    traceback.clear_frames(error.__traceback__)
    gc.collect()


def test_an_error_that_is_given_back():
    fast = lamina.compile(given_back, fullgraph=True)
    for _ in range(2):
        (_, expected), (_, error) = given_back(torch.ones(2)), fast(torch.ones(2))
        assert "".join(traceback.format_exception(error)) == "".join(traceback.format_exception(expected))
