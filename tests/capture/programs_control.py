"""Plain programs about functions, closures, generators, exceptions and `with`."""

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


def closures_counter():
    def make():
        count = 0

        def step(by=1):
            nonlocal count
            count += by
            return count

        return step

    a, b = make(), make()
    return a(), a(5), b(), a()


def closures_over_loop_variable():
    functions = [lambda: i for i in range(3)]
    bound = [lambda i=i: i for i in range(3)]
    return [f() for f in functions], [f() for f in bound]


def default_arguments_shared():
    def push(item, into=[]):  # noqa: B006
        into.append(item)
        return into

    return push(1), push(2), push(3, [])


def keyword_forms():
    def f(a, b=2, /, c=3, *rest, d, e=5, **more):
        return a, b, c, rest, d, e, more

    extra = {"x": 1, "y": 2}
    return f(1, d=4), f(1, 9, 8, 7, 6, d=0, **extra), f(*[1, 2], **{"d": 3, "c": 5})


def bad_calls():
    def f(a, b, *, c):
        return a

    errors = []
    for call in (
        lambda: f(1),
        lambda: f(1, 2),
        lambda: f(1, 2, 3, c=1),
        lambda: f(1, 2, c=1, d=2),
        lambda: f(1, a=1, b=2, c=3),
        lambda: f(*1),
        lambda: f(**{"a": 1}, **{"a": 2}),
    ):
        try:
            call()
        except TypeError as error:
            errors.append(str(error).replace("lamina", ""))
    return [e.split(".")[-1] for e in errors]


def comprehensions():
    square = [x * x for x in range(5) if x % 2]
    pairs = {(a, b) for a in "ab" for b in range(2)}
    table = {k: v for k, v in zip("xyz", range(3))}  # noqa: C416
    nested = [[j for j in range(i)] for i in range(3)]  # noqa: C416
    return square, sorted(pairs), table, nested, list(x + 1 for x in (1, 2))  # noqa: C400


def generators_basic():
    def gen(n):
        total = 0
        for i in range(n):
            sent = yield i
            if sent:
                total += sent
        return total

    g = gen(3)
    out = [next(g), g.send(10), g.send(5)]
    try:
        g.send(1)
    except StopIteration as stop:
        out.append(stop.value)
    return out


def generators_delegate():
    def inner():
        try:
            x = yield 1
            yield x
        except ValueError as error:
            yield f"caught {error}"
        return "done"

    def outer():
        result = yield from inner()
        yield result
        yield from [7, 8]

    g = outer()
    log = [next(g), g.throw(ValueError("v")), next(g), next(g), next(g)]
    try:
        next(g)
    except StopIteration:
        log.append("end")
    return log


def generators_close():
    log = []

    def gen():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    g = gen()
    next(g)
    g.close()
    g.close()
    return log, list(g)


def generators_stop_inside():
    def gen():
        yield 1
        raise StopIteration

    try:
        return list(gen())
    except RuntimeError as error:
        return str(error), type(error.__cause__).__name__


def generators_lazily_stepped():
    log = []

    def gen():
        for i in range(10):
            log.append(i)
            yield i

    for x in gen():
        if x == 2:
            break
    first = next(x for x in gen() if x > 3)
    return log, first, any(x > 1 for x in gen()), sum(gen()), max(gen()), dict(zip(gen(), "ab"))


def exceptions_flow():
    log = []

    def f(x):
        try:
            log.append("try")
            if x == 0:
                return "returned"
            if x == 1:
                raise ValueError("one")
            return 1 // (x - 2)
        except ValueError as error:
            log.append(repr(error))
            return "handled"
        else:
            log.append("else")
        finally:
            log.append("finally")

    results = []
    for x in range(4):
        try:
            results.append(f(x))
        except ZeroDivisionError as error:
            results.append(str(error))
    return results, log


def exceptions_context():
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b")  # noqa: B904
    except ValueError as error:
        first = (type(error.__context__).__name__, error.__cause__, error.__suppress_context__)
    try:
        try:
            raise KeyError("a")
        except KeyError as cause:
            raise ValueError("b") from cause
    except ValueError as error:
        second = (type(error.__cause__).__name__, error.__suppress_context__)
    try:
        raise ValueError("x") from None
    except ValueError as error:
        third = (error.__context__, error.__suppress_context__)
    return first, second, third


def exceptions_reraise():
    class OwnError(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    def inner():
        raise OwnError(3)

    try:
        try:
            inner()
        except (KeyError, OwnError):
            raise
    except OwnError as error:
        return error.code, str(error), error.args


def exceptions_nested_finally():
    log = []
    for i in range(3):
        try:
            try:
                if i == 1:
                    continue
                if i == 2:
                    break
                log.append(i)
            finally:
                log.append(f"inner {i}")
        finally:
            log.append(f"outer {i}")
    return log


def exceptions_name_unbound():
    try:
        raise ValueError
    except ValueError as error:
        kept = type(error)
    try:
        return error
    except UnboundLocalError as failed:
        return kept, type(failed).__name__


def exceptions_uncaught():
    values = [1, 2]
    values.append(3)
    return values[7]


def exceptions_bare_raise_without_active():
    raise  # noqa: PLE0704


def assertions():
    try:
        assert 1 == 2, "message"
    except AssertionError as error:
        return str(error)


def with_order():
    log = []

    class Manager:
        def __init__(self, name, swallow=False):
            self.name, self.swallow = name, swallow

        def __enter__(self):
            log.append(f"enter {self.name}")
            return self.name

        def __exit__(self, kind, value, traceback):
            log.append(f"exit {self.name} {kind.__name__ if kind else None}")
            return self.swallow

    with Manager("a") as a, Manager("b") as b:
        log.append(a + b)
    with Manager("c", swallow=True):
        raise ValueError("gone")
    try:
        with Manager("d"):
            raise KeyError("kept")
    except KeyError:
        log.append("outside")
    return log


def with_contextmanager():
    log = []

    @contextlib.contextmanager
    def manager(name):
        log.append(f"in {name}")
        try:
            yield name.upper()
        except ValueError:
            log.append("swallowed")
        finally:
            log.append(f"out {name}")

    with manager("a") as a:
        log.append(a)
    with manager("b"):
        raise ValueError
    with contextlib.suppress(KeyError):
        {}["x"]  # noqa: B018
    with contextlib.ExitStack() as stack:
        stack.enter_context(manager("c"))
        stack.callback(log.append, "callback")
    return log


def with_return_inside():
    log = []

    @contextlib.contextmanager
    def manager():
        yield
        log.append("left")

    def f():
        with manager():
            return "value"

    return f(), log


PROGRAMS = [
    closures_counter,
    closures_over_loop_variable,
    default_arguments_shared,
    keyword_forms,
    bad_calls,
    comprehensions,
    generators_basic,
    generators_delegate,
    generators_close,
    generators_stop_inside,
    generators_lazily_stepped,
    exceptions_flow,
    exceptions_context,
    exceptions_reraise,
    exceptions_nested_finally,
    exceptions_name_unbound,
    exceptions_uncaught,
    exceptions_bare_raise_without_active,
    assertions,
    with_order,
    with_contextmanager,
    with_return_inside,
]
