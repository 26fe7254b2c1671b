"""Numbers among an operation's arguments that differ from call to call.

    x.clamp(max=k)      k: an f64 tensor of no dimensions, among the program's inputs

Arithmetic on such a number is done in f64, as Python does it. What a lowering asks of its value is answered
for the number at hand, and the answer becomes a condition of the program: `k == 2` for x ** 2, `k != 1` for
an alpha that is multiplied by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamina.autograd.numbers import OPPOSITE, RELATIONS, NumberCondition
from lamina.ir import types
from lamina.ir.core import Value
from lamina.ir.sizes import SymbolicSize, UndecidedSize

if TYPE_CHECKING:
    from lamina.autograd.lower.emitter import Emitter


class Decided:
    """A number that varies, and where answers about its value are noted."""

    __slots__ = ("conditions", "hint", "name")

    def __init__(self, name: str, hint: float, conditions: dict[NumberCondition, None]) -> None:
        self.name = name
        self.hint = hint
        self.conditions = conditions

    def decide(self, relation: str, other: float) -> bool:
        """`number relation other`, for the number at hand."""
        outcome = RELATIONS[relation](self.hint, other)
        taken = relation if outcome else OPPOSITE[relation]
        self.conditions[NumberCondition(self.name, taken, float(other))] = None
        return outcome


class OpenNumber:
    """A float whose value only the call knows. value: it, as f64 without dimensions.

    decided: what answers questions about it; None for a number computed of others, of which nothing is known:
    to ask raises UndecidedSize.
    """

    __slots__ = ("decided", "emitter", "value")

    def __init__(self, emitter: Emitter, value: Value, decided: Decided | None = None) -> None:
        self.emitter = emitter
        self.value = value
        self.decided = decided

    def _combine(self, name: str, left: Any, right: Any) -> OpenNumber:
        operands = [
            each.value if isinstance(each, OpenNumber) else self.emitter.constant(float(each), (), types.f64)
            for each in (left, right)
        ]
        return OpenNumber(self.emitter, self.emitter.op(name, *operands))

    def __neg__(self) -> OpenNumber:
        return OpenNumber(self.emitter, self.emitter.op("arith.negf", self.value))

    def __mul__(self, other: Any) -> OpenNumber:
        return self._combine("arith.mulf", self, other)

    __rmul__ = __mul__

    def __rtruediv__(self, other: float) -> OpenNumber:
        if self == 0:
            raise UndecidedSize("a number that varies is 0, and a divisor")
        return self._combine("arith.divf", other, self)

    def _decide(self, relation: str, other: Any) -> bool:
        if self.decided is None or type(other) not in (int, float):
            raise UndecidedSize("an operation needs to know a number that varies")
        return self.decided.decide(relation, other)

    def __eq__(self, other: object) -> bool:
        return self._decide("==", other)

    def __ne__(self, other: object) -> bool:
        return self._decide("!=", other)

    def __lt__(self, other: float) -> bool:
        return self._decide("<", other)

    def __le__(self, other: float) -> bool:
        return self._decide("<=", other)

    def __gt__(self, other: float) -> bool:
        return self._decide(">", other)

    def __ge__(self, other: float) -> bool:
        return self._decide(">=", other)

    def __bool__(self) -> bool:
        return self._decide("!=", 0)

    def _refuse(self, *_: Any) -> Any:
        raise UndecidedSize("an operation needs to know a number that varies")

    __float__ = __int__ = __index__ = __complex__ = __round__ = __abs__ = __trunc__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __truediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def as_float(emitter: Emitter, number: Any) -> Any:
    """A number argument as a float to compute with: a constant, or one that the call knows."""
    if isinstance(number, OpenNumber):
        return number
    if isinstance(number, SymbolicSize):
        return OpenNumber(emitter, emitter.constant(number, (), types.f64))
    return float(number)
