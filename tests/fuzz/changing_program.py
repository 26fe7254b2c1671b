"""A program that reads many kinds of things, which `call_sequences` changes between calls. Loaded anew for each sequence."""

from __future__ import annotations

import collections
import enum
import functools

import torch

FACTORS = {"a": 1.0, "b": 2}
OFFSET = 1


def double(x):
    return x * 2


def halve(x):
    return x / 2


def shift(x, by=1, *, sign=1):
    return x + by * sign


CHOSEN = double
SHIFT = functools.partial(shift, by=2)
ALIAS = FACTORS


class Mode(enum.Enum):
    PLAIN = 1
    OTHER = 2


class Meta(type):
    level = 1

    def __contains__(cls, item):
        return item == cls.level


class Rate:
    """A descriptor without `__set__`: an object's own attribute wins."""

    def __get__(self, owner, kind):
        return 0.5


class Base:
    def __add__(self, other):
        return other + 1

    def size(self):
        return 1


class Part(Base, metaclass=Meta):
    rate = Rate()

    def __init__(self):
        self.weight = torch.ones(3)
        self.scale = 2
        self.name = "part"
        self.mode = Mode.PLAIN

    @property
    def half(self):
        return self.scale / 2

    def apply(self, x):
        return x * self.scale * self.rate + self.weight + len(self.name)


class OtherPart(Part):
    def size(self):
        return 2


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self):
        self.first = 1


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("offset", torch.zeros(3))
        self.steps = 1
        torch.nn.init.eye_(self.inner.weight)
        torch.nn.init.zeros_(self.inner.bias)

    def forward(self, x):
        y = self.inner(x) + self.offset * self.steps
        return y * 2 if self.training else y


def make_counter(start):
    count = start

    def read():
        return count

    def write(value):
        nonlocal count
        count = value

    return read, write


class Whole:
    def __init__(self):
        self.part = Part()
        self.parts = [Part(), Part()]
        self.table = {"x": 1, "y": (1, 2.0, None)}
        self.flag = True
        self.limit = None
        self.order = collections.OrderedDict(p=1, q=2)
        self.queue = collections.deque([1, 2], maxlen=3)
        self.names = {"n"}
        self.bias = torch.nn.Parameter(torch.zeros(3))
        self.method = self.part.apply
        self.slotted = Slotted()
        self.layer = Layer()
        self.read, self.write = make_counter(1)

    def run(self, x, k=3):
        y = CHOSEN(x) * FACTORS["a"] + OFFSET + self.bias + ALIAS["b"]
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
        y = SHIFT(y) + self.queue[0] + self.read() + len(self.queue)
        y = y + self.part.half + self.part.size() + (1 if self.part else 0)
        y = y * (2 if self.part.mode is Mode.PLAIN else 3) + (1 in type(self.part))
        y = y + self.slotted.first + getattr(self.slotted, "second", 0)
        if y.shape[-1] == 3 and y.dtype == self.layer.inner.weight.dtype:
            y = self.layer(y)
        y = y + (self.part + 1) + (self.part == self.parts[0])
        if torch.is_grad_enabled():
            y = y + 1
        self.seen = y.shape[0]
        return y, getattr(self, "extra", None), str(type(self.flag).__name__)
