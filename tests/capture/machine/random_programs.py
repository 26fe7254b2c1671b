"""Random plain programs: statements nested in loops, handlers and `with`, on names that may be unbound."""

from __future__ import annotations

import random

NAMES = ("a", "b", "c", "d", "e")
CELLS = ("p", "q")
HEADER = """
def make(log):
    free = 3

    class Manager:
        def __init__(self, name, swallows):
            self.name, self.swallows = name, swallows

        def __enter__(self):
            log.append(("enter", self.name))
            return self.name

        def __exit__(self, kind, error, traceback):
            log.append(("exit", self.name, kind and kind.__name__, len(error.args) if error else None))
            return self.swallows

    def see(value=0, *rest, **named):
        log.append((value, *rest, *sorted(named.items())))
        if len(log) > 300:
            raise SystemError("long enough")
        return value

    def fail(kind, value=0):
        log.append(kind.__name__)
        raise kind(value)

    def bump():
        nonlocal free
        free += 1
        return free

"""


class Writer:
    """Writes one program; every choice comes from the seed."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.lines = []
        self.number = 0

    def write(self, depth, text):
        self.lines.append("    " * depth + text)

    def fresh(self):
        self.number += 1
        return self.number

    def name(self):
        return self.choose.choice(NAMES + CELLS)

    def expression(self, depth=0):
        choose = self.choose
        simple = [lambda: str(choose.randint(-2, 4)), self.name, self.name, lambda: "free", lambda: "bump()"]
        if depth > 2 or choose.random() < 0.4:
            return choose.choice(simple)()

        def inner():
            return self.expression(depth + 1)

        compound = [
            lambda: f"({inner()} {choose.choice('+-*')} {inner()})",
            lambda: f"({inner()} // {inner()})",
            lambda: f"see({inner()}, {inner()})",
            lambda: f"see({inner()}, *({inner()}, 1), k={inner()}, **{{'z': {inner()}}})",
            lambda: f"see(see({inner()}), k={inner()})",
            lambda: f"({inner()} if {self.condition(depth + 1)} else {inner()})",
            lambda: f"[{inner()}, {inner()}][{choose.choice(['0', '1', '2', inner()])}]",
            lambda: f"sum([{self.name()} + {inner()} for {self.name()} in range({choose.randint(0, 3)})])",
            lambda: f"len({{{self.name()}: {inner()} for {self.name()} in (1, 2)}})",
            lambda: f"sum(f() for f in [lambda: {self.name()} for {self.name()} in range(2)])",
            lambda: f"({self.name()} := {inner()})",
            lambda: f"len(f'{{{self.expression(3)}!r:>3}}-{{{self.expression(3)}}}')",
            lambda: f"({self.condition(depth + 1)} or {inner()})",
            lambda: f"(lambda x=1, *y: x + {inner()} + len(y))({inner()})",
            lambda: f"fail({choose.choice(['KeyError', 'ValueError'])}, {inner()})",
        ]
        return choose.choice(compound)()

    def condition(self, depth=0):
        choose = self.choose
        options = [
            lambda: (
                f"{self.expression(depth + 1)} < {self.expression(depth + 1)} <= {self.expression(depth + 1)}"
            ),
            lambda: f"{self.expression(depth + 1)} in (0, 1, {self.expression(depth + 1)})",
            lambda: f"not {self.expression(depth + 1)}",
            lambda: f"({self.expression(depth + 1)} is None)",
        ]
        return choose.choice(options)()

    def block(self, depth, level, in_loop):
        for _ in range(self.choose.choice([1, 1, 2])):
            self.statement(depth, level, in_loop)

    def statement(self, depth, level, in_loop):
        choose = self.choose
        simple = [
            lambda: self.write(depth, f"{self.name()} = {self.expression()}"),
            lambda: self.write(depth, f"{self.name()} += {self.expression()}"),
            lambda: self.write(depth, f"see({self.expression()})"),
            lambda: self.write(
                depth, f"{self.name()}, *{self.name()} = {self.expression()}, {self.expression()}"
            ),
            lambda: self.write(depth, f"del {self.name()}"),
            lambda: self.write(depth, f"assert {self.condition()}, {self.expression()}"),
        ]
        leaving = [
            lambda: self.write(depth, f"return {self.expression()}"),
            lambda: self.write(
                depth, f"raise {choose.choice(['KeyError(1)', 'ValueError', 'TypeError(2) from None'])}"
            ),
            lambda: self.write(depth, "raise"),
        ]
        if in_loop:
            leaving += [lambda: self.write(depth, "break"), lambda: self.write(depth, "continue")] * 2
        nested = [
            self.write_if,
            self.write_for,
            self.write_while,
            self.write_try,
            self.write_try,
            self.write_with,
        ]
        nested += [self.write_finally, self.write_function, self.write_match]
        roll = choose.random()
        if level < 4 and roll < 0.5:
            choose.choice(nested)(depth, level + 1, in_loop)
        elif roll < 0.6:
            choose.choice(leaving)()
        else:
            choose.choice(simple)()

    def write_if(self, depth, level, in_loop):
        self.write(depth, f"if {self.condition()}:")
        self.block(depth + 1, level, in_loop)
        if self.choose.random() < 0.5:
            self.write(depth, "else:")
            self.block(depth + 1, level, in_loop)

    def write_for(self, depth, level, in_loop):
        self.write(depth, f"for {self.name()} in range({self.choose.randint(0, 3)}):")
        self.block(depth + 1, level, True)
        if self.choose.random() < 0.3:
            self.write(depth, "else:")
            self.block(depth + 1, level, in_loop)

    def write_while(self, depth, level, in_loop):
        counter = f"n{self.fresh()}"
        self.write(depth, f"{counter} = 0")
        self.write(depth, f"while {counter} < {self.choose.randint(1, 3)}:")
        self.write(depth + 1, f"{counter} += 1")
        self.block(depth + 1, level, True)

    def write_try(self, depth, level, in_loop):
        choose = self.choose
        self.write(depth, "try:")
        self.block(depth + 1, level, in_loop)
        for kind in choose.choice([["KeyError"], ["(ValueError, TypeError)", "Exception"], ["Exception"]]):
            name = f" as {self.name()}" if choose.random() < 0.4 else ""
            self.write(depth, f"except {kind}{name}:")
            self.block(depth + 1, level, in_loop)
        if choose.random() < 0.3:
            self.write(depth, "else:")
            self.block(depth + 1, level, in_loop)
        if choose.random() < 0.4:
            self.write(depth, "finally:")
            self.block(depth + 1, level, in_loop)

    def write_finally(self, depth, level, in_loop):
        self.write(depth, "try:")
        self.block(depth + 1, level, in_loop)
        self.write(depth, "finally:")
        self.block(depth + 1, level, in_loop)

    def write_with(self, depth, level, in_loop):
        number = self.fresh()
        swallows = self.choose.choice(["True", "False", "False"])
        name = f" as {self.name()}" if self.choose.random() < 0.5 else ""
        self.write(depth, f"with Manager({number}, {swallows}){name}:")
        self.block(depth + 1, level, in_loop)

    def write_function(self, depth, level, in_loop):
        number = self.fresh()
        cells = self.choose.choice(["p", "q", "p, q"])
        self.write(depth, f"def f{number}(a, b=2):")
        self.write(depth + 1, f"nonlocal {cells}")
        self.block(depth + 1, max(level, 3), False)
        self.write(depth, f"{self.name()} = f{number}({self.expression()})")

    def write_match(self, depth, level, in_loop):
        self.write(depth, f"match ({self.expression()}, {self.expression()}):")
        self.write(depth + 1, f"case (0 | 1, {self.name()}):")
        self.block(depth + 2, level, in_loop)
        self.write(depth + 1, f"case [int(), *_] if {self.condition()}:")
        self.block(depth + 2, level, in_loop)
        self.write(depth + 1, "case _:")
        self.block(depth + 2, level, in_loop)


def write_source(seed):
    """The text of program number `seed`."""
    writer = Writer(seed)
    writer.write(1, "def run(a, b=1, *, c=2):")
    writer.write(2, "p = q = 0")
    for _ in range(writer.choose.randint(2, 4)):
        writer.statement(2, 1, False)
    writer.write(2, f"return see({writer.expression()})")
    writer.write(1, "return run")
    return HEADER + "\n".join(writer.lines) + "\n"


def make_program(seed):
    """A function without arguments that runs program `seed`, or None where Python refuses its text."""
    try:
        code = compile(write_source(seed), f"<random {seed}>", "exec")
    except SyntaxError:
        return None
    names = {"__name__": f"random_{seed}"}
    exec(code, names)
    make = names["make"]

    def program():
        log = []
        try:
            result = make(log)(1)
        except Exception as error:
            chain = []
            while error is not None and len(chain) < 20:
                chain.append(repr(error))
                error = error.__context__
            return chain, log
        return repr(result), log

    program.__name__ = f"random_{seed}"
    return program
