"""A program that reads many kinds of things, which `program_changes` changes between calls. Run anew for each sequence.

Each function of `SECTIONS` takes the whole and a tensor, reads one group of things, and gives a tensor.
"""

from __future__ import annotations

import abc
import collections
import contextvars
import dataclasses
import enum
import functools
import sys
import threading
import types
from typing import NamedTuple

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
LIBRARY = types.ModuleType("changing_library")
LIBRARY.VALUE = 2
LIBRARY.scale = double
CONTEXT = contextvars.ContextVar("context", default=1)


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


class Parent:
    def measure(self):
        return 1


class Child(Parent):
    def measure(self):
        return super().measure() + 1

    @staticmethod
    def fixed(number=1):
        return number

    def __call__(self, x):
        return x + 1

    def __getitem__(self, index):
        return index * 2

    def __iter__(self):
        return iter((1, 2))


@dataclasses.dataclass
class Record:
    count: int = 1
    ratio: float = 0.5


class Pair(NamedTuple):
    left: int
    right: float


class Key:
    """A key of dicts whose hash and equality are its number's."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self.number == other


class Plain:
    """A key of dicts that is equal to itself only."""

    def __init__(self, number):
        self.number = number


class Interface(abc.ABC):  # noqa: B024  it is registered for, not derived from
    pass


@functools.singledispatch
def dispatched(value):
    return 1


@functools.lru_cache
def cached(number):
    return number * 2


def tripled(number):
    return number * 3


def counting(stop):
    number = 0
    while number < stop:
        yield number
        number += 1


class Doubled(torch.nn.Module):
    """A parametrisation."""

    factor = 2

    def forward(self, weight):
        return weight * self.factor


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = make_linear()
        self.register_buffer("offset", torch.zeros(3))
        self.steps = 1

    def forward(self, x):
        y = self.inner(x) + self.offset * self.steps
        return y * 2 if self.training else y


def make_linear(bias=True):
    linear = torch.nn.Linear(3, 3, bias=bias)
    torch.nn.init.eye_(linear.weight)
    if bias:
        torch.nn.init.zeros_(linear.bias)
    return linear


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
        self.child = Child()
        self.record = Record()
        self.pair = Pair(1, 0.5)
        self.space = types.SimpleNamespace(number=1, method=self.part.apply)
        self.local = threading.local()
        self.local.number = 1
        self.key = Key(1)
        self.keyed = {Key(1): 2, Key(2): 3, 5: 4}
        self.plain = {Plain(1): 1, Plain(2): 2}
        self.loops = [lambda x: x * number for number in range(1, 3)]  # noqa: B023  all read the last one
        self.layers = torch.nn.ModuleList(torch.nn.ReLU() for _ in range(2))
        self.chain = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
        self.named = torch.nn.ModuleDict({"relu": torch.nn.ReLU()})
        self.tensor = torch.ones(3)
        self.leaf = torch.ones(3, requires_grad=True)
        self.iterable = [1, 2, 3]
        self.bounds = slice(0, 2)

    def run(self, x, k=3):
        for section in self.sections:
            x = section(self, x)
        self.seen = x.shape[0]
        return x + k, getattr(self, "extra", None), str(type(self.flag).__name__)


def names_outside(whole, x):
    x = CHOSEN(x) * FACTORS["a"] + OFFSET + ALIAS["b"]
    return SHIFT(x) + len(whole.parts)


def list_of_objects(whole, x):
    for part in whole.parts:
        x = part.apply(x)
    return x


def attributes_of_kinds(whole, x):
    if whole.flag and whole.limit is None:
        x = x + 3
    elif whole.limit is not None:
        x = x * whole.limit
    return x + 1 if "extra" in vars(whole) else x


def containers(whole, x):
    if "n" in whole.names:
        x = x + next(iter(whole.order.values()))
    if isinstance(whole.table["y"], tuple):
        x = x + len(whole.table) + whole.table["x"]
    return x + whole.queue[0] + len(whole.queue) + whole.iterable[whole.bounds][-1]


def methods(whole, x):
    x = whole.method(x) if whole.part.scale > 1 else whole.part.apply(x) - 1
    return x + whole.part.size()


def special_methods(whole, x):
    x = x + whole.part.half + (1 if whole.part else 0)
    x = x * (2 if whole.part.mode is Mode.PLAIN else 3) + (1 in type(whole.part))
    return x + (whole.part + 1) + (whole.part == whole.parts[0])


def closures_and_slots(whole, x):
    return x + whole.read() + whole.slotted.first + getattr(whole.slotted, "second", 0)


def modules(whole, x):
    x = x + whole.bias
    if x.shape[-1] == 3 and x.dtype == whole.layer.inner.weight.dtype:
        x = whole.layer(x)
    return x


def inheritance(whole, x):
    x = whole.child(x) + whole.child.measure() + whole.child.fixed() + whole.child[1]
    return x + sum(whole.child) + getattr(whole.child, "late", 1) + hasattr(whole.child, "later")


def records(whole, x):
    x = x * whole.record.count + whole.record.ratio + (whole.record == Record(2, 0.5))
    return x + whole.pair.left * whole.pair.right + len(dataclasses.fields(whole.record))


def native_objects(whole, x):
    return whole.space.method(x) + whole.space.number + whole.local.number + hasattr(whole.space, "late")


def keys_of_dicts(whole, x):
    for key, value in whole.plain.items():
        x = x + key.number * value
    return x + whole.keyed.get(whole.key, 7) + (whole.key in whole.keyed)


def functions_made_in_loops(whole, x):
    for function in whole.loops:
        x = function(x)
    return x + len(double.__name__) + getattr(halve, "mark", 0) + cached(2)


def lists_of_modules(whole, x):
    for layer in whole.layers:
        x = layer(x)
    for name, layer in whole.named.items():
        x = layer(x) + len(name)
    return whole.chain(x) + len(list(whole.chain.modules())) + len(whole.layers._modules)


def tensors(whole, x):
    x = x * whole.tensor + getattr(whole.tensor, "scale", 2)
    x = x if whole.leaf.grad is None else x + whole.leaf.grad
    return x + whole.tensor.is_contiguous() + len(whole.tensor.stride())


def other_modules(whole, x):
    import changing_library

    x = changing_library.scale(x) + changing_library.VALUE + getattr(LIBRARY, "late", 1)
    return x + ("changing_extra" in sys.modules)


def thread_state(whole, x):
    x = x + torch.are_deterministic_algorithms_enabled() + torch.backends.cudnn.enabled
    x = x + (torch.get_float32_matmul_precision() == "high") + torch.is_grad_enabled()
    return (
        x + torch.zeros(3).itemsize + CONTEXT.get() + (torch.mm(x.new_ones(2, 2), x.new_ones(2, 2))).itemsize
    )


def registries(whole, x):
    x = x + dispatched(1) + dispatched("text") + isinstance(whole.part, Interface)
    return x + len(Parent.__subclasses__()) + len(type(whole.part).__name__) + Mode.OTHER.value


def generators(whole, x):
    return x + sum(counting(3)) + sum(number for number in whole.iterable)


SECTIONS = [
    names_outside,
    list_of_objects,
    attributes_of_kinds,
    containers,
    methods,
    special_methods,
    closures_and_slots,
    modules,
    inheritance,
    records,
    native_objects,
    keys_of_dicts,
    functions_made_in_loops,
    lists_of_modules,
    tensors,
    other_modules,
    thread_state,
    registries,
    generators,
]
