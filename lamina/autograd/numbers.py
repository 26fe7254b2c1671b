"""Floats that differ from call to call, as a program for all of them sees them: names and conditions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lamina.eager.errors import LARGEST_WIDE

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""Of finite numbers: for others there is no program for all."""


@dataclass(frozen=True, slots=True)
class NumberInput:
    """A float that varies: input number `position`, torch's symbol for it, and its value at hand."""

    position: int
    symbol: Any
    hint: float

    @property
    def name(self) -> str:
        return number_name(self.position)


@dataclass(frozen=True, slots=True)
class NumberCondition:
    """What a program takes for granted of numbers that vary: `left relation right`, names or constants."""

    left: str | float
    relation: str
    right: str | float

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether it is so for the numbers with these names."""
        left, right = (values[each] if isinstance(each, str) else each for each in (self.left, self.right))
        return RELATIONS[self.relation](left, right)


def number_name(position: int) -> str:
    """What conditions call the number among the inputs at `position`."""
    return f"n{position}"


def is_ordinary(number: float) -> bool:
    """Whether a program for all numbers may serve this one."""
    return math.isfinite(number) and abs(number) <= LARGEST_WIDE
