"""Random plain Python programs: nested functions, classes, exceptions, generators, matching, mutation, printing.

`generate(seed)` gives the text of a module with one function `program()`. Programs end, whatever they do: loops
are bounded and values are clipped. What they raise is as good a result as what they return.
"""

from __future__ import annotations

import itertools
import warnings

from python_expressions import Expressions
from python_prelude import PRELUDE

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


class Generator(Expressions):
    """Writes one program."""

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
