"""Random changes between calls: whenever the guards hold, the capture must give what eager gives."""

from __future__ import annotations

import collections
import random

import pytest
import torch

from lamina.capture import trace
from tests.capture.equality import differ

FACTORS = {"a": 1.0, "b": 2}
OFFSET = 1


def double(x):
    return x * 2


def halve(x):
    return x / 2


CHOSEN = double


class Part:
    rate = 0.5

    def __init__(self):
        self.weight = torch.ones(3)
        self.scale = 2
        self.name = "part"

    def apply(self, x):
        return x * self.scale * self.rate + self.weight + len(self.name)


class Whole:
    def __init__(self):
        self.part = Part()
        self.parts = [Part(), Part()]
        self.table = {"x": 1, "y": (1, 2.0, None)}
        self.flag = True
        self.limit = None
        self.order = collections.OrderedDict(p=1, q=2)
        self.names = {"n"}
        self.bias = torch.nn.Parameter(torch.zeros(3))
        self.method = self.part.apply

    def run(self, x, k=3):
        y = CHOSEN(x) * FACTORS["a"] + OFFSET + self.bias
        for part in self.parts:
            y = part.apply(y)
        if self.flag and self.limit is None:
            y = y + k
        elif self.limit is not None:
            y = y * self.limit
        if "n" in self.names:
            y = y + next(iter(self.order.values()))
        if isinstance(self.table["y"], tuple):
            y = y + len(self.table) + self.table["x"]
        y = self.method(y) if self.part.scale > 1 else self.part.apply(y) - 1
        self.seen = y.shape[0]
        return y, getattr(self, "extra", None), str(type(self.flag).__name__)


def set_global(name, value):
    globals()[name] = value


CHANGES = [
    lambda w, r: set_global("OFFSET", r.choice([1, 1.0, True, 2])),
    lambda w, r: set_global("CHOSEN", r.choice([double, halve])),
    lambda w, r: FACTORS.__setitem__("a", r.choice([1.0, 1, 3.0])),
    lambda w, r: FACTORS.__setitem__(r.choice("bc"), r.random()),
    lambda w, r: setattr(w.part, "scale", r.choice([1, 2, 2.0, True])),
    lambda w, r: setattr(w.part, "name", r.choice(["part", "p", "else"])),
    lambda w, r: setattr(w.part, "rate", r.choice([0.5, 0.25])),
    lambda w, r: w.part.__dict__.pop("rate", None),
    lambda w, r: setattr(Part, "rate", r.choice([0.5, 0.75])),
    lambda w, r: setattr(w.part, "weight", torch.full((3,), float(r.randint(0, 3)))),
    lambda w, r: w.part.weight.add_(1),
    lambda w, r: setattr(w.part, "weight", torch.ones(3, dtype=torch.float64)),
    lambda w, r: setattr(w, "part", Part()),
    lambda w, r: w.parts.append(Part()) if len(w.parts) < 4 else w.parts.pop(),
    lambda w, r: w.parts.reverse(),
    lambda w, r: setattr(w.parts[0], "scale", r.randint(1, 3)),
    lambda w, r: setattr(w, "parts", [w.part, w.part]),
    lambda w, r: setattr(w, "flag", r.choice([True, 1, False, 0, "yes"])),
    lambda w, r: setattr(w, "limit", r.choice([None, 2, 2.0, -0.0, 0.0, float("nan")])),
    lambda w, r: w.table.__setitem__("x", r.choice([1, 1.0, True])),
    lambda w, r: w.table.__setitem__("y", r.choice([(1, 2.0, None), [1, 2.0, None], (1, 2, None)])),
    lambda w, r: w.table.__setitem__(r.choice("zw"), 0),
    lambda w, r: w.table.pop("z", None),
    lambda w, r: w.order.move_to_end(r.choice("pq")),
    lambda w, r: w.order.__setitem__("p", r.randint(1, 2)),
    lambda w, r: w.names.symmetric_difference_update({"n"}),
    lambda w, r: w.names.add("m"),
    lambda w, r: setattr(w, "extra", r.choice([1, "t", None])),
    lambda w, r: w.__dict__.pop("extra", None),
    lambda w, r: setattr(w, "bias", torch.nn.Parameter(torch.full((3,), 2.0))),
    lambda w, r: w.bias.requires_grad_(r.choice([True, False])),
    lambda w, r: w.bias.data.add_(1),
    lambda w, r: setattr(w, "method", r.choice([w.part.apply, double, w.parts[0].apply])),
    lambda w, r: setattr(w, "run", lambda x, k=3: Whole.run(w, x + 1, k)),
    lambda w, r: w.__dict__.pop("run", None),
    lambda w, r: setattr(double, "__defaults__", None),
    lambda w, r: torch.set_default_dtype(r.choice([torch.float32, torch.float64])),
    lambda w, r: setattr(Whole.run, "__defaults__", (r.choice([3, 3.0, 4]),)),
    lambda w, r: setattr(w.parts[-1], "apply", r.choice([double, halve])),
    lambda w, r: w.parts[-1].__dict__.pop("apply", None),
]
INPUTS = [torch.arange(3.0), torch.ones(2, 3), torch.ones(3, dtype=torch.float64), torch.ones(3, 2).t()]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_argument", [True, False])
def test_no_stale_result(seed, is_argument):
    choose = random.Random(seed)
    whole = Whole()
    function = (lambda w, x: w.run(x)) if is_argument else (lambda x: whole.run(x))
    captures = []
    hits = 0
    try:
        for _ in range(30):
            for _ in range(choose.randint(0, 2)):
                choose.choice(CHANGES)(whole, choose)
            x = choose.choice(INPUTS)
            args = (whole, x) if is_argument else (x,)
            with torch.no_grad():
                found = next((one for one in captures if one.check(args, {})), None)
                if found is None:
                    assert all(one.explain_failure(args, {}) for one in captures)
                    found = trace(function, args, {})
                    assert found.check(args, {}), found.explain_failure(args, {})
                    captures.append(found)
                else:
                    hits += 1
                whole.__dict__.pop("seen", None)
                got = found.call(args, {})
                assert whole.seen == x.shape[0]
                assert not differ(got, function(*args))
        assert hits
    finally:
        torch.set_default_dtype(torch.float32)
        set_global("OFFSET", 1)
        set_global("CHOSEN", double)
        FACTORS.clear()
        FACTORS.update(a=1.0, b=2)
        Part.rate = 0.5
        Whole.run.__defaults__ = (3,)
