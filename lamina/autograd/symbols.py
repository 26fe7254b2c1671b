"""torch's symbolic sizes as the IR's: what a trace on fakes of open sizes says in sympy, in our expressions.

The one place that looks into torch's expressions (`SymInt.node.expr`) and shape environment.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from lamina.autograd.numbers import OPPOSITE, NumberCondition, NumberInput
from lamina.ir.sizes import LEAST, Condition, Size, SymbolicSize, UndecidedSize, has_quotient, known_relation

Make = Callable[..., Size]
OPERATIONS: dict[str, Make] = {
    "Add": lambda *terms: sum(terms[1:], terms[0]),
    "Mul": lambda *factors: math.prod(factors[1:], start=factors[0]),
    "Pow": lambda base, exponent: math.prod([base] * _whole(exponent)),
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "IntTrueDiv": lambda a, b: _exact(a, b),
    "CeilToInt": lambda a: a,
    "PythonMod": lambda a, b: a % b,
    "Mod": lambda a, b: a % b,
    "ModularIndexing": lambda a, b, c: a // b % c,
}
"""By the name of the class in sympy, or in torch's functions beside it."""
RELATIONS = {
    "Equality": ("==", 1),
    "Unequality": ("!=", 1),
    "StrictLessThan": ("<", 1),
    "GreaterThan": (">=", 1),
    "StrictGreaterThan": ("<", -1),
    "LessThan": (">=", -1),
}
"""Our relation to 0 of the difference of both sides, times the sign."""
NUMBER_RELATIONS = {
    "Unequality": "!=",
    "StrictLessThan": "<",
    "LessThan": "<=",
    "StrictGreaterThan": ">",
    "GreaterThan": ">=",
}
"""Not equality: a number that is one number only is none that varies."""


class OpenSizes:
    """The symbols of one trace: `names` from torch's to ours, `hints` the sizes at hand by our names.

    numbers: the floats that vary, by torch's names; `number_conditions`: what is taken for granted of them.

    A sum with a quotient in it, such as the size of a convolution's result, gets a name of its own in
    `derived`: products of such sizes stay products.
    """

    def __init__(
        self,
        environment: Any = None,
        names: Mapping[str, str] | None = None,
        hints: Mapping[str, int] | None = None,
        numbers: Mapping[str, NumberInput] | None = None,
    ) -> None:
        self.environment = environment
        self.numbers = dict(numbers or {})
        self.number_conditions: dict[NumberCondition, None] = {}
        self.names = dict(names or {})
        self.hints = dict(hints or {})
        self.derived: dict[str, SymbolicSize] = {}
        self.quotients: dict[SymbolicSize, None] = {}
        """Sizes that are a quotient, which need no name."""
        self.taken: dict[Condition, None] = {}

    def read(self, size: Any) -> Any:
        """A size as the IR has it; anything that is no symbolic int stays as it is."""
        if isinstance(size, torch.SymInt):
            found = self.expression(size.node.expr)
            if isinstance(found, SymbolicSize) and len(found.terms) == 1 and has_quotient(found):
                self.quotients[found] = None
            return found
        if isinstance(size, torch.SymFloat | torch.SymBool):
            raise UndecidedSize(f"a number computed from sizes or numbers that vary ({size}) is needed")
        return size

    def symbolic_numbers(self) -> dict[int, Any]:
        """torch's symbols for the floats that vary, by the positions of these among the inputs."""
        return {each.position: each.symbol for each in self.numbers.values()}

    def find_number(self, number: torch.SymFloat) -> NumberInput | None:
        """The input that a symbolic float is; None for what is computed."""
        expression = number.node.expr
        return self.numbers.get(str(expression)) if expression.is_Symbol else None

    def read_all(self, sizes: Iterable[Any]) -> tuple[Any, ...]:
        """Several sizes or strides."""
        return tuple(size if type(size) is int else self.read(size) for size in sizes)

    def name_in_order(self, values: Iterable[Any]) -> None:
        """Let derived sizes of tensors have their names in this order: an image's, then the padded one's."""
        if self.environment is None:
            return
        for value in values:
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, torch.Tensor):
                    with contextlib.suppress(UndecidedSize):
                        self.read_all(each.shape)

    def expression(self, expression: Any) -> Size:
        """An integer expression of sympy."""
        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol:
            name = self.names.get(str(expression))
            if name is None:
                raise UndecidedSize(f"the size {expression} depends on tensor data")
            return SymbolicSize.get(name)
        name = type(expression).__name__
        if name in ("Max", "Min"):
            return self._extreme(name, [self.expression(each) for each in expression.args])
        made = OPERATIONS.get(name)
        if made is None:
            raise UndecidedSize(f"the size {expression} is not a polynomial")
        size = made(*map(self.expression, expression.args))
        if isinstance(size, SymbolicSize) and len(size.terms) > 1 and has_quotient(size):
            return self._name(size)
        return size

    def _extreme(self, name: str, sizes: list[Size]) -> Size:
        """The largest or smallest of some sizes: which it is, the sizes at hand tell, as a condition."""
        best = sizes[0]
        for size in sizes[1:]:
            difference = best - size if name == "Max" else size - best
            is_other = known_relation("<", difference)
            if is_other is None and isinstance(difference, SymbolicSize):
                is_other = difference.value(self.hints) < 0
                self.taken[Condition(difference, "<" if is_other else ">=")] = None
            best = size if is_other else best
        return best

    def _name(self, size: SymbolicSize) -> Size:
        """The name of a derived size; the size itself where it is too small to be one.

        One that differs from a known one by a constant, as a padded size does, is that one and the constant.
        """
        for name, known in self.derived.items():
            difference = size - known
            if not isinstance(difference, SymbolicSize):
                return SymbolicSize.get(name) + difference
        if any(not isinstance(size - known, SymbolicSize) for known in self.quotients):
            return size
        value = size.value(self.hints)
        if value < LEAST:
            return size
        name = f"d{len(self.derived)}"
        self.derived[name] = size
        self.hints[name] = value
        return SymbolicSize.get(name)

    def dispatching(self) -> AbstractContextManager[Any]:
        """The context to trace in: torch prefers its rules in Python, which know symbolic sizes."""
        if self.environment is None:
            return contextlib.nullcontext()
        from torch._dispatch.python import enable_python_dispatcher

        return enable_python_dispatcher()

    def check(self, operation: object) -> None:
        """Raise UndecidedSize where `operation`, traced last, made a size the number that it is now."""
        if self.environment is None:
            return
        for symbol, value in self.environment.replacements.items():
            name = getattr(operation, "__name__", operation)
            if value.is_Integer and str(symbol) in self.names:
                raise UndecidedSize(f"{name} needs to know the size {self.names[str(symbol)]}")
            if str(symbol) in self.numbers:
                raise UndecidedSize(f"{name} needs to know a number that varies")

    def conditions(self) -> list[Condition]:
        """What the trace took for granted of the sizes, beyond that each is at least `LEAST`."""
        if self.environment is None:
            return []
        found = dict(self.taken)
        for size in self.derived.values():
            # A name is taken to be at least `LEAST`.
            above = size - LEAST
            if isinstance(above, SymbolicSize):
                found[Condition(above, ">=")] = None
        for guard in self.environment.guards:
            if any(str(symbol) in self.numbers for symbol in guard.expr.free_symbols):
                self._note_number_conditions(guard.expr)
            else:
                found.update(dict.fromkeys(self._condition(guard.expr)))
        for symbol, value in self.environment.replacements.items():
            difference = self._symbol(symbol) - self.expression(value)
            if isinstance(difference, SymbolicSize):
                found[Condition(difference, "==")] = None
        return list(found)

    def _note_number_conditions(self, expression: Any) -> None:
        name = type(expression).__name__
        if name == "And":
            for part in expression.args:
                self._note_number_conditions(part)
            return
        if name not in NUMBER_RELATIONS:
            raise UndecidedSize(f"{expression} depends on numbers that vary")
        left, right = map(self._number_operand, expression.args)
        self.number_conditions[NumberCondition(left, NUMBER_RELATIONS[name], right)] = None

    def _number_operand(self, expression: Any) -> str | float:
        """A side of a comparison: the name of a number that varies, or a constant."""
        if expression.is_Symbol and str(expression) in self.numbers:
            return self.numbers[str(expression)].name
        if expression.is_number:
            return float(expression)
        raise UndecidedSize(f"{expression} is computed from numbers that vary")

    def _symbol(self, symbol: Any) -> Size:
        return SymbolicSize.get(self.names[str(symbol)]) if str(symbol) in self.names else 0

    def _condition(self, expression: Any, is_negated: bool = False) -> list[Condition]:
        name = type(expression).__name__
        if name in ("BooleanTrue", "BooleanFalse"):
            return []
        if name == "Not":
            return self._condition(expression.args[0], not is_negated)
        if name == "And" and not is_negated:
            return [each for part in expression.args for each in self._condition(part)]
        if name not in RELATIONS:
            raise UndecidedSize(f"what holds of the sizes is not a comparison: {expression}")
        relation, sign = RELATIONS[name]
        relation = OPPOSITE[relation] if is_negated else relation
        left, right = map(self.expression, expression.args)
        difference = (left - right) * sign
        if isinstance(difference, int) or _is_known(relation, difference):
            return []
        return [Condition(difference, relation)]


def _is_known(relation: str, difference: SymbolicSize) -> bool:
    is_negated = relation in ("!=", ">=")
    known = known_relation(OPPOSITE[relation] if is_negated else relation, difference)
    return known is not None and known != is_negated


def _whole(exponent: Size) -> int:
    if isinstance(exponent, int) and exponent >= 0:
        return exponent
    raise UndecidedSize("a size to the power of a size")


def _exact(a: Size, b: Size) -> Size:
    if isinstance(a % b, int) and a % b == 0:
        return a // b
    raise UndecidedSize(f"the quotient of {a} and {b} may not be whole")


STATIC = OpenSizes()
"""For traces on sizes that are all known."""
