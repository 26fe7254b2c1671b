"""Properties in classes derived from builtin ones: their code is traced, and a property replaced later is seen."""

from __future__ import annotations

import collections

import pytest
import torch

import lamina
from lamina.capture import trace

X = torch.arange(3.0)
Pair = collections.namedtuple("Pair", "left right")
BASES = [
    (dict, ()), (list, ()), (tuple, ()), (int, (3,)), (str, ("a",)), (float, (1.5,)), (set, ()),
    (Exception, ()), (collections.OrderedDict, ()), (collections.deque, ()), (collections.defaultdict, ()),
]  # fmt: skip


class Holder:
    pass


def make_case(base, given):
    class Kind(base):
        @property
        def left(self):
            return X.sum() + 1

    return Kind, Kind(*given)


CASES = [make_case(*each) for each in BASES] + [(Pair, Pair(1, 2))]


@pytest.mark.parametrize(("kind", "value"), CASES, ids=[kind.__mro__[1].__name__ for kind, _ in CASES])
@pytest.mark.parametrize("way", ["an attribute", "an argument"])
def test_a_replaced_property_is_seen(kind, value, way, monkeypatch):
    holder = Holder()
    holder.value = value
    if way == "an attribute":
        program, args = lambda x: x + holder.value.left, (X,)
    else:
        program, args = lambda x, value: x + value.left, (X, value)
    with torch.no_grad():
        captured = trace(program, args, {})
        assert captured.check(args, {})
        assert torch.equal(captured.call(args, {}), program(*args))
        monkeypatch.setattr(kind, "left", property(lambda self: 7))
        assert not captured.check(args, {})


def test_what_a_property_does_is_traced():
    _, value = make_case(dict, ())
    with torch.no_grad():
        captured = trace(lambda x: x + value.left, (X,), {})
    assert [node.name for node in captured.graph_module.graph.nodes if "sum" in node.name]


def test_what_builtin_classes_give_is_as_before():
    class Table(dict):
        pass

    class WrongError(ValueError):
        pass

    def program(x):
        table, wrong, pair = Table(a=1), WrongError("w", 2), Pair(x, 4)
        table.more = 3
        read = (table.get("a"), table.more, wrong.args[1], pair.right, pair._fields, type(pair).left.__doc__)
        return pair.left + table.get("a") + wrong.args[1], read

    captured = trace(program, (X,), {})
    assert captured.pause is None
    found, expected = captured.call((X,), {}), program(X)
    assert torch.equal(found[0], expected[0]) and found[1] == expected[1]


def test_methods_bound_to_what_cannot_be_read_do_not_run_in_the_trace():
    calls = []

    class Kind(tuple):
        def doubled(self, x):
            calls.append(1)
            return x * 2 + self.index(1)

        def __getitem__(self, place):
            return 7

    fast = lamina.compile(lambda x, method: method(x) + 1)
    for count in (1, 2, 3):
        with torch.no_grad():
            assert torch.equal(fast(X, Kind((0, 1)).doubled), X * 2 + 2)
        assert len(calls) == count
