"""Random Python expressions."""

from __future__ import annotations

import random

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


class Expressions:
    """Writes expressions over the names of a program."""

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
