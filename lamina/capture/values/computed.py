"""Ints that Python computes of numbers that vary where torch's algebra of sizes has no word for it: `2 ** k`.

Such a number is an input of the graph, as its operands are: it is computed before the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lamina.capture.generated import Writer
from lamina.capture.sources import Source


@dataclass(frozen=True, slots=True)
class Computed(Source):
    """`native(*operands)`. write: its text, in a function over the call's arguments."""

    native: Callable[..., Any]
    operands: tuple[Any, ...]
    write: Callable[[Writer], str]

    @property
    def is_fixed(self) -> bool:
        return False

    def expression(self, writer: Writer) -> str:
        return writer.read(self.write(writer))

    def describe(self) -> str:
        return f"{self.native.__name__} of numbers"

    @property
    def key(self) -> Any:
        # A number that varies is one object; constants are told apart by class as well.
        return ("computed", self.native, tuple((type(each), id(each)) for each in self.operands))
