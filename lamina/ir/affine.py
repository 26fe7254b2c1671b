"""Affine expressions and maps: `(d0, d1)[s0] -> (d0 * 4 + d1, d1 mod 2)`.

Expressions are tuples-in-classes, built with Python operators and simplified as they are built.
`//` is floordiv and `%` is mod with a positive divisor (both round towards minus infinity).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class AffineExpr:
    """An expression over dimensions and symbols."""

    __slots__ = ()

    def __add__(self, other: AffineExpr | int) -> AffineExpr:
        return add(self, wrap(other))

    def __radd__(self, other: int) -> AffineExpr:
        return add(wrap(other), self)

    def __sub__(self, other: AffineExpr | int) -> AffineExpr:
        return add(self, multiply(wrap(other), Constant(-1)))

    def __mul__(self, other: AffineExpr | int) -> AffineExpr:
        return multiply(self, wrap(other))

    def __rmul__(self, other: int) -> AffineExpr:
        return multiply(self, wrap(other))

    def __floordiv__(self, other: int) -> AffineExpr:
        return divide(self, other)

    def __mod__(self, other: int) -> AffineExpr:
        return modulo(self, other)


@dataclass(frozen=True, slots=True)
class Dim(AffineExpr):
    position: int

    def __str__(self) -> str:
        return f"d{self.position}"


@dataclass(frozen=True, slots=True)
class Sym(AffineExpr):
    position: int

    def __str__(self) -> str:
        return f"s{self.position}"


@dataclass(frozen=True, slots=True)
class Constant(AffineExpr):
    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Binary(AffineExpr):
    """`kind` is one of `+ * floordiv ceildiv mod`."""

    kind: str
    left: AffineExpr
    right: AffineExpr

    def __str__(self) -> str:
        left, right = str(self.left), str(self.right)
        if self.kind == "+":
            return f"{left}{_addend(self.right)}"
        if isinstance(self.left, Binary) and (self.left.kind == "+" or self.kind != "*"):
            left = f"({left})"
        if isinstance(self.right, Binary):
            right = f"({right})"
        return f"{left} {self.kind} {right}"


def _addend(expr: AffineExpr) -> str:
    """An expression as it follows another in a sum: ` + d0`, ` - 4`."""
    match expr:
        case Constant(value) if value < 0:
            return f" - {-value}"
        case Binary("*", left, Constant(-1)) if not isinstance(left, Binary):
            return f" - {left}"
        case Binary("+"):
            return f" + ({expr})"
    return f" + {expr}"


def wrap(value: AffineExpr | int) -> AffineExpr:
    return Constant(value) if isinstance(value, int) else value


def add(left: AffineExpr, right: AffineExpr) -> AffineExpr:
    if isinstance(left, Constant):
        if isinstance(right, Constant):
            return Constant(left.value + right.value)
        left, right = right, left
    if isinstance(right, Constant):
        if right.value == 0:
            return left
        if isinstance(left, Binary) and left.kind == "+" and isinstance(left.right, Constant):
            return add(left.left, Constant(left.right.value + right.value))
    return Binary("+", left, right)


def multiply(left: AffineExpr, right: AffineExpr) -> AffineExpr:
    if isinstance(left, Constant):
        left, right = right, left
    if not isinstance(right, Constant):
        return Binary("*", left, right)
    if isinstance(left, Constant):
        return Constant(left.value * right.value)
    if right.value == 1:
        return left
    if right.value == 0:
        return right
    if isinstance(left, Binary):
        if left.kind == "*" and isinstance(left.right, Constant):
            return multiply(left.left, Constant(left.right.value * right.value))
        if left.kind == "+":
            return add(multiply(left.left, right), multiply(left.right, right))
    return Binary("*", left, right)


def _factor_of(expr: AffineExpr) -> int:
    """The constant that an expression is multiplied by; 1 when there is none."""
    if isinstance(expr, Binary) and expr.kind == "*" and isinstance(expr.right, Constant):
        return expr.right.value
    return 1


def divide(left: AffineExpr, divisor: int) -> AffineExpr:
    if divisor <= 0:
        raise ValueError(f"floordiv by {divisor}")
    if divisor == 1:
        return left
    if isinstance(left, Constant):
        return Constant(left.value // divisor)
    factor = _factor_of(left)
    if factor % divisor == 0 and isinstance(left, Binary):
        return multiply(left.left, Constant(factor // divisor))
    return Binary("floordiv", left, Constant(divisor))


def modulo(left: AffineExpr, divisor: int) -> AffineExpr:
    if divisor <= 0:
        raise ValueError(f"mod by {divisor}")
    if divisor == 1:
        return Constant(0)
    if isinstance(left, Constant):
        return Constant(left.value % divisor)
    if _factor_of(left) % divisor == 0:
        return Constant(0)
    return Binary("mod", left, Constant(divisor))


def evaluate(expr: AffineExpr, dims: Sequence[int], symbols: Sequence[int] = ()) -> int:
    """The value of an expression for given dimensions and symbols (NumPy arrays work as well)."""
    match expr:
        case Constant(value):
            return value
        case Dim(position):
            return dims[position]
        case Sym(position):
            return symbols[position]
        case Binary(kind, left, right):
            a, b = evaluate(left, dims, symbols), evaluate(right, dims, symbols)
            return {
                "+": lambda: a + b,
                "*": lambda: a * b,
                "floordiv": lambda: a // b,
                "ceildiv": lambda: -(-a // b),
                "mod": lambda: a % b,
            }[kind]()
    raise TypeError(expr)


def substitute(
    expr: AffineExpr, dim: Callable[[int], AffineExpr], symbol: Callable[[int], AffineExpr] = Sym
) -> AffineExpr:
    """Replace every dimension and symbol, simplifying on the way."""
    match expr:
        case Constant():
            return expr
        case Dim(position):
            return dim(position)
        case Sym(position):
            return symbol(position)
        case Binary(kind, left, right):
            a, b = substitute(left, dim, symbol), substitute(right, dim, symbol)
            if kind == "+":
                return add(a, b)
            if kind == "*":
                return multiply(a, b)
            if isinstance(b, Constant) and kind == "floordiv":
                return divide(a, b.value)
            if isinstance(b, Constant) and kind == "mod":
                return modulo(a, b.value)
            return Binary(kind, a, b)
    raise TypeError(expr)


def dims_of(expr: AffineExpr) -> frozenset[int]:
    """Positions of the dimensions an expression mentions."""
    match expr:
        case Dim(position):
            return frozenset({position})
        case Binary(_, left, right):
            return dims_of(left) | dims_of(right)
    return frozenset()


def linear_form(expr: AffineExpr) -> tuple[dict[int, int], int] | None:
    """`({dim: coefficient}, constant)` when the expression is linear in dimensions; None otherwise."""
    match expr:
        case Constant(value):
            return {}, value
        case Dim(position):
            return {position: 1}, 0
        case Binary("+", left, right):
            a, b = linear_form(left), linear_form(right)
            if a is None or b is None:
                return None
            coefficients = dict(a[0])
            for position, coefficient in b[0].items():
                coefficients[position] = coefficients.get(position, 0) + coefficient
            return coefficients, a[1] + b[1]
        case Binary("*", left, Constant(factor)):
            form = linear_form(left)
            return None if form is None else ({p: c * factor for p, c in form[0].items()}, form[1] * factor)
    return None


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`(d0, ..., dn)[s0, ..., sm] -> (results)`."""

    dims: int
    symbols: int
    results: tuple[AffineExpr, ...]

    @staticmethod
    def identity(rank: int) -> AffineMap:
        return AffineMap(rank, 0, tuple(Dim(k) for k in range(rank)))

    @staticmethod
    def select(rank: int, positions: Sequence[int]) -> AffineMap:
        """Results are the dimensions at `positions`: a projection or permutation."""
        return AffineMap(rank, 0, tuple(Dim(k) for k in positions))

    @property
    def is_identity(self) -> bool:
        return self.symbols == 0 and self.results == tuple(Dim(k) for k in range(self.dims))

    def compose(self, inner: AffineMap) -> AffineMap:
        """`self` after `inner`: results of `inner` are the dimensions of `self`. No symbols in `inner`."""
        results = tuple(substitute(expr, lambda k: inner.results[k]) for expr in self.results)
        return AffineMap(inner.dims, self.symbols, results)

    def __call__(self, *dims: int) -> tuple[int, ...]:
        return tuple(evaluate(expr, dims) for expr in self.results)

    def __str__(self) -> str:
        dims = ", ".join(f"d{k}" for k in range(self.dims))
        symbols = f"[{', '.join(f's{k}' for k in range(self.symbols))}]" if self.symbols else ""
        return f"({dims}){symbols} -> ({', '.join(map(str, self.results))})"
