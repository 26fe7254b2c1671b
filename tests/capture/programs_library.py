"""Plain programs about matching and the library's classes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
from typing import NamedTuple


def matching():
    @dataclasses.dataclass
    class Point:
        x: int
        y: int

    def classify(v):
        match v:
            case 0 | 1:
                return "small"
            case int(n) if n > 100:
                return f"big {n}"
            case [a, b]:
                return f"pair {a} {b}"
            case [a, *rest]:
                return f"list {a} {rest}"
            case {"kind": kind, **others}:
                return f"map {kind} {others}"
            case Point(x=0, y=y):
                return f"on axis {y}"
            case Point(x, y):
                return f"point {x} {y}"
            case str() as s:
                return f"text {s}"
            case None:
                return "none"
            case _:
                return "other"

    subjects = [
        0,
        500,
        7,
        [1, 2],
        [1, 2, 3],
        {"kind": "k", "z": 1},
        Point(0, 5),
        Point(2, 3),
        "s",
        None,
        2.5,
        (),
    ]
    return [classify(v) for v in subjects]


def dataclasses_program():
    @dataclasses.dataclass
    class Item:
        name: str
        tags: list = dataclasses.field(default_factory=list)
        count: int = 1

        def __post_init__(self):
            self.count += len(self.tags)

    @dataclasses.dataclass(frozen=True, order=True)
    class Key:
        a: int
        b: int = 0

    item = Item("n", ["x"])
    try:
        Key(1).a = 5
    except dataclasses.FrozenInstanceError:
        frozen = True
    return (
        item, Item("n") == Item("n"), dataclasses.asdict(item), Key(1) < Key(2), {Key(1): 2}[Key(1)], frozen,
        dataclasses.replace(item, name="m").name, [f.name for f in dataclasses.fields(item)],
    )  # fmt: skip


class Pair(NamedTuple):
    left: int
    right: int = 7

    def total(self):
        return self.left + self.right


def namedtuples_program():
    Simple = collections.namedtuple("Simple", "a b c", defaults=[9])
    s = Simple(1, 2)
    p = Pair(1)
    left, right = p
    return (
        s,
        s._replace(a=5),
        s._asdict(),
        p.total(),
        left,
        right,
        p._fields,
        p == (1, 7),
        Simple._make([1, 2, 3]).c,
    )


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    @property
    def pretty(self):
        return self.name.title()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def enums_program():
    return (
        Color.RED.pretty, Color(2) is Color.GREEN, Color["RED"].value, [c.name for c in Color], Level.HIGH > Level.LOW,
        Level.LOW + 1, Color.RED == Color.RED, {Color.RED: "r"}[Color.RED], isinstance(Color.RED, Color), Color.RED in Color,
    )  # fmt: skip


def collections_program():
    d = collections.defaultdict(list)
    for word in ("apple", "bob", "ann"):
        d[word[0]].append(word)
    o = collections.OrderedDict(a=1, b=2)
    o.move_to_end("a")
    q = collections.deque([1, 2, 3], maxlen=3)
    q.append(4)
    q.appendleft(0)
    c = collections.Counter("banana")
    m = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return dict(d), list(o.items()), list(q), c.most_common(1), c["z"], m["a"], m["b"], sorted(m)


def functools_program():
    @functools.wraps(len)
    def length(x):
        return len(x)

    def power(base, exponent):
        return base**exponent

    square = functools.partial(power, exponent=2)
    log = []

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append(function.__name__)
            return function(*args, **kwargs)

        return wrapper

    @decorate
    def named(x):
        """doc"""
        return x

    @functools.singledispatch
    def show(x):
        return "any"

    return (
        length("abc"), length.__name__, square(3), functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]), named(2), log,
        named.__doc__, functools.reduce(operator.add, ["a", "b"], "c"), list(map(square, [1, 2])), show(1),
    )  # fmt: skip


def itertools_program():
    return (
        list(itertools.chain([1], (x for x in (2, 3)))), list(itertools.islice(itertools.count(5), 3)),
        [(k, list(g)) for k, g in itertools.groupby("aabbb")], list(itertools.accumulate([1, 2, 3])),
        list(itertools.product("ab", [1, 2])), list(itertools.takewhile(lambda x: x < 3, range(9))),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])), list(itertools.zip_longest("ab", "c")),
        list(itertools.permutations([1, 2, 3], 2))[:2], list(itertools.pairwise("abc")),
    )  # fmt: skip


def sorting_with_keys():
    words = ["pear", "fig", "apple"]
    log = []

    def key(word):
        log.append(word)
        return len(word)

    words.sort(key=key)
    return (
        words,
        sorted(words, key=lambda w: w[-1], reverse=True),
        min(words, key=len),
        max([3, 1], default=0),
        log,
    )


def lengths_are_asked_for_where_c_code_does():
    class Mapping(dict):
        def __len__(self):
            raise ValueError("asked")

    def attempt(function):
        try:
            return function()
        except ValueError as error:
            return str(error)

    full = Mapping(a=1)
    return [
        attempt(function)
        for function in (
            lambda: sum(Mapping()),
            lambda: {0, *full},
            lambda: list(full),
            lambda: [*full],
            lambda: any(full),
            lambda: sorted(full),
        )
    ]


def a_mapping_without_keys():
    class Sequence:
        def __getattr__(self, name):
            raise AttributeError(name)

        def __getitem__(self, index):
            return index[0]

    try:
        {}.update(Sequence())
    except TypeError as error:
        return str(error), error.__context__
    return None


def a_generator_that_raises_its_end():
    def ended():
        yield

    def failing():
        try:
            1 & {}
        except TypeError:
            generator = ended()
            generator.close()
            generator.send(None)
        yield

    try:
        next(failing())
    except RuntimeError as error:
        chain = [error]
        while chain[-1].__context__ is not None:
            chain.append(chain[-1].__context__)
        return [type(each).__name__ for each in chain], error.__cause__ is error.__context__
    return None


PROGRAMS = [
    a_generator_that_raises_its_end,
    a_mapping_without_keys,
    lengths_are_asked_for_where_c_code_does,
    matching,
    dataclasses_program,
    namedtuples_program,
    enums_program,
    collections_program,
    functools_program,
    itertools_program,
    sorting_with_keys,
]
