"""Plain programs about classes, descriptors, operators, iteration and text."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import weakref
from typing import NamedTuple


def _error(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def _message(function):
    try:
        return function()
    except Exception as error:
        return str(error).split(" (expected")[0], type(error).__name__


def _two(x):
    a, b = x
    return a, b


def classes_and_super():
    class Base:
        kind = "base"

        def __init__(self, x):
            self.x = x

        def describe(self):
            return f"{self.kind}:{self.x}"

        @classmethod
        def make(cls, x):
            return cls(x + 1)

        @staticmethod
        def twice(x):
            return 2 * x

    class Left(Base):
        kind = "left"

        def describe(self):
            return "L" + super().describe()

    class Right(Base):
        def describe(self):
            return "R" + super().describe()

    class Both(Left, Right):
        def __init__(self, x):
            super().__init__(x)
            self.y = self.twice(x)

    both = Both.make(1)
    return (
        both.describe(),
        both.y,
        Base.make(3).describe(),
        super(Left, both).describe(),
        Both.__mro__[1].__name__,
    )


def properties_and_descriptors():
    class Celsius:
        def __get__(self, instance, owner):
            if instance is None:
                return self
            return instance.raw - 273

        def __set__(self, instance, value):
            instance.raw = value + 273

    class Room:
        temperature = Celsius()

        def __init__(self):
            self.log = []

        @property
        def label(self):
            return f"{self.temperature}C"

        @label.setter
        def label(self, text):
            self.temperature = int(text[:-1])

        @functools.cached_property
        def expensive(self):
            self.log.append("computed")
            return self.raw * 2

    room = Room()
    room.temperature = 20
    first = room.label
    room.label = "25C"
    values = room.expensive, room.expensive
    try:
        Room.missing
    except AttributeError as error:
        missing = str(error)
    return first, room.raw, values, room.log, missing, isinstance(Room.temperature, Celsius)


def property_without_setter():
    class A:
        @property
        def x(self):
            return 1

    a = A()
    try:
        a.x = 2
    except AttributeError:
        return "refused"


def dynamic_attributes():
    class Record:
        def __init__(self):
            self.__dict__["store"] = {}

        def __getattr__(self, name):
            if name in self.store:
                return self.store[name]
            raise AttributeError(name)

        def __setattr__(self, name, value):
            self.store[name] = value

        def __delattr__(self, name):
            del self.store[name]

    r = Record()
    r.a = 1
    r.b = 2
    del r.b
    return r.a, hasattr(r, "b"), getattr(r, "c", "default"), sorted(vars(r)), r.store


def getattribute_override():
    class Spy:
        log = []  # noqa: RUF012

        def __getattribute__(self, name):
            Spy.log.append(name)
            return object.__getattribute__(self, name)

        def method(self):
            return 5

    spy = Spy()
    spy.x = 3
    return spy.x + spy.method(), Spy.log


def operators_overloaded():
    class V:
        def __init__(self, *c):
            self.c = c

        def __add__(self, other):
            return V(*map(operator.add, self.c, other.c)) if isinstance(other, V) else NotImplemented

        def __radd__(self, other):
            return V(*(other + x for x in self.c))

        def __mul__(self, k):
            return V(*(x * k for x in self.c))

        def __iadd__(self, other):
            self.c = (self + other).c
            return self

        def __eq__(self, other):
            return isinstance(other, V) and self.c == other.c

        def __lt__(self, other):
            return self.c < other.c

        def __neg__(self):
            return self * -1

        def __len__(self):
            return len(self.c)

        def __getitem__(self, i):
            return self.c[i]

        def __contains__(self, x):
            return x in self.c

        def __bool__(self):
            return any(self.c)

        def __call__(self, x):
            return x + self.c[0]

        def __repr__(self):
            return f"V{self.c}"

        def __hash__(self):
            return hash(self.c)

    a, b = V(1, 2), V(3, 4)
    c = a + b
    same = a
    a += b
    try:
        a + "x"
    except TypeError as error:
        message = str(error)
    return (
        repr(c), repr(10 + a), repr(-b), a is same, c == a, c != a, sorted([b, c]).__repr__(), len(a),
        list(a), 4 in b, bool(V(0, 0)), a(1), message, {b: 1}[V(3, 4)], f"{a!r:>10}|", f"{b}", a > b, max(b, c)[0],
    )  # fmt: skip


def comparison_reflection():
    class A:
        def __gt__(self, other):
            return "A.gt"

        def __le__(self, other):
            return NotImplemented

    class B(A):
        def __lt__(self, other):
            return "B.lt"

    return A() > 1, 1 < A(), A() > B(), _error(lambda: A() <= 1)


def iteration_protocols():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    class Old:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * i

    class Fresh:
        def __iter__(self):
            yield from "abc"

    a, *rest = Countdown(4)
    return (
        list(Countdown(3)), a, rest, list(Old()), tuple(Fresh()), 4 in Old(), "b" in Fresh(),
        list(zip(Countdown(2), Old())), [*Fresh(), *Old()], sorted(Fresh(), reverse=True), list(enumerate(Old(), 1)),
        dict.fromkeys(Fresh(), 0), "".join(Fresh()), set(Old()) == {0, 1, 4},
    )  # fmt: skip


def unpacking():
    (a, b), c, *d = (1, 2), 3, 4, 5
    *e, f = "xyz"
    first, *_, last = range(5)
    errors = [_message(lambda: _two([1])), _message(lambda: _two([1, 2, 3])), _message(lambda: _two(3))]
    return a, b, c, d, e, f, first, last, errors


def unpacking_asks_no_length():
    class Odd(list):
        def __len__(self):
            raise KeyError("len")

    class Lazy:
        def __iter__(self):
            yield 1
            raise IndexError("stepped")

        def __len__(self):
            raise KeyError("len")

    first, *rest = Odd([1, 2, 3])
    print(first, rest)
    for value in (Odd(), Lazy(), 5):
        try:
            first, *rest, last = value
        except Exception as error:
            print(type(error), error)
    steps = iter(range(5))
    try:
        a, b, c, d, e, f, *rest = steps
    except ValueError as error:
        print(error, next(steps, "nothing left"))


def strings_and_formats():
    name, value = "pi", math.pi
    width = 10
    return (
        f"{name}={value:.3f}", f"{value!r:>{width}.6}", f"{name!s:^6}|", f"{'é'!a}", "%s-%d" % ("a", 3),
        "{:>5}{x}".format("q", x=1), f"{value=:.2f}", "a,b".split(","), "x".join(["1", "2"]), f"{{}}", "abc"[::-1],
        str(12), repr("a'b"), f"{1 if name else 2}", "Ab".swapcase(), str(b"ab", "ascii"),
    )  # fmt: skip


def walrus_and_conditions():
    data = [3, 8, 1]
    found = [y for x in data if (y := x * 2) > 4]
    if (n := len(data)) > 2 and not n == 4 or n is None:
        n += 1
    return found, y, n, 1 < n < 5, None or "x", "a" and 0, n if n else -n


class _Counted:
    """Multiplies by what it counts, as an index and from the right."""

    def __init__(self, count, is_index):
        self.count = count
        if is_index:
            self.__class__ = _Index

    def __rmul__(self, other):
        return NotImplemented


class _Index(_Counted):
    def __index__(self):
        return self.count


def sequences_repeated():
    outcomes = []
    for sequence in ([1], b"x", "s", (1,), bytearray(b"q")):
        for count in (_Counted(2, True), _Counted(2, False), math, 1.5, None, {1}):
            outcomes.append(_message(lambda s=sequence, c=count: s * c))
            outcomes.append(_message(lambda s=sequence, c=count: c * s))
            outcomes.append(_message(lambda s=sequence, c=count: operator.imul(s, c)))
            try:
                taken = sequence[:]
                taken *= count
                outcomes.append(taken)
            except TypeError as error:
                outcomes.append(str(error))
    return outcomes


def extremes_ask_in_order():
    asked = []

    def rank(item):
        asked.append(item)
        return {} if item > 1 else item

    def items():
        for item in (1, 0, 2, 3):
            asked.append("next")
            yield item

    outcomes = [_message(lambda each=each: each(items(), key=rank)) for each in (max, min)]
    return (
        outcomes,
        asked,
        max({3, 5}),
        min({"b": 1, "a": 2}),
        max(range(0), default=4),
        max(iter("xyz")),
        min(2, 1),
    )


class _Speechless:
    def __repr__(self):
        return 5


def texts_that_are_none():
    one = _Speechless()
    ways = (
        str,
        repr,
        ascii,
        format,
        print,
        "{}".format,
        "%s".__mod__,
        "%r".__mod__,
        lambda x: f"{x}",
        lambda x: f"{x!r}",
    )
    return [_message(lambda way=way: way(one)) for way in ways]


def errors_that_print_objects():
    """Their texts are made by the objects' own code, which may fail itself."""

    class Printed:
        def __init__(self, fails):
            self.fails = fails

        def __repr__(self):
            if self.fails:
                raise KeyError("printed")
            return "".join(reversed("detnirp"))

    class Meta(type):
        def __repr__(cls):
            return "printed class"

    class NoError(ValueError, metaclass=Meta):
        def __new__(cls):
            return 3

    def throw():
        raise NoError

    def steps():
        yield

    def throw_inside():
        generator = steps()
        next(generator)
        generator.throw(NoError)

    texts = []
    for fails in (False, True):
        texts += [_message(lambda item=Printed(fails): [1, Printed(False)].index(item))]
        texts += [_message(lambda item=Printed(fails): collections.deque([1]).index(item))]
        texts += [_message(lambda item=Printed(fails): (1,).index(item))]
    return texts, _message(throw), _message(throw_inside)


def searches_ask_no_methods():
    """What `list` and `tuple` do in C reads the elements, whatever a class's own methods say."""

    class Liar(list):
        def __iter__(self):
            raise KeyError("asked")

        __len__ = __getitem__ = __delitem__ = __iter__

    class Pair(tuple):
        __iter__ = __len__ = Liar.__iter__

    class One:
        def __eq__(self, other):
            return other == 1

    items, pair = Liar((2, One(), 1)), Pair((3, One()))
    found = [items.index(1), items.count(1), pair.index(1), "%s-%d" % Pair((3, 4))]
    items.remove(1)
    return found, _message(lambda: {Pair((3, 4)): 1}[3, 4]), list.__repr__(items)[:3], list.__len__(items)


def reversed_sequences():
    """`reversed` asks for the length once and for an item a step."""
    asked = []

    class Numbers:
        def __init__(self, length):
            self.length = length

        def __len__(self):
            asked.append("length")
            return self.length

        def __getitem__(self, index):
            asked.append(index)
            if index == 1:
                raise IndexError
            return index * 10

    class Both(Numbers):
        def __reversed__(self):
            return "own"

    class Neither(Numbers):
        __reversed__ = None

    steps = reversed(Numbers(4))
    first = next(steps), len(asked), iter(steps) is steps, steps.__length_hint__()
    rest = list(steps), next(steps, "end"), steps.__length_hint__()
    return (
        first,
        rest,
        asked,
        reversed(Both(2)),
        _message(lambda: reversed(Neither(2))),
        list(reversed(Numbers(0))),
    )


def joined_without_a_length():
    """`join` asks its iterator for a length, `list` the iterable."""
    asked = []

    class Steps:
        def __init__(self, text):
            self.text = text

        def __len__(self):
            asked.append(self.text)
            raise KeyError("no length")

        def __iter__(self):
            return iter(self.text)

    joined = "-".join(Steps("abc")), b"-".join(Steps([b"a", b"b"])), _message(lambda: "-".join(3))
    return joined, _message(lambda: list(Steps("de"))), asked


def names_of_classes_in_errors():
    class Own:
        pass

    return [
        _message(lambda: collections.deque() < Own()),
        _message(lambda: Own() + collections.Counter()),
        _message(lambda: collections.OrderedDict() - Own()),
        _message(lambda: Own() @ collections.defaultdict(list)),
        _message(lambda: range(3) * Own()),
    ]


def texts_of_own_classes():
    class Text(str):
        pass

    class Printed:
        def __str__(self):
            return Text("a")

        def __repr__(self):
            return Text("b")

        def __format__(self, specification):
            return Text(specification)

    printed = Printed()
    kinds = [type(way(printed)).__name__ for way in (str, repr, format, lambda x: f"{x!r}")]
    return kinds, _message(lambda: "{0.}".format(printed)), _message(lambda: "{0[}".format(printed))


def proxies_of_no_iterator():
    def function():
        pass

    class Misled:
        def __iter__(self):
            return weakref.proxy(function)

    return [_message(lambda way=way: way(Misled())) for way in (list, sum, sorted, lambda x: [*x])]


PROGRAMS = [
    joined_without_a_length,
    names_of_classes_in_errors,
    reversed_sequences,
    errors_that_print_objects,
    proxies_of_no_iterator,
    texts_of_own_classes,
    searches_ask_no_methods,
    texts_that_are_none,
    sequences_repeated,
    extremes_ask_in_order,
    classes_and_super,
    properties_and_descriptors,
    property_without_setter,
    dynamic_attributes,
    getattribute_override,
    operators_overloaded,
    comparison_reflection,
    iteration_protocols,
    unpacking,
    unpacking_asks_no_length,
    strings_and_formats,
    walrus_and_conditions,
]
