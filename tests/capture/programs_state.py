"""Plain programs about mutation, names, recursion and state."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
from typing import NamedTuple

COUNTER = 0
REGISTRY: dict[str, object] = {}


def _error(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def mutations_of_aliases():
    inner = [1]
    outer = [inner, inner]
    outer[0].append(2)
    table = {"a": inner}
    table["a"] += [3]
    copied = list(outer)
    copied.append(4)
    del outer[1][0]
    inner[1:] = [9, 9]
    return outer, table, copied, outer[0] is inner


def augmented_subscripts():
    values = {"k": [1]}
    i = iter(range(5))
    row = [0] * 5
    row[next(i)] += 1
    row[next(i)] += 2
    values["k"] += [2]
    t = ([],)
    try:
        t[0] += [1]
    except TypeError:
        pass
    return row, values, t


def global_state():
    global COUNTER
    COUNTER += 1
    REGISTRY["last"] = COUNTER
    result = COUNTER, dict(REGISTRY)
    COUNTER = 0
    REGISTRY.clear()
    return result


def printing():
    print("one", 2, sep="-")
    for i in range(2):
        print(i, end=";")
    print(f"{[1, 'a']}")


def delete_names():
    x = [1, 2, 3]
    del x[0]
    y = x
    del x
    try:
        return x
    except UnboundLocalError as error:
        return y, str(error)


def undefined_name():
    return this_name_does_not_exist  # noqa: F821


def chained_decorators_and_classes():
    def add(n):
        def wrap(f):
            return lambda *a: f(*a) + n

        return wrap

    @add(1)
    @add(10)
    def base(x):
        return x

    def register(cls):
        cls.registered = True
        return cls

    @register
    class A:
        x: int = 5
        items = [i * 2 for i in range(3)]  # noqa: RUF012

        class Inner:
            y = 7

    return base(100), A.registered, A.items, A.Inner.y, A.x


def class_hooks():
    made = []

    class Base:
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            made.append((cls.__name__, tag))

        def __class_getitem__(cls, item):
            return f"{cls.__name__}[{item}]"

    class Child(Base, tag="t"):
        def __new__(cls, *args):
            self = super().__new__(cls)
            self.args = args
            return self

    return made, Child(1, 2).args, Base[3]


def metaclass_program():
    class Meta(type):
        def __call__(cls, *args):
            instance = super().__call__(*args)
            instance.tagged = cls.__name__
            return instance

        def __len__(cls):
            return 42

    class Thing(metaclass=Meta):
        def __init__(self, x):
            self.x = x

    t = Thing(1)
    return t.x, t.tagged, len(Thing), type(Thing).__name__


def slots_program():
    class S:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = 1

    s = S()
    s.b = 2
    del s.a
    return s.b, hasattr(s, "a"), _error(lambda: setattr(s, "c", 1))


def isinstance_program():
    class A:
        pass

    class B(A):
        pass

    def gen():
        yield 1

    return (
        isinstance(B(), A), isinstance(1, (str, int)), issubclass(B, A), isinstance(True, int), type(1) is int,
        isinstance(gen(), collections.abc.Iterator), type(gen()).__name__, callable(A), isinstance([], collections.abc.Sequence),
        isinstance(3, int | str), type(B()) is B, B().__class__.__name__,
    )  # fmt: skip


def numbers_program():
    return (
        7 // 2, -7 // 2, 7 % -3, 2**10, 2**-1, 1 / 4, 0.1 + 0.2, 1 << 5, 6 & 3, 6 | 1, 6 ^ 2, ~5, -True, +3, abs(-2), divmod(7, 2),
        round(2.5), int("12"), float("1e3"), complex(1, 2) * 1j, math.floor(2.7), min(1, 2.0), sum([0.5, 1]), 10**20, 3 @ 0 if False else 1,
        float("nan") == float("nan"), -0.0 == 0.0, hash(1) == hash(1.0), True + 1, bool([]), not 0,
    )  # fmt: skip


def recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return fib(10), even(20)


def while_else():
    log = []
    n = 0
    while n < 3:
        n += 1
        if n == 5:
            break
    else:
        log.append("else")
    for i in range(5):
        if i == 3:
            break
    else:
        log.append("never")
    for _ in ():
        pass
    else:
        log.append("empty")
    return log, i, n


def context_manager_class_decorator():
    class track(contextlib.ContextDecorator):  # noqa: N801
        log = []  # noqa: RUF012

        def __enter__(self):
            self.log.append("in")
            return self

        def __exit__(self, *exc):
            self.log.append("out")
            return False

    @track()
    def work(x):
        return x * 2

    return work(4), track.log


def star_expressions():
    a = [*range(2), *"ab"]
    b = {**{"x": 1}, "y": 2, **{"x": 3}}
    c = {*a, 5}
    d = (*a,)
    return a, b, sorted(map(str, c)), d


def slices_and_indices():
    x = list(range(10))
    x[2:4] = "ab"
    x[::3] = [0, 0, 0, 0]
    del x[-2:]
    s = slice(1, None, 2)
    return x, x[s], x[-1], (1, 2, 3)[1:], "abc"[-2:], s.indices(5)


def dict_methods():
    d = {"a": 1}
    d.setdefault("b", []).append(2)
    d.update(c=3)
    popped = d.pop("a")
    return (
        d,
        popped,
        d.get("z"),
        d.get("z", 0),
        list(d),
        list(d.items()),
        "b" in d,
        d | {"q": 1},
        _error(lambda: d["nope"]),
    )


def set_methods():
    a, b = {1, 2, 3}, {2, 3, 4}
    a.add(9)
    a.discard(1)
    return sorted(a & b), sorted(a | b), sorted(a - b), sorted(a ^ b), {1} <= {1, 2}, frozenset([1]) == {1}


def exception_in_generator_with_finally():
    log = []

    def gen():
        try:
            yield 1
            raise ValueError("inside")
        finally:
            log.append("cleanup")

    try:
        for x in gen():
            log.append(x)
    except ValueError as error:
        log.append(str(error))
    return log


def iterators_shared():
    it = iter([1, 2, 3, 4])
    pairs = list(zip(it, it))
    second = iter("abc")
    next(second)
    return pairs, list(second), next(second, "end"), list(reversed([1, 2])), list(iter(lambda: len(pairs), 2))


def missing_and_dict_subclass():
    class Auto(dict):
        def __missing__(self, key):
            self[key] = key * 2
            return self[key]

    class Upper(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    a = Auto()
    u = Upper(x=1)
    u["y"] = 2
    return a["k"], dict(a), dict(u), "X" in u, len(u)


def star_import_inside():
    import os.path as path
    from math import ceil as up

    return up(1.2), path.join("a", "b"), _error(lambda: __import__("no_such_module_here"))


def nested_functions_and_locals():
    a = 1

    def f(b):
        c = a + b

        def g():
            return a, b, c

        return g, sorted(locals())

    g, names = f(2)
    return g(), names


def exception_groups_of_handlers():
    out = []
    for error in (KeyError("k"), IndexError("i"), TypeError("t"), OSError("o")):
        try:
            raise error
        except LookupError as caught:
            out.append(("lookup", caught.args))
        except TypeError:
            out.append("type")
        except Exception as caught:
            out.append(type(caught).__name__)
    return out


def raise_class_with_init():
    class OwnError(Exception):
        def __init__(self):
            super().__init__("made")

    try:
        raise OwnError
    except OwnError as error:
        return str(error)


def conversion_hooks():
    class N:
        def __int__(self):
            return 3

        def __float__(self):
            return 2.5

        def __index__(self):
            return 1

        def __str__(self):
            return "N!"

        def __abs__(self):
            return "abs"

    n = N()
    return int(n), float(n), [10, 20][n], str(n), f"{n}", abs(n), "%s" % n, list(range(n))


def abc_program():
    import abc

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self):
            """area"""

        @property
        def double(self):
            return 2 * self.area()

    class Square(Shape):
        def __init__(self, s):
            self.s = s

        def area(self):
            return self.s**2

    return _error(Shape), Square(3).double, isinstance(Square(1), Shape)


def custom_exit_raises():
    class M:
        def __enter__(self):
            return 1

        def __exit__(self, *exc):
            raise KeyError("from exit")

    try:
        with M():
            raise ValueError("body")
    except KeyError as error:
        return repr(error), repr(error.__context__)


def text_with_names():
    """All names of a module by a star, and a module's code as a function: its names are globals."""
    taken, public = {}, {}
    exec("from operator import *", taken)
    exec("from abc import *", public)
    names = {}
    code = compile("first = 5; second = first + 1; del first", "<text>", "exec")
    types.FunctionType(code, names)()
    broken = types.FunctionType(compile("del first", "<text>", "exec"), names)
    return (
        taken["add"](1, 2), "attrgetter" in taken, "_abs" in taken, "ABC" in public, "_abc_init" in public,
        names.get("second"), "first" in names, _error(broken),
    )  # fmt: skip


PROGRAMS = [
    text_with_names,
    mutations_of_aliases,
    augmented_subscripts,
    global_state,
    printing,
    delete_names,
    undefined_name,
    chained_decorators_and_classes,
    class_hooks,
    metaclass_program,
    slots_program,
    isinstance_program,
    numbers_program,
    recursion,
    while_else,
    context_manager_class_decorator,
    star_expressions,
    slices_and_indices,
    dict_methods,
    set_methods,
    exception_in_generator_with_finally,
    iterators_shared,
    missing_and_dict_subclass,
    star_import_inside,
    nested_functions_and_locals,
    exception_groups_of_handlers,
    raise_class_with_init,
    conversion_hooks,
    abc_program,
    custom_exit_raises,
]
