"""What a callee finds when it looks at the frame that calls it: the user's function, also at a break."""

from __future__ import annotations

import inspect
import sys

import pytest
import torch

import lamina
from tests.capture.test_breaks import call_broken


def describe(frame):
    code = frame.f_code
    names = (code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, frame.f_lineno)
    values = {
        name: value if isinstance(value, (int, str)) else type(value).__name__
        for name, value in frame.f_locals.items()
    }
    return names, values, frame.f_globals is globals()


def who_calls():
    return describe(sys._getframe(1))


def who_calls_by_inspect():
    return describe(inspect.currentframe().f_back)


for _function in (who_calls, who_calls_by_inspect):
    _function.__lamina_disabled__ = True


def prints_its_caller(x):
    print(end="")
    return x + 1, describe(sys._getframe(1))


def two_up():
    return describe(sys._getframe(2))


def reports(x):
    found = two_up()
    print(end="")
    return x * 2, found


def straight(x, numbers):
    y = x + 1
    found = who_calls()
    return y * len(numbers), found, x


def in_a_loop(x, numbers):
    found = []
    for number in numbers:
        y = x * number
        found.append(who_calls_by_inspect())
        x = y + 1
    return x, found, number, y


def with_cells(x, numbers):
    scale = 3

    def inner(y):
        return y * scale

    found = who_calls()
    return inner(x), found, numbers


class Holder:
    def method(self, x, numbers):
        y = x + 1
        found = who_calls()
        return y, found, x, numbers, type(self).__name__


def method(x, numbers):
    return Holder().method(x, numbers)


def nested(x, numbers):
    first = prints_its_caller(x)
    second = reports(first[0])
    return first, second, x, numbers


def handled(x, numbers):
    try:
        raise KeyError("key")
    except KeyError as error:
        found = who_calls()
        return x + 1, found, str(error), numbers


PROGRAMS = [straight, in_a_loop, with_cells, method, nested, handled]
programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


def compare(got, expected):
    """Equal but for locals that nothing reads any more: those the broken frame has let go of."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
    elif isinstance(expected, dict):
        assert got == {name: value for name, value in expected.items() if name in got}
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for left, right in zip(got, expected, strict=True):
            compare(left, right)
    else:
        assert got == expected


@programs
def test_callees_see_the_users_frame(program):
    fast = lamina.compile(program)
    for _ in range(2):
        arguments = (torch.ones(3), [1, 2])
        compare(fast(*arguments), program(*arguments))


@programs
@pytest.mark.parametrize("every", [1, 3])
def test_broken_everywhere(program, every):
    arguments = (torch.ones(3), [1, 2])
    compare(call_broken(program, arguments, every)[0], program(*arguments))


def test_locals_that_are_needed_are_there():
    _, (_, values, _), _ = lamina.compile(straight)(torch.ones(3), [1, 2])
    assert values == {"x": "Tensor", "y": "Tensor", "numbers": "list"}
