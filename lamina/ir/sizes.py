"""Sizes known at run time: integer expressions over named sizes that a pass computes with like with ints.

    s0, 8*s0 + 1, s0*s1, ((s0 - 3)//2)        polynomials over names and whole quotients, in one normal form

Equal expressions are one object. Sums, products, quotients and remainders are expressions again. A comparison
is decided by algebra where that is enough (names stand for sizes of at least `LEAST`). Where it is not, the
`Decisions` in force decide: for a program, as the sizes at hand have it, and what was decided becomes a
condition of the program. For a kernel, which serves all sizes, nothing is equal that is not known to be, and
an order that is not known is an error. So code written for ints is right for expressions as well, or fails
loudly. An expression is never an int: `int(size)` and `range(size)` raise `UndecidedSize`.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from lamina.errors import Unsupported

ANONYMOUS = "?"
"""The name of a size that text gives no name (`tensor<?xf32>`): equal to nothing but itself."""
LEAST = 2
"""0 and 1 decide about emptiness and broadcasting: sizes that vary are never either."""

Atom: TypeAlias = "str | Quotient"
Monomial: TypeAlias = tuple[Atom, ...]
"""Factors in order of their text, each as often as it occurs; empty for the constant."""
Terms: TypeAlias = dict[Monomial, int]


class UndecidedSize(Unsupported):
    """Something needs to know more of a size than that it is one."""

    def __init__(self, message: str) -> None:
        super().__init__("undecided-size", message)


@dataclass(frozen=True, slots=True)
class Quotient:
    """`dividend // divisor`, rounded down."""

    dividend: Size
    divisor: Size

    def __str__(self) -> str:
        divisor = self.divisor if isinstance(self.divisor, int) else f"({self.divisor})"
        return f"(({self.dividend})//{divisor})"


class SymbolicSize:
    """A size that is an expression. `get` reads one from text; arithmetic makes others."""

    __slots__ = ("name", "terms")
    _interned: ClassVar[dict[str, SymbolicSize]] = {}

    name: str
    """Its text, which `get` reads."""
    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def get(cls, text: str) -> SymbolicSize:
        """The expression of that text; what is no expression (`?`) is a name."""
        found = cls._interned.get(text)
        if found is not None:
            return found
        try:
            made = _read(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError):
            made = _make({(text,): 1})
        if isinstance(made, int):
            raise ValueError(f"{text} is a constant, not a symbolic size")
        return made

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return SymbolicSize.get, (self.name,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in it, in order of first occurrence."""
        found: dict[str, None] = {}
        for monomial, _ in self.terms:
            for atom in monomial:
                inside = (atom,) if isinstance(atom, str) else names_of((atom.dividend, atom.divisor))
                found.update(dict.fromkeys(inside))
        return tuple(found)

    def value(self, values: Mapping[str, int]) -> int:
        """What it is worth where each name has the value listed."""
        total = 0
        for monomial, factor in self.terms:
            for atom in monomial:
                factor *= (
                    values[atom]
                    if isinstance(atom, str)
                    else value_of(atom.dividend, values) // value_of(atom.divisor, values)
                )
            total += factor
        return total

    # arithmetic

    def __add__(self, other: Size) -> Size:
        if not isinstance(other, int | SymbolicSize):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _make(terms)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __rsub__(self, other: Size) -> Size:
        return -self + other

    def __mul__(self, other: Size) -> Size:
        if not isinstance(other, int | SymbolicSize):
            return NotImplemented
        terms: Terms = {}
        for left, a in self.terms:
            for right, b in _terms(other).items():
                monomial = tuple(sorted((*left, *right), key=str))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _make(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return _divide(self, other)

    def __rfloordiv__(self, other: int) -> Size:
        return _divide(other, self)

    def __mod__(self, other: Size) -> Size:
        return self - self // other * other

    def __rmod__(self, other: int) -> Size:
        return other - other // self * self

    def __abs__(self) -> Size:
        return -self if self < 0 else self

    # decisions

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, int | SymbolicSize) or ANONYMOUS in (self.name, str(other)):
            return False
        return decide("==", self - other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Size) -> bool:
        return decide("<", self - other)

    def __gt__(self, other: Size) -> bool:
        return decide("<", other - self)

    def __le__(self, other: Size) -> bool:
        return not decide("<", other - self)

    def __ge__(self, other: Size) -> bool:
        return not decide("<", self - other)

    def __bool__(self) -> bool:
        return not decide("==", self)

    def __index__(self) -> int:
        raise UndecidedSize(f"the size {self} is needed as a number")


Size: TypeAlias = int | SymbolicSize


def _terms(size: Size) -> Terms:
    return ({(): size} if size else {}) if isinstance(size, int) else dict(size.terms)


def _make(terms: Terms) -> Size:
    """The one object of a normal form; an int where no name is left."""
    kept = sorted(
        ((monomial, factor) for monomial, factor in terms.items() if factor),
        key=lambda term: (-len(term[0]), [str(atom) for atom in term[0]]),
    )
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    name = _text(kept)
    found = SymbolicSize._interned.get(name)
    if found is None:
        found = SymbolicSize.__new__(SymbolicSize)
        found.name, found.terms = name, tuple(kept)
        SymbolicSize._interned[name] = found
    return found


def _text(terms: Sequence[tuple[Monomial, int]]) -> str:
    text = ""
    for monomial, factor in terms:
        sign = "-" if factor < 0 else "+"
        parts = [str(abs(factor))] if abs(factor) != 1 or not monomial else []
        term = "*".join([*parts, *map(str, monomial)])
        text += f" {sign} {term}" if text else term if factor > 0 else f"-{term}"
    return text


def _divide(dividend: Size, divisor: Size) -> Size:
    """Rounded down: terms that the divisor divides come out whole, the rest is a quotient."""
    if isinstance(divisor, int) and divisor == 0:
        raise ZeroDivisionError
    whole: Terms = {}
    rest: Terms = {}
    for monomial, factor in _terms(dividend).items():
        part = _exact(monomial, factor, divisor)
        if part is None:
            rest[monomial] = factor
        else:
            whole[part[0]] = whole.get(part[0], 0) + part[1]
    left = _make(rest)
    if isinstance(left, int):
        if isinstance(divisor, int):
            return _make(whole) + left // divisor
        if left == 0 or (left > 0 and is_known_less(left, divisor)):
            return _make(whole)
        if left < 0 and is_known_less(-left - 1, divisor):
            return _make(whole) - 1
    if left is divisor:
        return _make(whole) + 1
    return _make(whole) + _make({(Quotient(left, divisor),): 1})


def _exact(monomial: Monomial, factor: int, divisor: Size) -> tuple[Monomial, int] | None:
    """A term divided by a constant or by a single term, where that is exact."""
    terms = list(_terms(divisor).items())
    if len(terms) != 1 or factor % terms[0][1]:
        return None
    left = list(monomial)
    for atom in terms[0][0]:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left), factor // terms[0][1]


def _read(node: ast.expr) -> Size:
    match node:
        case ast.Name(id=name):
            return _make({(name,): 1})
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand)
        case ast.BinOp(left=left, op=op, right=right):
            operation = _OPERATIONS.get(type(op))
            if operation is not None:
                return operation(_read(left), _read(right))
    raise ValueError("not an expression over sizes")


_OPERATIONS: dict[type[ast.operator], Callable[[Size, Size], Size]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def value_of(size: Size, values: Mapping[str, int]) -> int:
    """A size as a number."""
    return size if isinstance(size, int) else size.value(values)


def names_of(sizes: Sequence[Size]) -> tuple[str, ...]:
    """The names in some sizes, in order of first occurrence."""
    symbolic = [size for size in sizes if isinstance(size, SymbolicSize)]
    return tuple(dict.fromkeys(name for size in symbolic for name in size.names))


def has_quotient(size: SymbolicSize) -> bool:
    """Whether a quotient is among the factors of its terms."""
    return any(isinstance(atom, Quotient) for monomial, _ in size.terms for atom in monomial)


def is_static(sizes: Sequence[Size]) -> bool:
    """Whether all sizes are numbers."""
    return all(isinstance(size, int) for size in sizes)


# decisions


@dataclass(frozen=True, slots=True)
class Condition:
    """`difference relation 0`, where relation is one of `==`, `!=`, `<`, `>=`."""

    difference: SymbolicSize
    relation: str

    def __str__(self) -> str:
        return f"{self.difference} {self.relation} 0"

    @staticmethod
    def read(text: str) -> Condition:
        """What `str` wrote."""
        difference, relation, _ = text.rsplit(" ", 2)
        return Condition(SymbolicSize.get(difference), relation)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is true where each name has the value listed."""
        return _RELATIONS[self.relation](self.difference.value(values))


_RELATIONS: dict[str, Callable[[int], bool]] = {
    "==": lambda value: value == 0,
    "!=": lambda value: value != 0,
    "<": lambda value: value < 0,
    ">=": lambda value: value >= 0,
}
_OPPOSITE = {"==": "!=", "<": ">="}


@dataclass(slots=True)
class Decisions:
    """What decides where algebra does not: `hints`, the sizes at hand; None: nothing does.

    `conditions`: what was decided by hints, for the program to be used under these conditions only. Without
    hints two sizes are taken for different unless they are known to be equal: right where equality only
    allows something better.
    """

    hints: Mapping[str, int] | None
    conditions: dict[Condition, None] = field(default_factory=dict)

    def decide(self, relation: str, difference: SymbolicSize) -> bool:
        if self.hints is None and relation == "==":
            return False
        if self.hints is None or any(name not in self.hints for name in difference.names):
            raise UndecidedSize(f"whether {difference} {relation} 0 differs from size to size")
        holds = Condition(difference, relation).holds(self.hints)
        self.conditions[Condition(difference, relation if holds else _OPPOSITE[relation])] = None
        return holds


NOTHING = Decisions(None)
_current: ContextVar[Decisions] = ContextVar("decisions", default=NOTHING)


@contextlib.contextmanager
def deciding(decisions: Decisions) -> Iterator[Decisions]:
    """Comparisons of sizes inside are decided by `decisions`."""
    token = _current.set(decisions)
    try:
        yield decisions
    finally:
        _current.reset(token)


def decide(relation: str, difference: Size) -> bool:
    """Whether `difference relation 0`; relation is `==` or `<`."""
    known = known_relation(relation, difference)
    if known is not None:
        return known
    assert isinstance(difference, SymbolicSize)
    return _current.get().decide(relation, difference)


def known_relation(relation: str, difference: Size) -> bool | None:
    """What algebra knows of `difference relation 0`; None when it depends on the sizes."""
    if isinstance(difference, int):
        return _RELATIONS[relation](difference)
    low, high = lower_bound(difference), upper_bound(difference)
    if relation == "==":
        return False if (low is not None and low > 0) or (high is not None and high < 0) else None
    if high is not None and high < 0:
        return True
    return False if low is not None and low >= 0 else None


def is_known_equal(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for all values of their names."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return known_relation("==", a - b) is True or a is b


def is_known_less(a: Size, b: Size) -> bool:
    """Whether `a < b` for all values of their names."""
    return known_relation("<", a - b) is True


def is_known_multiple(size: Size, of: Size) -> bool:
    """Whether `size` is a multiple for all values of their names."""
    rest = size % of
    return isinstance(rest, int) and not rest


def hint(size: Size) -> int:
    """The size at hand, for costs: nothing is taken for granted by it. Without one, a typical size."""
    if isinstance(size, int):
        return size
    hints = _current.get().hints
    return size.value(hints if hints is not None else dict.fromkeys(size.names, TYPICAL))


TYPICAL = 4096
"""What costs reckon with where no size is at hand."""


def lower_bound(size: Size) -> int | None:
    """A number that the size is never below; None when none is known.

    With each name as `LEAST` plus something not negative: no negative factors are left, or nothing is known.
    """
    if isinstance(size, int):
        return size
    shifted: Terms = {}
    for monomial, factor in size.terms:
        parts: Terms = {(): factor}
        for atom in monomial:
            least = LEAST if isinstance(atom, str) else _least_quotient(atom)
            if atom == ANONYMOUS or least is None:
                return None
            spread: Terms = {}
            for left, value in parts.items():
                more = (*left, atom)
                spread[more] = spread.get(more, 0) + value
                spread[left] = spread.get(left, 0) + value * least
            parts = spread
        for left, value in parts.items():
            key = tuple(sorted(left, key=str))
            shifted[key] = shifted.get(key, 0) + value
    constant = shifted.pop((), 0)
    return constant if all(value >= 0 for value in shifted.values()) else None


def _least_quotient(quotient: Quotient) -> int | None:
    least = lower_bound(quotient.dividend)
    if least is None:
        return None
    if isinstance(quotient.divisor, int):
        return least // quotient.divisor if quotient.divisor > 0 else None
    return 0 if least >= 0 and (lower_bound(quotient.divisor) or 0) > 0 else None


def upper_bound(size: Size) -> int | None:
    """A number that the size is never above; None when none is known."""
    least = lower_bound(-size)
    return None if least is None else -least
