"""The one place where capture turns text into code: constants by name, locals by first use, printable."""

from __future__ import annotations

import itertools
import linecache
import re
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

_numbers = itertools.count()
_dead: deque[str] = deque()
"""Names of the files of functions that are gone."""

SELF_EVIDENT = (int, str, bool, type(None))
"""Constants written literally; everything else gets a name in the function's namespace."""

LOOKUP_ERRORS = (LookupError, AttributeError, TypeError, ValueError, RuntimeError, ArithmeticError)
"""What reading a place that is not there, or computing with other numbers, raises."""


class Writer:
    """Collects the lines of one function; `read` gives each expression a local variable once."""

    def __init__(self, name: str, parameters: str) -> None:
        self.name = name
        self.parameters = parameters
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self._constants: dict[int, str] = {}
        self._locals: dict[str, str] = {}

    def constant(self, value: Any) -> str:
        """An expression for `value`: literal where that is exact, otherwise a name bound to the object."""
        return repr(value) if type(value) in SELF_EVIDENT else self.name_constant(value)

    def name_constant(self, value: Any) -> str:
        """A name bound to this very object."""
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = f"c{len(self._constants)}"
            self.namespace[found] = value
        return found

    def read(self, expression: str) -> str:
        """A local variable that holds `expression`, computed where it is first asked for."""
        if expression.isidentifier():
            return expression
        found = self._locals.get(expression)
        if found is None:
            found = self._locals[expression] = f"v{len(self._locals)}"
            self.lines.append(f"{found} = {expression}")
        return found

    def unpack(self, expression: str, count: int) -> list[str]:
        """Locals for the items of a sequence, which is seen to have `count` of them; `read` knows them."""
        items = [f"{expression}[{index}]" for index in range(count)]
        if count and not any(item in self._locals for item in items):
            for item in items:
                self._locals[item] = f"v{len(self._locals)}"
            self.lines.append(f"{', '.join(self._locals[item] for item in items)}, = {expression}")
        return [self.read(item) for item in items]

    def fresh(self, expression: str) -> str:
        """A new local variable for `expression`, never shared."""
        name = f"n{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def add(self, line: str) -> None:
        self.lines.append(line)

    def text(self, guarded: bool = False) -> str:
        """The function's source. `guarded`: any look-up error makes it return None."""
        head = f"def {self.name}({self.parameters}):"
        if not guarded:
            return "\n".join([head, *(f"    {line}" for line in self.lines or ["pass"])]) + "\n"
        body = "\n".join(f"        {line}" for line in self.lines or ["pass"])
        return f"{head}\n    try:\n{body}\n    except LOOKUP_ERRORS:\n        return None\n"

    def build(self, guarded: bool = False) -> Callable[..., Any]:
        """Compile the function; its text stays readable in tracebacks and debuggers."""
        self.namespace["LOOKUP_ERRORS"] = LOOKUP_ERRORS
        return compile_function(self.name, self.text(guarded), self.namespace)


class LazyWriter(Writer):
    """Writes a function whose reads may happen late: what is used once is read where it is used."""

    def __init__(self, name: str, parameters: str) -> None:
        super().__init__(name, parameters)
        self._expressions: dict[str, str] = {}

    def read(self, expression: str) -> str:
        """A mark that stands for a local variable or for the expression itself. No literal looks like it."""
        if expression.isidentifier() or expression in self._expressions:
            return expression
        found = self._locals.get(expression)
        if found is None:
            found = self._locals[expression] = f"\0{len(self._locals)}\0"
            self._expressions[found] = expression
            self.lines.append(found)
        return found

    def text(self, guarded: bool = False) -> str:
        marked = super().text(guarded)
        uses = Counter(MARK.findall(marked))
        for expression in self._expressions.values():
            uses.update(MARK.findall(expression))

        def resolve(found: re.Match[str]) -> str:
            mark = found[0]
            return write(mark) if uses[mark] == USED_ONCE else f"v{mark[1:-1]}"

        def write(mark: str) -> str:
            return MARK.sub(resolve, self._expressions[mark])

        lines = []
        for line in marked.splitlines():
            mark = line.strip(" ")
            if mark not in self._expressions:
                lines.append(MARK.sub(resolve, line))
            elif uses[mark] > USED_ONCE:
                lines.append(f"{line.replace(mark, '')}v{mark[1:-1]} = {write(mark)}")
        return "\n".join(lines) + "\n"


MARK = re.compile("\0[0-9]+\0")
USED_ONCE = 2
"""How often a mark occurs that has one use: there, and where it was made."""


def compile_function(name: str, text: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """The function `name` that `text` defines; `namespace` becomes its globals.

    Cells of a closure would each be copied on every call, which costs more with hundreds of constants.
    """
    forget_texts()
    file = f"<lamina {name} {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    function: Any = namespace.pop(name)
    # A traceback keeps the code alive, and so its lines.
    weakref.finalize(function.__code__, _dead.append, file).atexit = False
    return function  # type: ignore[no-any-return]


def forget_texts() -> None:
    """Drop the lines of functions that are gone.

    Not as they go: that may be during a collection of garbage, while somebody walks through the lines.
    """
    while _dead:
        linecache.cache.pop(_dead.popleft(), None)
