"""What scalar operations cost, in additions: coarse weights that schedules compare."""

from __future__ import annotations

from collections.abc import Iterable

EXPENSIVE = 12
"""An elementary function (its polynomial has about so many steps)."""
MOST_LANES = 16
"""Vectors that are turned at once where a tile is transposed: more would not fit into registers."""
CHEAP_MATH = frozenset(
    f"math.{name}"
    for name in (
        "absf", "absi", "ceil", "floor", "trunc", "roundeven", "fma", "copysign", "isnan", "isinf",
        "isfinite",
    )
)  # fmt: skip
SLOW = frozenset(
    {"arith.divf", "arith.remf", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui",
     "arith.floordivsi", "math.sqrt", "math.rsqrt"}
)  # fmt: skip
FREE = frozenset({"arith.constant", "linalg.index", "linalg.yield"})


def operation_cost(name: str) -> int:
    if name in FREE:
        return 0
    if name in SLOW:
        return 4
    if name.startswith("math.") and name not in CHEAP_MATH:
        return EXPENSIVE
    return 1


def body_cost(names: Iterable[str]) -> int:
    return sum(map(operation_cost, names))
