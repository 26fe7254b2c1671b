"""Random plain Python programs: nested functions, classes, exceptions, generators, matching, mutation, printing.

`generate(seed)` gives the text of a module with one function `program()`. Programs end, whatever they do: loops
are bounded and values are clipped. What they raise is as good a result as what they return.
"""

from __future__ import annotations

import itertools
import random
import warnings

PRELUDE = """
import contextlib, functools, itertools, operator, collections, dataclasses, enum

def clip(value):
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value % 1000003 if abs(value) > 1000003 else value
    if isinstance(value, (str, list, tuple, bytes)):
        return value[:12]
    return value

class Manager:
    def __init__(self, name, swallow=()):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        print("enter", self.name)
        return self
    def __exit__(self, kind, error, trace):
        print("exit", self.name, kind and kind.__name__)
        return isinstance(error, self.swallow)

@contextlib.contextmanager
def guarded(name):
    print("open", name)
    try:
        yield name
    except ValueError as error:
        print("guarded", error)
    finally:
        print("close", name)

class Box:
    __match_args__ = ("value", "tag")
    made = 0
    def __init__(self, value, tag="t"):
        self.value, self.tag = value, tag
        Box.made += 1
    def __repr__(self):
        return f"Box({self.value!r})"
    def __add__(self, other):
        if isinstance(other, str):
            return NotImplemented
        return Box(clip(self.value + (other.value if isinstance(other, Box) else other)))
    def __radd__(self, other):
        return Box(clip(other + self.value), "r")
    def __iadd__(self, other):
        self.value = clip(self.value + other)
        return self
    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value
    def __lt__(self, other):
        return self.value < getattr(other, "value", other)
    def __hash__(self):
        return hash(self.value)
    def __bool__(self):
        return bool(self.value)
    def __len__(self):
        return len(self.value)
    def __getitem__(self, index):
        return self.value[index]
    def __contains__(self, item):
        return item == self.value
    def __call__(self, *args, **kwargs):
        return (self.value, args, sorted(kwargs.items()))
    def __getattr__(self, name):
        if name.startswith("a_"):
            return name[2:] * 2
        raise AttributeError(name)
    @property
    def twice(self):
        return clip(self.value * 2)
    @twice.setter
    def twice(self, value):
        self.value = value // 2
    @classmethod
    def make(cls, value):
        return cls(value, "made")
    @staticmethod
    def plain(value):
        return ("plain", value)

class Derived(Box):
    def __init__(self, value, tag="d"):
        super().__init__(value, tag)
        self.extra = [value]
    def __repr__(self):
        return "Derived:" + super().__repr__()
    def __radd__(self, other):
        return ("derived radd", other)

class Countdown:
    def __init__(self, start):
        self.left = min(int(start), 5)
    def __iter__(self):
        return self
    def __next__(self):
        if self.left <= 0:
            raise StopIteration
        self.left -= 1
        return self.left

class Color(enum.Enum):
    RED = 1
    BLUE = 2

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0

class Fault(ValueError):
    def __init__(self, code):
        super().__init__(f"fault {code}")
        self.code = code

def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print("call", function.__name__, len(args))
        return function(*args, **kwargs)
    return wrapper
"""
KINDS = (
    "ValueError",
    "TypeError",
    "KeyError",
    "IndexError",
    "ZeroDivisionError",
    "AttributeError",
    "Fault",
    "(TypeError, ValueError)",
    "LookupError",
    "Exception",
    "StopIteration",
)
BUILTINS = [
    "len",
    "str",
    "repr",
    "bool",
    "int",
    "abs",
    "list",
    "tuple",
    "sum",
    "sorted",
    "min",
    "max",
    "any",
    "all",
    "type",
    "hash",
    "reversed",
    "float",
]
BINARY = ("+", "-", "*", "//", "%", "&", "|", "^", "/")
COMPARE = ("<", "<=", "==", "!=", ">", ">=", "in", "not in", "is", "is not")


class Generator:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names: list[str] = []
        self.functions: list[tuple[str, int]] = []
        self.generators: list[str] = []
        self.count = 0
        self.indent = 1
        self.in_loop = 0
        self.in_function = 0
        self.is_generator = False

    # writing

    def add(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def choose(self, *options):
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def name(self) -> str:
        if self.names and self.chance(0.97):
            return self.random.choice(self.names)
        return "v1"

    # expressions

    def atom(self) -> str:
        pick = self.random.randrange(10)
        if pick < 5 and self.names:
            return self.name()
        if pick < 7:
            return str(self.random.randrange(-3, 9))
        return self.choose(
            "'ab'",
            "''",
            "None",
            "True",
            "2.5",
            "(1, 2)",
            "[3, 1, 2]",
            "{'k': 1, 'm': [2]}",
            "{1, 2}",
            "b'x'",
            "Color.RED",
            "Point(1, 2)",
            "Box(3)",
            "Derived(2)",
            "range(3)",
        )

    def expression(self, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.25):
            return self.atom()
        forms = (
            self.binary,
            self.binary,
            self.comparison,
            self.conditional,
            self.container,
            self.comprehension,
            self.call,
            self.call,
            self.method,
            self.subscript,
            self.text,
            self.attribute,
            self.logic,
            self.functional,
            self.walrus,
        )
        return self.random.choice(forms)(depth - 1)

    def binary(self, depth: int) -> str:
        operator = self.random.choice(BINARY)
        return f"clip({self.expression(depth)} {operator} {self.expression(depth)})"

    def comparison(self, depth: int) -> str:
        text = f"{self.expression(depth)} {self.random.choice(COMPARE)} {self.expression(depth)}"
        return f"({text} {self.choose('<', '==')} {self.atom()})" if self.chance(0.2) else f"({text})"

    def conditional(self, depth: int) -> str:
        return f"({self.expression(depth)} if {self.expression(depth)} else {self.expression(depth)})"

    def logic(self, depth: int) -> str:
        form = self.choose("({} and {})", "({} or {})", "(not {} or {})", "(-{0} or {1})")
        return form.format(self.expression(depth), self.expression(depth))

    def walrus(self, depth: int) -> str:
        name = self.fresh("w")
        return f"[({name} := {self.expression(depth)}), {name}]"

    def container(self, depth: int) -> str:
        a, b = self.expression(depth), self.expression(depth)
        return self.choose(
            f"[{a}, {b}]",
            f"({a}, {b})",
            f"{{{a}: {b}}}",
            f"{{{a}, {b}}}",
            f"[*{a}, {b}]",
            f"{{**{{'z': {a}}}, 'y': {b}}}",
            f"dict(p={a}, q={b})",
            f"collections.deque([{a}, {b}], maxlen=3)",
            f"(*{a}, *{b})",
        )

    def comprehension(self, depth: int) -> str:
        name = self.fresh("c")
        source = self.choose("range(4)", f"clip({self.atom()})", "'abc'", "[3, 1, 2]", "Countdown(3)")
        self.names.append(name)
        element, test = self.expression(depth), self.expression(0)
        self.names.remove(name)
        condition = f" if {test}" if self.chance(0.4) else ""
        form = self.choose("[{}]", "list({})", "{{{}}}", "tuple({})", "dict.fromkeys({})")
        if self.chance(0.2):
            return f"{{{name}: {element} for {name} in {source}{condition}}}"
        return form.format(f"{element} for {name} in {source}{condition}")

    def call(self, depth: int) -> str:
        if self.functions and self.chance(0.6):
            name, arity = self.random.choice(self.functions)
            arguments = [self.expression(depth) for _ in range(arity)]
            if self.chance(0.1):
                arguments.append(self.choose("9", "extra=1", "*(1, 2)", "**{'zz': 3}"))
            return f"clip({name}({', '.join(arguments)}))"
        if self.generators and self.chance(0.4):
            return f"list(itertools.islice({self.random.choice(self.generators)}({self.atom()}), 5))"
        picked = self.random.choice(BUILTINS)
        text = f"{picked}({self.expression(depth)})"
        return f"{text}.__name__" if picked == "type" else text

    def method(self, depth: int) -> str:
        owner, value = self.expression(depth), self.expression(depth)
        return self.choose(
            f"'a,b'.split({value})",
            f"'-'.join({value})",
            f"'{{}}:{{!r}}'.format({owner}, {value})",
            f"'%s %r' % ({owner}, {value})",
            f"{{'k': 1}}.get({value}, {owner})",
            f"[1, 2, 3].index({value})",
            f"[1, 2, 1].count({value})",
            f"{{1, 2}}.union({value})",
            f"Box({owner})({value}, key=1)",
            f"Box.make({value}).twice",
            f"Derived({value}).extra",
            f"Box.plain({value})",
            f"{{'k': [1]}}.setdefault('k', {value})",
            f"functools.partial(max, {owner})({value})",
            f"operator.itemgetter(0)({owner})",
            f"operator.attrgetter('value')({owner})",
        )

    def subscript(self, depth: int) -> str:
        owner = self.expression(depth)
        index = self.choose("0", "-1", "1:3", "::-1", "'k'", self.atom())
        return f"({owner})[{index}]"

    def attribute(self, depth: int) -> str:
        name = self.choose("value", "twice", "a_q", "x", "name", "extra", "real", "missing")
        return f"({self.expression(depth)}).{name}"

    def text(self, depth: int) -> str:
        value = self.expression(depth).replace("'", '"')
        if '"' in value and ("\\" in value or "f'" in value):
            value = self.name()
        if '"' in value:
            return f"str({value})"
        ending = self.choose("", "!r", ":>4", "!s:>5", "!a")
        return f"f'<{{{value}{ending}}}>'"

    def functional(self, depth: int) -> str:
        source, name = self.expression(depth), self.fresh("l")
        self.names.append(name)
        body = self.expression(depth)
        self.names.remove(name)
        return self.choose(
            f"list(map(lambda {name}: {body}, {source}))",
            f"list(filter(lambda {name}: {body}, {source}))",
            f"sorted({source}, key=lambda {name}: {body})",
            f"max({source}, key=lambda {name}: {body}, default=None)",
            f"functools.reduce(lambda {name}, m: clip({name} + m), {source}, 0)",
            f"list(zip({source}, 'abc', strict={self.chance(0.3)}))",
            f"list(enumerate({source}, 1))",
            f"list(itertools.accumulate({source}, lambda {name}, m: m))",
            f"[(k, list(g)) for k, g in itertools.groupby({source}, lambda {name}: {body})]",
            f"isinstance({source}, ({self.choose('int', 'str', 'list', 'Box')}, tuple))",
            f"next(iter({source}), 'none')",
        )

    # statements

    def block(self, size: int, depth: int) -> None:
        self.indent += 1
        kept = list(self.names)
        for _ in range(self.random.randint(1, size)):
            self.statement(depth)
        if self.chance(0.7):
            self.names = kept
        self.indent -= 1

    def statement(self, depth: int) -> None:
        simple = (self.assign, self.assign, self.assign, self.show, self.mutate, self.change, self.unpack)
        nested = (
            self.branch,
            self.loop,
            self.repeat,
            self.attempt,
            self.attempt,
            self.manage,
            self.define,
            self.define_generator,
            self.define_class,
            self.match,
            self.step_generator,
        )
        if depth <= 0 or self.chance(0.5):
            self.random.choice((*simple, self.leave))()
        else:
            self.random.choice(nested)(depth - 1)

    def assign(self) -> None:
        value = self.expression(3)
        name = self.fresh("v") if self.chance(0.6) or not self.names else self.name()
        self.add(f"{name} = clip({value})")
        if name not in self.names:
            self.names.append(name)

    def show(self) -> None:
        self.add(f"print({self.expression(2)}, {self.atom()})")

    def change(self) -> None:
        operator = self.random.choice(("+", "-", "*", "|"))
        name = self.name()
        self.add(f"{name} {operator}= {self.expression(1)}")
        self.add(f"{name} = clip({name})")

    def unpack(self) -> None:
        a, b = self.fresh("v"), self.fresh("v")
        target = self.choose(f"{a}, {b}", f"{a}, *{b}", f"*{a}, {b}", f"({a}, {b})", f"[{a}, ({b})]")
        self.add(f"{target} = {self.expression(2)}")
        self.names += [a, b]

    def mutate(self) -> None:
        name, value = self.name(), self.expression(2)
        self.add(
            self.choose(
                f"{name}.append({value})",
                f"{name}[{self.atom()}] = {value}",
                f"{name}.value = {value}",
                f"{name}.twice = {value}",
                f"del {name}[0]",
                f"{name}.extend({value})",
                f"{name}.update({value})",
                f"{name}.pop()",
                f"{name}.sort(key=str)",
                f"setattr({name}, 'tag', {value})",
                f"{name}.add({value})",
                f"{name}[1:1] = {value}",
                f"del {name}",
            )
        )

    def leave(self) -> None:
        options = [f"raise {self.choose('ValueError', 'KeyError', 'TypeError')}({self.atom()})", "pass"]
        options.append(f"raise Fault({self.atom()}) from {self.choose('None', 'KeyError(1)')}")
        options.append(f"assert {self.expression(1)}, {self.atom()}")
        if self.in_loop:
            options += ["break", "continue"]
        if self.in_function:
            options.append(f"return {self.expression(2)}")
        if self.is_generator:
            options += [f"yield {self.expression(2)}"] * 3
            options.append(f"{self.fresh('r')} = yield from {self.expression(1)}")
        if self.chance(0.5):
            self.add(self.random.choice(options))
        else:
            self.assign()

    def branch(self, depth: int) -> None:
        self.add(f"if {self.expression(2)}:")
        self.block(3, depth)
        if self.chance(0.4):
            self.add(f"elif {self.expression(1)}:")
            self.block(2, depth)
        if self.chance(0.6):
            self.add("else:")
            self.block(2, depth)

    def loop(self, depth: int) -> None:
        name = self.fresh("i")
        source = self.choose("range(3)", "[1, 'b', None]", f"clip({self.expression(1)})", "Countdown(2)")
        self.add(f"for {name} in {source}:")
        self.names.append(name)
        self.in_loop += 1
        self.block(3, min(depth, 1))
        self.in_loop -= 1
        if self.chance(0.3):
            self.add("else:")
            self.block(1, 0)

    def repeat(self, depth: int) -> None:
        name = self.fresh("n")
        self.add(f"{name} = 0")
        self.add(f"while {name} < {self.random.randint(1, 3)}:")
        self.indent += 1
        self.add(f"{name} += 1")
        self.indent -= 1
        self.in_loop += 1
        self.block(3, min(depth, 1))
        self.in_loop -= 1
        if self.chance(0.2):
            self.add("else:")
            self.block(1, 0)

    def attempt(self, depth: int) -> None:
        self.add("try:")
        self.block(3, depth)
        star = "*" if self.chance(0.12) else ""
        has_handler = self.chance(0.85)
        for _ in range(self.random.randint(1, 2) if has_handler else 0):
            self.handler(star, depth)
        if has_handler and self.chance(0.25):
            self.add("else:")
            self.block(1, 0)
        if not has_handler or self.chance(0.35):
            self.add("finally:")
            self.block(2, 0)

    def handler(self, star: str, depth: int) -> None:
        """One except clause; those of except* cannot leave a loop or a function."""
        name = self.fresh("e")
        self.add(f"except{star} {self.random.choice(KINDS)} as {name}:")
        self.indent += 1
        self.add(f"print(type({name}).__name__, {name}, repr({name}.__cause__), repr({name}.__context__))")
        self.indent -= 1
        kept = self.in_loop, self.in_function
        if star:
            self.in_loop = self.in_function = 0
        self.block(2, 0 if star else depth)
        if not star and self.chance(0.2):
            self.indent += 1
            self.add(self.choose("raise", f"raise TypeError('again') from {name}", f"raise KeyError({name})"))
            self.indent -= 1
        self.in_loop, self.in_function = kept

    def manage(self, depth: int) -> None:
        name = self.fresh("m")
        first = self.choose(
            f"Manager({name!r})",
            f"Manager({name!r}, {self.random.choice(KINDS)})",
            f"guarded({name!r})",
            "contextlib.suppress(KeyError, TypeError)",
            f"contextlib.ExitStack() as {name}",
        )
        second = f", Manager('second', {self.random.choice(KINDS)}) as {name}" if self.chance(0.3) else ""
        self.add(f"with {first}{second}:")
        self.block(3, depth)

    def define(self, depth: int, generator: bool = False) -> None:
        name = self.fresh("f")
        parameters = [self.fresh("p") for _ in range(self.random.randint(0, 3))]
        arity = len(parameters)
        listed = list(parameters)
        if generator:
            listed, arity, parameters = [*parameters[:1], "*rest"], 1, [*parameters[:1], "rest"]
        elif parameters and self.chance(0.3):
            listed[-1] += f"={self.atom()}"
        if not generator and self.chance(0.2):
            listed += ["*rest", "flag=None", "**options"]
            parameters = [*parameters, "rest", "flag", "options"]
        if self.chance(0.15):
            self.add("@traced")
        self.add(f"def {name}({', '.join(listed)}):")
        self.function_body(parameters, depth, generator)
        (self.generators.append(name) if generator else self.functions.append((name, arity)))

    def function_body(self, parameters: list[str], depth: int, generator: bool) -> None:
        kept = (list(self.names), self.in_loop, self.in_function, self.is_generator)
        kept_functions, kept_generators = list(self.functions), list(self.generators)
        outer = [name for name in self.names if name.startswith("v")]
        self.indent += 1
        if outer and self.in_function and self.chance(0.35):
            self.add(f"nonlocal {self.random.choice(outer)}")
        self.indent -= 1
        self.names = self.names + parameters
        self.in_loop, self.in_function, self.is_generator = 0, 1, generator
        self.block(4, depth)
        self.indent += 1
        if generator:
            self.add(f"yield {self.expression(1)}")
        self.add(f"return {self.expression(2)}")
        self.indent -= 1
        self.names, self.in_loop, self.in_function, self.is_generator = kept
        self.functions, self.generators = kept_functions, kept_generators

    def define_generator(self, depth: int) -> None:
        self.define(depth, generator=True)

    def step_generator(self, depth: int) -> None:
        """Drives a generator by hand."""
        if not self.generators:
            self.define_generator(depth)
            return
        name = self.fresh("g")
        self.add(f"{name} = {self.random.choice(self.generators)}({self.atom()})")
        for _ in range(self.random.randint(1, 4)):
            step = self.choose(
                f"print(next({name}, 'end'))",
                f"print(next({name}))",
                f"print({name}.send({self.choose('None', self.atom())}))",
                f"{name}.close()",
                f"print({name}.throw({self.choose('ValueError(1)', 'KeyError', 'Fault(2)', 'GeneratorExit')}))",
                f"print(list(itertools.islice({name}, 3)))",
            )
            self.add(step)

    def define_class(self, depth: int) -> None:
        name = self.fresh("C")
        base = self.choose("", "(Box)", "(Derived)", "(list)", "(dict)", "(Exception)", "(Point)", "(tuple)")
        self.add(f"class {name}{base}:")
        self.indent += 1
        self.add(f"shared = {self.expression(1)}")
        for special in self.random.sample(
            ("__len__", "__repr__", "__eq__", "__iter__", "__getitem__", "__bool__", "__add__", "__rsub__"), 2
        ):
            extra = "" if special in ("__len__", "__repr__", "__iter__", "__bool__") else ", other"
            self.add(f"def {special}(self{extra}):")
            self.function_body(["self"], 0, special == "__iter__")
        self.add(f"def method(self, a={self.atom()}):")
        self.function_body(["self", "a"], min(depth, 1), False)
        self.indent -= 1
        instance = self.fresh("v")
        self.add(f"{instance} = {name}({self.choose('', '', self.atom())})")
        self.names.append(instance)
        self.add(f"print({instance}.{self.choose('method()', 'shared', 'method(1)')})")

    def match(self, depth: int) -> None:
        a, b = self.fresh("v"), self.fresh("v")
        self.add(f"match {self.expression(2)}:")
        self.indent += 1
        patterns = (
            f"int({a}) if {a} > 2",
            f"[{a}, {b}]",
            f"[{a}, *{b}]",
            f"{{'k': {a}, **{b}}}",
            f"Box({a}, tag={b})",
            f"Point(x=1, y={a})",
            f"str() as {a}",
            "None | True",
            "Color.RED",
            f"(1 | 2) as {a}",
            f"({a}, [{b}])",
        )
        for pattern in self.random.sample(patterns, self.random.randint(1, 4)):
            self.add(f"case {pattern}:")
            self.names += [name for name in (a, b) if name in pattern]
            self.block(2, min(depth, 1))
        if self.chance(0.6):
            self.add("case _:")
            self.block(1, 0)
        self.indent -= 1

    def write(self) -> str:
        """The whole module."""
        self.in_function = 1
        for _ in range(self.random.randint(5, 12)):
            if self.chance(0.95):
                self.add("try:")
                self.indent += 1
                self.statement(3)
                self.indent -= 1
                name = self.fresh("e")
                self.add(f"except Exception as {name}:")
                self.indent += 1
                self.add(f"print(type({name}).__name__, {name}, type({name}.__context__).__name__)")
                self.indent -= 1
            else:
                self.statement(3)
        self.add("return sorted(locals().items(), key=lambda item: item[0]), Box.made")
        return PRELUDE + "\ndef program():\n" + "\n".join(self.lines) + "\n"


def generate(seed: int) -> str:
    """The text of the program of a seed; what happens not to compile is written anew."""
    for attempt in itertools.count():
        text = Generator(seed * 1000 + attempt).write()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                compile(text, "<program>", "exec")
        except SyntaxError:
            continue
        return text
    raise AssertionError
