"""Small plain Python programs: each must give in the machine what it gives in CPython (result, error, prints)."""

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

COUNTER = 0
REGISTRY: dict[str, object] = {}


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


def _error(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


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


def _two(x):
    a, b = x
    return a, b


def _message(function):
    try:
        return function()
    except Exception as error:
        return str(error).split(" (expected")[0], type(error).__name__


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


PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", None) == __name__
    and not isinstance(value, type)
    and not name.startswith("_")
]
