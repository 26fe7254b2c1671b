"""Iterators over a break: the rest of a loop is captured, the real iterator stands where eager's does."""

from __future__ import annotations

import collections
import itertools
import random

import pytest
import torch

import lamina
from tests.capture.as_it_is import run_as_it_is
from tests.capture.test_breaks import call_broken


def tensors(count):
    return [torch.arange(3.0) + index for index in range(1, count + 1)]


def in_round(x, values):
    for index, value in enumerate(values):
        x = x + value
        if index == 2:
            lamina.graph_break()
    return x


def in_two_zips(x, values):
    seen = []
    for index, (left, right) in zip(range(100), zip(values, values[::-1], strict=True), strict=False):
        x = x * left + right
        seen.append(index)
        if index == 1:
            lamina.graph_break()
    return x, seen


def over_a_dict(x, values):
    entries = dict(zip("abcdef", values, strict=False))
    for key, value in entries.items():
        x = x + value
        if key == "b":
            lamina.graph_break()
    for key in entries:
        if key == "c":
            lamina.graph_break()
        x = x * len(key)
    return x


def reversed_and_text(x, values):
    for value in reversed(values):
        x = x + value
        if value is values[1]:
            lamina.graph_break()
    for sign in "abc":
        x = x + ord(sign)
        if sign == "a":
            lamina.graph_break()
    return x


def nested(x, values):
    for value in tuple(values):
        for index in range(3):
            x = x + value * index
            if index == 1 and value is values[1]:
                lamina.graph_break()
    return x


def held_twice(x, values):
    iterator = iter(values)
    holder = [iterator]
    for value in iterator:
        x = x + value
        if len(holder) == 1:
            holder.append(1)
            lamina.graph_break()
            x = x * next(holder[0])
    return x, list(iterator), next(holder[0], None)


def left_early(x, values):
    iterator = iter(values)
    for value in iterator:
        lamina.graph_break()
        x = x + value
        if value is values[2]:
            break
    return x, list(iterator), list(iterator)


def list_grows(x, values):
    values = list(values)
    for value in values:
        x = x + value
        if len(values) < 8:
            values.append(value * 2)
            if len(values) == 7:
                lamina.graph_break()
    return x, len(values)


def pairs_of_one_iterator(x, values):
    iterator = iter(values)
    lamina.graph_break()
    for left, right in zip(iterator, iterator, strict=False):
        x = x + left * right
    return x, list(iterator)


def zip_ends_first(x, values):
    left, right = iter(values), iter(values[:2])
    both = zip(left, right, strict=False)
    next(both)
    lamina.graph_break()
    for one, other in both:
        x = x + one * other
    return x, next(both, None) is None


def changed_before_the_break(x, values):
    iterator = iter(values)
    values.append(x)
    values.append(x * 2)
    for value in iterator:
        x = x + value
        if value is values[-2]:
            lamina.graph_break()
    return x, values


def mapped(x, values):
    called = []

    def scale(value):
        called.append(len(called))
        return value * len(called)

    for index, value in enumerate(values):
        x = x + value * index
    for value in map(scale, values):
        x = x + value
        if len(called) == 2:
            lamina.graph_break()
    return x, called


def filtered_pairs(x, values):
    asked = []

    def is_wanted(pair):
        asked.append(pair[0])
        return pair[0] != 1

    for index, value in filter(is_wanted, enumerate(values)):
        x = x + value * index
        if index == 2:
            lamina.graph_break()
    return x, asked


def mapped_and_held(x, values):
    inner = iter(values)
    outer = map(torch.mul, inner, itertools.count(2))
    for value in outer:
        x = x + value
        if x.dim() == 1:
            lamina.graph_break()
        break
    x = x - next(inner)
    for value in outer:
        x = x * 0.5 + value
    return x, list(inner)


def chained(x, values):
    for value in itertools.chain(values[:2], tuple(values[1:]), iter(values)):
        x = x + value
        if value is values[1]:
            lamina.graph_break()
    for value in itertools.islice(values, 1, None, 2):
        lamina.graph_break()
        x = x * value
    return x


def chained_once(x, values):
    for index, value in enumerate(itertools.chain(values, [x * 2])):
        x = x + value
        if index == 2:
            lamina.graph_break()
    for value in itertools.starmap(torch.add, itertools.chain(zip(values, values, strict=True))):
        x = x + value
    return x


def starred(x, values):
    for value in itertools.starmap(torch.add, zip(values, values[::-1], strict=True)):
        x = x + value
        if x.dim() == 1:
            lamina.graph_break()
    return x, list(itertools.filterfalse(None, [0, 1]))


def gathered(x, values):
    for value in itertools.chain.from_iterable([values, values[:1]]):
        x = x + value
        if value is values[1]:
            lamina.graph_break()
    return x


def paired(x, values):
    for index, (left, right) in zip(itertools.count(3, -2), itertools.pairwise(values), strict=False):
        x = x * left + right * index
        if index == 1:
            lamina.graph_break()
    for left, right in itertools.product(values[:2], repeat=2):
        x = x + left * right
        if left is values[0]:
            lamina.graph_break()
    return x


def selected(x, values):
    seen = []
    for left, right in itertools.combinations(values, 2):
        x = x + left * right
        if right is values[2]:
            lamina.graph_break()
    for order in itertools.permutations(range(3)):
        seen.append(order)
        if order == (1, 0, 2):
            lamina.graph_break()
        x = x * order[2]
    for left, right in itertools.combinations_with_replacement(range(3), 2):
        if left == right == 1:
            lamina.graph_break()
        x = x + left - right
    return x, seen


def repeated(x, values):
    forever = itertools.cycle(values)
    for left, right in zip(itertools.repeat(x, 6), forever, strict=False):
        x = x + left * right
        if right is values[1]:
            lamina.graph_break()
    return x - next(forever)


def padded(x, values):
    flags = iter([1, 0, 1, 1, 0, 1])
    for left, right in itertools.zip_longest(values, values[1:-1], fillvalue=x):
        x = x + left * right
        if left is values[0]:
            lamina.graph_break()
    for value in itertools.compress(values, flags):
        x = x + value
        if value is values[2]:
            lamina.graph_break()
    return x, list(flags)


PROGRAMS = [
    paired,
    selected,
    repeated,
    padded,
    mapped,
    filtered_pairs,
    mapped_and_held,
    chained,
    chained_once,
    starred,
    gathered,
    in_round,
    in_two_zips,
    over_a_dict,
    reversed_and_text,
    nested,
    held_twice,
    left_early,
    list_grows,
    pairs_of_one_iterator,
    zip_ends_first,
    changed_before_the_break,
]
programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


def check(program, got, expected):
    torch.testing.assert_close(got, expected, msg=program)


@programs
def test_results_are_eagers(program):
    fast = lamina.compile(program)
    for count in (4, 4, 6, 4):
        check(program.__name__, fast(torch.ones(3), tensors(count)), program(torch.ones(3), tensors(count)))


@programs
@pytest.mark.parametrize("every", [1, 4])
def test_broken_everywhere(program, every):
    got = call_broken(program, (torch.ones(3), tensors(4)), every)[0]
    check(program.__name__, got, program(torch.ones(3), tensors(4)))


@pytest.mark.parametrize(
    "program",
    [in_round, in_two_zips, nested, mapped, filtered_pairs, chained_once],
    ids=lambda program: program.__name__,
)
def test_the_rest_of_a_loop_is_one_graph(program):
    lamina.reset()
    fast = lamina.compile(program)
    for _ in range(2):
        fast(torch.ones(3), tensors(6))
    counts = lamina.counters()
    assert (counts["graphs"], counts["breaks"], counts["recompiles"]) == (2, 1, 0)


KINDS = {
    "islice": lambda values: itertools.islice(values, 1, None, 2),
    "count": lambda values: zip(values, itertools.count(2), strict=False),
    "repeat": lambda values: zip(itertools.repeat(values[0], 5), values, strict=False),
    "cycle": lambda values: zip(range(9), itertools.cycle(values), strict=False),
    "pairwise": itertools.pairwise,
    "product": lambda values: itertools.product(range(2), values),
    "permutations": lambda values: itertools.permutations(values[:3]),
    "combinations": lambda values: itertools.combinations(values, 3),
    "combinations_with_replacement": lambda values: itertools.combinations_with_replacement(values[:3], 2),
    "zip_longest": lambda values: itertools.zip_longest(values, values[:4]),
    "compress": lambda values: itertools.compress(values, [1, 0, 1, 1, 1, 0]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_rest_of_a_loop_over_itertools_is_one_graph(kind):
    def program(x, values):
        for index, value in enumerate(KINDS[kind](values)):
            x = x + index * first_of(value)
            if index == 1:
                lamina.graph_break()
        return x

    def first_of(value):
        return first_of(value[0]) if isinstance(value, tuple) else value

    lamina.reset()
    fast = lamina.compile(program, backend=run_as_it_is)
    for _ in range(2):
        check(kind, fast(torch.ones(3), tensors(6)), program(torch.ones(3), tensors(6)))
    counts = lamina.counters()
    assert (counts["graphs"], counts["breaks"], counts["recompiles"]) == (2, 1, 0)


def breaks_each_round(x, values):
    for value in values:
        x = x + value
        if x.sum() > 1e9:
            x = x * 2
    return x


def test_rounds_with_a_break_share_their_graphs():
    fast = lamina.compile(breaks_each_round)
    lamina.reset()
    fast(torch.ones(3), tensors(12))
    graphs = lamina.counters()["graphs"]
    fast(torch.ones(3), tensors(12))
    assert lamina.counters()["graphs"] == graphs <= 5


MAKERS = {
    "list": lambda: iter(tensors(5)),
    "tuple": lambda: iter(tuple(tensors(5))),
    "enumerate": lambda: enumerate(tensors(5), 3),
    "zip": lambda: zip(tensors(5), tensors(3), strict=False),
    "values": lambda: iter(dict(enumerate(tensors(5))).values()),
    "range": lambda: iter(range(2, 12, 2)),
    "reversed": lambda: reversed(tensors(5)),
    "map": lambda: map(torch.neg, tensors(5)),
    "filter": lambda: filter(torch.is_tensor, tensors(5)),
    "map of enumerate": lambda: map(tuple, enumerate(tensors(5))),
    "islice": lambda: itertools.islice(tensors(7), 1, 6, 2),
    "count": lambda: itertools.count(3, -2),
    "repeat": lambda: itertools.repeat(torch.ones(3), 4),
    "cycle": lambda: itertools.cycle(tensors(3)),
    "pairwise": lambda: itertools.pairwise(tensors(4)),
    "product": lambda: itertools.product(tensors(2), range(2), tensors(1)),
    "permutations": lambda: itertools.permutations(tensors(3), 2),
    "combinations": lambda: itertools.combinations(tensors(4), 2),
    "replaced": lambda: itertools.combinations_with_replacement(range(3), 2),
    "zip_longest": lambda: itertools.zip_longest(tensors(3), tensors(2), fillvalue=torch.ones(3)),
    "compress": lambda: itertools.compress(tensors(5), iter([1, 0, 1, 1, 1])),
    "accumulate": lambda: itertools.accumulate(tensors(4)),
    "takewhile": lambda: itertools.takewhile(torch.is_tensor, tensors(4)),
    "dropwhile": lambda: itertools.dropwhile(lambda value: value.sum() < 7, tensors(4)),
    "tee": lambda: itertools.tee(tensors(4))[1],
    "starmap": lambda: itertools.starmap(torch.add, zip(tensors(4), tensors(3), strict=False)),
    "generator": lambda: (value * 2 for value in tensors(5)),
    "deque": lambda: iter(collections.deque(tensors(5))),
    "chain": lambda: itertools.chain(tensors(2), tensors(3)),
    "subclass": lambda: Mapped(torch.neg, tensors(5)),
}


class Mapped(map):
    """An iterator of the user's class that C code advances."""


def first_of(value):
    while isinstance(value, tuple):
        value = value[-1]
    return value


@pytest.mark.parametrize("kind", MAKERS)
def test_arguments_are_advanced_as_often(kind):
    def take(x, iterator, count):
        for _ in range(count):
            x = x + first_of(next(iterator, 0))
        return x

    fast = lamina.compile(take)
    for count in (0, 1, 2, 7):
        real, reference = MAKERS[kind](), MAKERS[kind]()
        for steps in (count, 1, 1):
            check(kind, fast(torch.ones(3), real, steps), take(torch.ones(3), reference, steps))
        check(kind, list(itertools.islice(real, 9)), list(itertools.islice(reference, 9)))


def random_program(seed):
    """The text of a program that walks iterators made before breaks, in loops and step by step."""
    state = random.Random(seed)
    lines = ["def program(x, values):", "    seen, table = [], dict(enumerate(values))"]
    sources = ("iter(values)", "enumerate(values, 2)", "zip(values, range(3))", "iter(table.items())",
               "zip(a, values)", "enumerate(a)", "reversed(values)", "iter(range(4))", "map(torch.neg, a)",
               "map(torch.neg, values)", "filter(torch.is_tensor, a)", "map(max, [0, 1], [2, 3])")  # fmt: skip
    lines += ["    a = iter(values)", f"    b = {state.choice(sources)}", f"    c = {state.choice(sources)}"]
    for _ in range(state.randrange(3, 7)):
        name = state.choice("aabbc")
        step = state.choice(
            (
                f"    for value in {name}:\n        x = x + first_of(value)\n"
                f"        if len(seen) == {state.randrange(5)}: lamina.graph_break()\n"
                "        seen.append(1)",
                f"    x = x + first_of(next({name}, 1))",
                f"    for value in {name}:\n        x = x * 0.5\n        if len(seen) % 2: break\n"
                "        seen.append(2)",
                "    lamina.graph_break()",
                f"    seen.append(len(list({name})))",
                "    if x.sum() > 3: x = x - 1",
                "    values.append(x + 1)",
            )
        )
        lines.append(step)
    return "\n".join([*lines, "    return x, seen, list(a), len(list(b)), values", ""])


def check_random_program(seed):
    text = random_program(seed)
    entries = {"lamina": lamina, "torch": torch, "first_of": first_of}
    exec(compile(text, f"<walks {seed}>", "exec"), entries)
    program = entries["program"]
    fast = lamina.compile(program)
    for count in (3, 3, 5):
        expected = observe(program, count)
        check(text, observe(fast, count), expected)
        check(text, observe(lambda *args: call_broken(program, args, 3)[0], count), expected)


def observe(function, count):
    try:
        return function(torch.ones(3), tensors(count))
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("seed", [*range(9), 13])
def test_random_programs(seed):
    check_random_program(seed)
