"""Sizes of a kernel that are known at run time, as values: its last arguments, and what follows from them.

8*s0 + 1      =>      %0 = arith.muli %s0, 8;  %1 = arith.addi %0, 1
"""

from __future__ import annotations

from collections.abc import Mapping

from lamina.ir.attributes import IntegerAttr, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.sizes import Quotient, Size
from lamina.ir.types import index

ATTRIBUTE = "lamina.sizes"
"""On a kernel function: the names of its sizes, in the order of its last arguments."""


def size_names(function: Operation) -> list[str]:
    """The names of the sizes that a kernel function takes."""
    found = function.attributes.get(ATTRIBUTE)
    return [] if found is None else list(plain(found))


class SizeValues:
    """Builds the value of each size once, at `builder`. `names`: the arguments that hold the named ones."""

    def __init__(self, builder: Builder, names: Mapping[str, Value]) -> None:
        self.builder = builder
        self.names = names
        self._made: dict[Size, Value] = {}

    def __call__(self, size: Size) -> Value:
        found = self._made.get(size)
        if found is None:
            found = self._made[size] = self._build(size)
        return found

    def _build(self, size: Size) -> Value:
        if isinstance(size, int):
            return self.builder.value("arith.constant", (), index, {"value": IntegerAttr(size, index)})
        total: Value | None = None
        for monomial, factor in size.terms:
            term: Value | None = None if factor != 1 or not monomial else self._atom(monomial[0])
            rest = monomial[1:] if term is not None else monomial
            if term is None:
                term = self(factor)
            for atom in rest:
                term = self._apply("arith.muli", term, self._atom(atom))
            total = term if total is None else self._apply("arith.addi", total, term)
        assert total is not None
        return total

    def _atom(self, atom: str | Quotient) -> Value:
        if isinstance(atom, str):
            return self.names[atom]
        return self._apply("arith.floordivsi", self(atom.dividend), self(atom.divisor))

    def _apply(self, name: str, left: Value, right: Value) -> Value:
        return self.builder.value(name, (left, right), index)
