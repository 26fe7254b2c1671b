"""Programs broken in loops and in functions made anew: they are captured a few times, not once a round or a call."""

from __future__ import annotations

import collections
import copy

import pytest
import torch

import lamina
from tests.capture.as_it_is import run_as_it_is
from tests.parity.compare import find_difference


def halt(x):
    lamina.graph_break()
    return x + 1


def in_comprehension(x, scale):
    return [halt(x * scale) for _ in range(3)]


def in_lambda(x, scale):
    add = lambda y: halt(y * scale) + x  # noqa: E731
    lamina.graph_break()
    return add(x) + add(x + 1)


def in_a_def_with_a_default(x, scale):
    def apply(y, offset=scale, *, factor=scale):
        return halt(y * factor) + offset

    lamina.graph_break()
    return apply(x) + apply(x, 1)


@pytest.mark.parametrize("program", [in_comprehension, in_lambda, in_a_def_with_a_default])
def test_functions_made_in_each_call_share_captures(program):
    lamina.reset()
    compiled = lamina.compile(program, backend=run_as_it_is)
    x = torch.arange(3.0)
    for scale in (2, 3, 4):
        assert not find_difference(program(x, scale), compiled(x, scale), ((), ()))
    captures = lamina.counters()
    for scale in range(5, 15):
        assert not find_difference(program(x, scale), compiled(x, scale), ((), ()))
    assert lamina.counters() == captures


def repeat(function):
    def twice(x):
        lamina.graph_break()
        return function(function(x))

    return twice


DECORATED = [repeat(lambda x, scale=scale: x * scale) for scale in (2.0, 3.0, 5.0)]


def test_functions_of_one_code_stay_apart():
    def program(x):
        lamina.graph_break()
        for function in DECORATED:
            x = function(x)
        return x

    compiled = lamina.compile(program, backend=run_as_it_is)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 900.0))


ROUNDS = 24


def append(x):
    out = []
    for _ in range(ROUNDS):
        y = x + 1
        lamina.graph_break()
        out.append(y * 2)
    return out


def count_by_length(x):
    out = []
    while len(out) < ROUNDS:
        lamina.graph_break()
        out += [x + len(out), x]
    return out


def build_on_the_last(x):
    out = [x]
    for _ in range(ROUNDS):
        lamina.graph_break()
        out.append(out[-1] + out[0])
    return out


def take_from_a_stack(x):
    todo = list(range(ROUNDS))
    while todo:
        lamina.graph_break()
        x = x + todo.pop()
        if len(todo) == 4:
            todo.append(2)
            todo.pop()
    return x


def two_ends(x):
    out, queue = [], collections.deque(maxlen=5)
    for index in range(ROUNDS):
        lamina.graph_break()
        queue.append(index)
        if index % 3 == 0:
            out.append(x + index)
    return out, list(queue)


def comprehend(x):
    return [halt(x * index) for index in range(ROUNDS)]


def call_in_the_argument(x):
    out = []
    for index in range(ROUNDS):
        out.append(halt(x + index))
    return out


def fill_a_dict(x):
    out = {}
    for index in range(ROUNDS):
        lamina.graph_break()
        out[index] = x + index
    return out


class Record:
    def __init__(self):
        self.items = []
        self.by_number = {}

    def add(self, item):
        self.items.append(item)
        self.by_number[len(self.items)] = item


def fill_an_object(x):
    record = Record()
    for _ in range(ROUNDS):
        lamina.graph_break()
        record.add(x + 1)
    return record.items, record.by_number


def rows(x):
    left, right = [], []
    for index in range(ROUNDS):
        y = x * index
        lamina.graph_break()
        (left if index > 2 else right).append(y + 1)
    return left, right


GROWING = [
    append,
    count_by_length,
    build_on_the_last,
    take_from_a_stack,
    comprehend,
    call_in_the_argument,
    fill_a_dict,
    fill_an_object,
    rows,
]


@pytest.mark.parametrize("program", GROWING)
def test_what_grows_in_a_broken_loop_costs_no_capture_a_round(program):
    lamina.reset()
    compiled = lamina.compile(program, backend=run_as_it_is)
    x = torch.arange(3.0)
    for _ in range(2):
        assert not find_difference(program(x), compiled(x), ((), ()))
    assert lamina.counters()["breaks"] <= 10


def test_a_list_that_lasts_grows_with_each_call():
    log = []

    def program(x):
        log.append(x.sum())
        return x + 1

    compiled = lamina.compile(program, backend=run_as_it_is)
    lamina.reset()
    for number in range(12):
        compiled(torch.full((2,), float(number)))
    assert lamina.counters()["graphs"] == 2
    assert [float(each) for each in log] == [2.0 * number for number in range(12)]


USES = {
    "iterate": lambda out, x: sum(out, x),
    "stack": lambda out, x: torch.stack([*out, x]),
    "pass to torch": lambda out, x: torch.stack(out) if out else x,
    "slice": lambda out, x: [*out[-2:], x],
    "index from the front": lambda out, x: out[2] if len(out) > 2 else x,
    "contains": lambda out, x: x + any(each is x for each in out),
    "class": lambda out, x: x + isinstance(out, list) + (type(out) is list) + hasattr(out, "source"),
    "match": lambda out, x: match_list(out, x),
    "print": lambda out, x: (x, f"{len(out)} {out!r:.1}"),
    "copy": lambda out, x: copy.copy(out),
    "reverse": lambda out, x: list(reversed(out)),
    "insert": lambda out, x: out.insert(0, x - 1),
    "pop first": lambda out, x: out.pop(0) if len(out) > 4 else x,
    "add": lambda out, x: [x, *(out + [x])],  # noqa: RUF005
    "add to another": lambda out, x: [x] + out,  # noqa: RUF005
    "alias": lambda out, x: [other := out, other.append(x + 3), x + len(out)][-1],
    "unpack": lambda out, x: max(*map(len, out), 0),
    "clear": lambda out, x: out.clear() if len(out) > 5 else x,
    "unbound": lambda out, x: list.append(out, x * 2),
    "equal": lambda out, x: x + (out == []),
    "delete": lambda out, x: out.__delitem__(-1) if len(out) > 3 else x,
}


def match_list(out, x):
    match out:
        case [first, *_]:
            return first + 1
        case _:
            return x


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_other_uses_of_what_grows(use):
    def program(x):
        out, seen = [], []
        for index in range(8):
            y = x + index
            lamina.graph_break()
            out.append(y)
            seen.append(use(out, y))
        return out, seen

    compiled = lamina.compile(program, backend=run_as_it_is)
    x = torch.arange(3.0)
    for _ in range(2):
        assert not find_difference(program(x), compiled(x), ((), ()))


def test_lists_that_are_one_are_seen():
    def program(x, left, right):
        left.append(x)
        right.append(x + 1)
        return len(left), len(right), x * 2

    compiled = lamina.compile(program, backend=run_as_it_is)
    x = torch.ones(2)
    for length in range(4):
        for function in (program, compiled):
            left, right = [x] * length, [x] * length
            assert function(x, left, right)[:2] == (length + 1, length + 1)
            assert function(x, left, left)[:2] == (length + 3, length + 3)
            assert [float(each[0]) for each in left[length:]] == [1.0, 1.0, 2.0]


def test_a_deque_keeps_its_bound():
    def program(x, queue):
        queue.append(x)
        return x + len(queue)

    compiled = lamina.compile(program, backend=run_as_it_is)
    for bound in (3, 5):
        for length in range(4):
            queues = [collections.deque([torch.zeros(1)] * length, bound) for _ in range(2)]
            x = torch.full((1,), float(length))
            assert not find_difference(program(x, queues[0]), compiled(x, queues[1]), ((), ()))
            assert list(queues[0]) == list(queues[1])
