"""Numbers that only the running graph knows: `.item()`, sizes that depend on values. What arithmetic gives.

    n = mask.sum().item()        an int without a value
    torch.zeros(2 * n + 1)       its arithmetic goes into the graph
    if n > 3:                    asks for the value: a graph break

An operation stays in the graph where the class of its result follows from the classes of its operands.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

Native = Callable[..., Any]
ARITHMETIC: frozenset[Native] = frozenset({operator.add, operator.sub, operator.mul})
DIVISIONS: frozenset[Native] = frozenset({operator.floordiv, operator.mod})
COMPARISONS: frozenset[Native] = frozenset(
    {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}
)
LOGIC: frozenset[Native] = frozenset({operator.and_, operator.or_, operator.xor})
SIGNS: frozenset[Native] = frozenset({operator.neg, operator.pos, abs})
ROUNDINGS: frozenset[Native] = frozenset({int, math.trunc, math.floor, math.ceil})
FLOAT_FUNCTIONS: frozenset[Native] = frozenset(
    {float, math.sqrt, math.exp, math.log, math.log2, math.log10, math.sin, math.cos, math.tanh}
)
NEVER_RAISES = ARITHMETIC | COMPARISONS | LOGIC | SIGNS | {min, max}


class Unknown:
    """Takes the place of this call's value of a number.

    read: which of the trace's reads of a tensor's values it is, -1 for what follows from others.
    """

    __slots__ = ("kind", "read")

    def __init__(self, kind: type, read: int = -1) -> None:
        self.kind = kind
        self.read = read


def kind_of_result(native: Native, kinds: tuple[type, ...], operands: tuple[Any, ...]) -> type | None:
    """The class of `native(*operands)`, if it is the same whatever the unknown values are, else None."""
    if native in COMPARISONS:
        return bool
    if native in LOGIC:
        return bool if set(kinds) == {bool} else None if float in kinds else int
    if native in (min, max):
        return kinds[0] if len(set(kinds)) == 1 else None
    if native in FLOAT_FUNCTIONS:
        return float
    if native in ROUNDINGS:
        return int
    if native in SIGNS or native in ARITHMETIC or native in DIVISIONS:
        return float if float in kinds else int
    if native is operator.truediv:
        return float
    if native is operator.invert:
        return int if kinds == (int,) else None
    if native is operator.pow and type(operands[1]) is int and operands[1] >= 0:
        return float if kinds[0] is float else int
    return None


def may_raise(native: Native, kinds: tuple[type, ...], operands: tuple[Any, ...]) -> bool:
    """Whether `native(*operands)` raises for some values."""
    if native in NEVER_RAISES or (native in ROUNDINGS and kinds[0] is not float):
        return False
    is_division = native in DIVISIONS or native is operator.truediv
    return not (is_division and type(operands[1]) is int and operands[1] != 0 and float not in kinds)
