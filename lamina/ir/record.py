"""The record that describes an operation: one a kind of operation, read by every part of the compiler.

Shape rule, NumPy meaning (the oracle of every back end), traits, attributes it must have, torch names
it comes from. The lists of records are in `lamina.ir.ops`, one file a dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.ir.attributes import Attribute
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.types import Type

PURE = "pure"
"""No side effect and the result depends on the operands alone: may be removed, merged, moved."""
ELEMENTWISE = "elementwise"
"""Works on scalars, and element by element on tensors and vectors of one shape."""
COMMUTATIVE = "commutative"
CONSTANT = "constant"
TERMINATOR = "terminator"
ISOLATED = "isolated"
"""Regions do not see values from outside."""
SYMBOL = "symbol"
SYMBOL_TABLE = "symbol_table"
READS = "reads"
WRITES = "writes"
"""Reads or writes memory that is an operand."""
RANDOM = "random"
"""Draws from a random number generator: keeps its order, is never merged nor removed."""

Infer = Callable[[Sequence[Type], Mapping[str, Attribute]], tuple[Type, ...]]
Meaning = Callable[..., Any]
Expand = Callable[[Builder, Sequence[Value]], Value]


@dataclass(frozen=True, slots=True)
class OpRecord:
    """What is true of every operation called `name`.

    `operands` and `results` are counts, None for any number. `infer` gives the result types from the
    operand types and attributes. `meaning` takes NumPy arrays (and the operation's plain attributes as
    keywords) and gives an array or a tuple of arrays. `expand` spells an elementwise operation in terms
    of others, for back ends that lack it. `verify` raises ValueError with what is wrong. `implied`
    attributes say nothing new here, yet MLIR wants them: text has them, operations do not.
    """

    name: str
    operands: int | None = None
    results: int | None = 1
    traits: frozenset[str] = frozenset()
    attributes: tuple[str, ...] = ()
    regions: int = 0
    infer: Infer | None = None
    meaning: Meaning | None = None
    torch: tuple[str, ...] = ()
    expand: Expand | None = None
    verify: Callable[[Operation], None] | None = None
    optional: tuple[str, ...] = field(default=())
    implied: tuple[tuple[str, Attribute], ...] = ()

    @property
    def dialect(self) -> str:
        return self.name.split(".", 1)[0]

    def has(self, trait: str) -> bool:
        return trait in self.traits
