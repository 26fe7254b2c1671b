"""What a program does to objects themselves: it asks their id, gives them another class, or other entries."""

from __future__ import annotations

import random

import pytest
import torch

import lamina
from lamina.capture import trace
from lamina.errors import Unsupported


class First:
    def number(self):
        return 1


class Second(First):
    def number(self):
        return 2


def change_class(x, thing):
    thing.__class__ = Second
    return x + thing.number()


def change_entries(x, thing):
    thing.__dict__ = {"other": 5}
    return x + thing.other + hasattr(thing, "before")


@pytest.mark.parametrize("program", [change_class, change_entries])
def test_changed_objects_are_seen_changed(program):
    fast = lamina.compile(program, backend=lambda graph, inputs: graph.forward)
    for _ in range(2):
        expected, got = First(), First()
        expected.before = got.before = 3
        assert torch.equal(fast(torch.ones(2), got), program(torch.ones(2), expected))
        assert type(got) is type(expected) and vars(got) == vars(expected)


def test_a_lazy_module_becomes_what_it_becomes_in_eager():
    module = torch.nn.LazyBatchNorm3d(affine=False, track_running_stats=False)
    lamina.compile(lambda x: module(x), backend=lambda graph, inputs: graph.forward)(
        torch.ones(2, 3, 4, 5, 6)
    )
    assert type(module) is torch.nn.BatchNorm3d


class Named(torch.nn.Module):
    def forward(self, x):
        return x + (id(self) % 7)


def test_the_id_of_a_module():
    module = Named()
    fast = lamina.compile(module, backend=lambda graph, inputs: graph.forward, fullgraph=True)
    assert torch.equal(fast(torch.ones(2)), module(torch.ones(2)))


def test_forward_of_a_compiled_module_is_compiled():
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    module = torch.nn.Linear(2, 2)
    fast = lamina.compile(module, backend=keep)
    whole = lamina.compile(lambda x: fast.forward(x) + fast(x), backend=keep, fullgraph=True)
    x = torch.ones(1, 2)
    assert torch.equal(fast.forward(x), module(x)) and len(graphs) == 1
    assert torch.equal(whole(x), module(x) + module(x)) and len(graphs) == 2


@pytest.mark.parametrize(
    "program",
    [lambda x, first, others: x + (first == others[0]), lambda x, first, others: x + (first != others[0])],
    ids=["equal", "unequal"],
)
def test_equality_that_is_identity_is_guarded(program):
    fast = lamina.compile(program, backend=lambda graph, inputs: graph.forward)
    first, x = First(), torch.ones(2)
    for others in ([First()], [first], (First(),), (first,)):
        assert torch.equal(fast(x, first, others), program(x, first, others))


def sets_of_numbers(numbers, dropped, outside):
    made = set()
    for number in numbers:
        made.add(number)
    frozen = frozenset(made)
    made.difference_update(dropped)
    outside.update(numbers)
    return made, frozen, made | {40}


def test_sets_keep_their_order():
    captures = 0
    for seed in range(20):
        state = random.Random(seed)
        numbers = state.choices((0, 8, 16, 32, 1, 9, 17, 3), k=6)
        dropped = state.choices(numbers, k=seed % 2)
        real, reference = {24}, {24}
        expected = sets_of_numbers(numbers, dropped, reference)
        try:
            captured = trace(sets_of_numbers, (numbers, dropped, real), {}, fullgraph=True)
        except Unsupported as error:
            assert error.code == "result"
            continue
        given = captured.call((numbers, dropped, real), {})
        assert [list(each) for each in (*given, real)] == [list(each) for each in (*expected, reference)]
        captures += 1
    assert captures > 10
