"""Plain programs whose frames hold much between two instructions: calls in calls, handlers in handlers, cells."""

from __future__ import annotations

import contextlib
import sys


class Manager:
    def __init__(self, log, name, swallows=False):
        self.log = log
        self.name = name
        self.swallows = swallows

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(f"exit {self.name} {kind and kind.__name__} {error}")
        return self.swallows


def add(*values, **named):
    return sum(values) + sum(named.values())


def fail(message):
    raise ValueError(message)


def nested_calls():
    a, b, c = 1, 2, 3
    first = add(a, add(b, c, k=add(a, b)), x=add(a, y=b), z=c) + add(*[a, b], **{"p": c})
    text = "-".join([str(add(a, 1)), "x".upper().lower(), str(first)])
    return first, text, [a, add(b), {c: add(a, c)}, (a, add(b, 1))], add(a, *(b, c), d=1, **{"e": 2})


def star_arguments(*values, key=3, **named):
    total = add(*values, key, **named)
    return total, values, named, key


def stars():
    return star_arguments(1, 2, x=4), star_arguments(key=5), star_arguments(*range(3), **{"q": 1})


def loops_in_loops():
    found = []
    for i in range(3):
        for j, name in enumerate("ab"):
            if i == 1 and name == "b":
                continue
            k = 0
            while True:
                k += 1
                if k > j + i:
                    break
                found.append((i, j, k))
            else:
                found.append("never")
        else:
            found.append(f"end {i}")
    return found


def unbound_names(flag=False):
    if flag:
        x = 1
    for y in []:
        pass
    found = []
    try:
        found.append(x)
    except UnboundLocalError as error:
        found.append(str(error))
    try:
        found.append(y)
    except NameError as error:
        found.append(type(error).__name__)
    z = 4
    del z
    try:
        return z
    except UnboundLocalError:
        z = 5
    return found, z, sorted(locals())


def try_in_finally():
    log = []
    try:
        try:
            log.append("body")
            fail("one")
        finally:
            log.append("finally")
            try:
                fail("two")
            except ValueError as error:
                log.append((str(error), str(error.__context__)))
            log.append(str(sys.exc_info()[1]))
    except ValueError as error:
        log.append((str(error), error.__context__))
    finally:
        log.append("last")
    return log


def handlers_in_handlers():
    log = []
    for i in range(4):
        try:
            try:
                if i == 3:
                    return log
                fail(f"a{i}")
            except ValueError as outer:
                try:
                    if i:
                        raise KeyError(i)
                    log.append("none")
                except KeyError as inner:
                    log.append((str(outer), str(inner), str(sys.exc_info()[1])))
                    if i == 2:
                        raise
                else:
                    log.append("else")
                log.append(str(sys.exc_info()[1]))
                raise
        except KeyError as error:
            log.append(("key", str(error.__context__)))
            continue
        except Exception as error:
            log.append(("value", str(error), str(error.__context__)))
        finally:
            log.append(("finally", str(sys.exc_info()[1])))
    return log


def returns_in_handlers():
    log = []

    def run(i):
        for j in range(2):
            try:
                if i == 0:
                    return "plain", j
                fail(str(i))
            except ValueError:
                if i == 1:
                    return add(1, j), str(sys.exc_info()[1])
                if i == 2:
                    continue
                if i == 3:
                    break
                raise RuntimeError("new")  # noqa: B904
            finally:
                log.append((i, j))
                if i == 5:
                    return "swallowed"  # noqa: B012
        return "after", sys.exc_info()

    results = []
    for i in range(6):
        try:
            results.append(run(i))
        except RuntimeError as error:
            results.append((str(error), str(error.__context__)))
    return results, log


def raises_from_with():
    log = []
    with Manager(log, "a") as a, Manager(log, "b", swallows=True):
        log.append(a.name)
        with Manager(log, "c"):
            fail("inside")
        log.append("never")
    with contextlib.suppress(KeyError), Manager(log, "d"):
        {}["missing"]  # noqa: B018
    for i in range(3):
        with Manager(log, i):
            if i == 0:
                continue
            if i == 1:
                break
    try:
        with Manager(log, "e"):
            try:
                fail("f")
            finally:
                with Manager(log, "g", swallows=True):
                    fail("h")
    except ValueError as error:
        log.append((str(error), str(error.__context__)))
    return log, sys.exc_info()


def returns_in_with():
    log = []

    def run(i):
        with Manager(log, "outer"):
            for j in range(3):
                with Manager(log, j, swallows=True):
                    if j == i:
                        return add(i, 10)
                    fail(str(j))
        return "end"

    return [run(i) for i in range(4)], log


def uncaught_in_handler():
    try:
        fail("first")
    except ValueError:
        with Manager([], "x"):
            raise KeyError("second")  # noqa: B904


def bare_raise():
    try:
        try:
            fail("kept")
        except ValueError:
            with contextlib.suppress(KeyError):
                raise KeyError("gone")  # noqa: B904
            raise
    except ValueError as error:
        return str(error), error.__context__


def comprehensions_over_names():
    x = "outer"
    rows = [[1, 2], [3]]
    flat = [x * 2 for row in rows for x in row if x != 2]
    table = {x: [y for y in range(x)] for x in (1, 2)}
    names = {x.upper() for x in "ab"}
    total = sum(x for row in rows for x in row)
    return x, flat, table, sorted(names), total, [(x := y) for y in range(2)], x


def comprehension_fails():
    i = "kept"
    try:
        return [10 // i for i in (2, 1, 0)]
    except ZeroDivisionError:
        pass
    try:
        return [j for i in (1,) for j in fail("in")]
    except ValueError as error:
        return i, str(error)


def cells_everywhere(start=1):
    makers = [lambda: i for i in range(3)]
    bound = [lambda i=i: i + start for i in range(3)]
    total = start

    def grow(by):
        nonlocal total
        total += by
        return total

    for k in range(2):
        grow(k + 1)
        makers.append(lambda: (k, total, start))
    start = 7
    inner = [[lambda: (a, b, start) for a in range(b)] for b in range(3)]
    return [f() for f in makers], [f() for f in bound], total, inner[2][1](), grow(0)


def argument_cell(x):
    saved = [lambda: x for x in range(2)]
    get = lambda: x  # noqa: E731
    x = x + 1
    return [f() for f in saved], get(), x


def argument_cells():
    return argument_cell(5), argument_cell(x="a" and 2)


def only_free_variables():
    count = 1
    items = []

    def step():
        nonlocal count
        count += add(count, len(items))
        items.append(lambda: count + len(items))
        return count, [f() for f in items]

    def clear():
        nonlocal count
        del count

    def read():
        try:
            return count
        except NameError as error:
            return str(error)

    return step(), step(), clear(), read()


class Base:
    def describe(self, suffix):
        return "base" + suffix

    @classmethod
    def make(cls):
        return cls()


class Derived(Base):
    def describe(self, suffix):
        get = lambda: self is not None and __class__.__name__  # noqa: E731
        return super().describe(suffix + "!") + get() + __class__.__name__

    @classmethod
    def make(cls):
        made = super().make()
        made.names = [name for name in vars(cls) if not name.startswith("_")]
        return made


def methods():
    one = Derived.make()
    return one.describe(str(add(1, 2))), sorted(one.names)


def own_classes():
    base = Base
    size = 3

    class Local(base):
        width = size + 1

        def area(self):
            return self.width * size

    return Local().area(), Local.make().describe("x"), f"{Local.width!r:>4}"


def matches():
    def classify(value):
        match value:
            case {"kind": str(kind), **rest} if rest:
                return f"map {kind} {rest}"
            case [int(a), (b, *c)] | (a, {"b": b, "c": c}):
                return a, b, c
            case complex(real=r, imag=0.0):
                return "real", r
            case "x" | "y" as letter:
                return letter
            case _:
                return None

    values = [{"kind": "k", "n": 1}, {"kind": "k"}, [1, (2, 3, 4)], (1, {"b": 2, "c": 3}), 2 + 0j, 1j, "y"]
    return [classify(value) for value in values]


def texts():
    name, width = "n", 6
    return f"{name!r:>{add(width, 1)}}|{add(1, 2):0{width}.2f}|{name}{{}}{f'{width + 1!s}'}" + "%s" % name


def chains_and_conditions():
    log = []

    def see(value):
        log.append(value)
        return value

    a = see(1) < see(2) < see(0) < see(9)
    b = see(0) or see("") or see([]) or see("end")
    c = see(1) and (see(2) if see(0) else see(3)) and not see(4)
    if (n := see(5)) > 4 and not (see(n) is None or see(n) in (1, 2)):
        log.append("taken")
    d = None if see(None) is None else see(1)
    return a, b, c, d, log


def unpacking():
    (a, *b), c = [1, 2, 3], "x"
    [d, (e, f)] = 1, (2, add(3))
    b[add(0)] += 5
    table = {"k": b, **{"l": 1}, add(1): [*b, *range(2)]}
    table["k"][0:1] = [7, 8]
    table[1][1:2], a = "z", {*b, add(2)}
    return a, b, c, d, e, f, table, [*b, add(1)], (*b, 1)


def many_locals():
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = b8 = b9 = 1
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = c8 = c9 = d0 = d1 = d2 = d3 = d4 = d5 = d6 = d7 = d8 = d9 = 2
    e0 = e1 = e2 = e3 = e4 = e5 = e6 = e7 = e8 = e9 = f0 = f1 = f2 = f3 = f4 = f5 = f6 = f7 = f8 = f9 = 3
    for g in range(2):
        a0 += g
        if g:
            late = a0
    del f9
    return a0 + a9 + b0 + c5 + d3 + e9 + f8, late, len(locals())


def groups():
    log = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
        except* ValueError as found:
            log.append(found.exceptions)
        except* KeyError:
            raise RuntimeError("new")  # noqa: B904
    except ExceptionGroup as error:
        log.append(error.exceptions)
    return repr(log)


def imports():
    import os.path as path
    from math import floor
    from math import pi as circle

    return path.join("a", "b"), floor(circle)


def asserts():
    value = 3
    assert value, "not reached"
    try:
        assert value < add(1, 1), f"too big: {value}"
    except AssertionError as error:
        return str(error)


def generators_around():
    def count(n):
        for i in range(n):
            got = yield i
            if got:
                yield got

    steps = count(4)
    found = [next(steps), steps.send("sent"), *steps]
    return found, [x for x in count(3)], max(count(3)), dict(zip(count(2), "ab"))


PROGRAMS = [
    nested_calls,
    stars,
    loops_in_loops,
    unbound_names,
    try_in_finally,
    handlers_in_handlers,
    returns_in_handlers,
    raises_from_with,
    returns_in_with,
    uncaught_in_handler,
    bare_raise,
    comprehensions_over_names,
    comprehension_fails,
    cells_everywhere,
    argument_cells,
    only_free_variables,
    methods,
    own_classes,
    matches,
    texts,
    chains_and_conditions,
    unpacking,
    many_locals,
    groups,
    imports,
    asserts,
    generators_around,
]
