"""Affine maps and integer sets from text: `(d0, d1)[s0] -> (d0 * 4 + s0, d1 mod 2)`."""

from __future__ import annotations

import re

from lamina.ir.affine import AffineExpr, AffineMap, Binary, Constant, Dim, Sym, add, divide, modulo, multiply
from lamina.ir.text.cursor import Cursor

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
NUMBER = re.compile(r"[0-9]+")


class AffineReader:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._names: dict[str, AffineExpr] = {}

    def read_map(self) -> AffineMap:
        dims, symbols = self._read_names()
        self.cursor.expect("->", "in an affine map")
        self.cursor.expect("(", "before an affine map's results")
        results: list[AffineExpr] = []
        if not self.cursor.accept(")"):
            results.append(self._sum())
            while self.cursor.accept(","):
                results.append(self._sum())
            self.cursor.expect(")", "after an affine map's results")
        return AffineMap(dims, symbols, tuple(results))

    def read_set(self) -> str:
        """`(d0)[s0] : (d0 - 1 >= 0, s0 == 0)`; gives it in the spelling that this prints."""
        dims, symbols = self._read_names()
        self.cursor.expect(":", "in an integer set")
        self.cursor.expect("(", "before constraints")
        constraints: list[str] = []
        while not self.cursor.accept(")"):
            if constraints:
                self.cursor.expect(",", "between constraints")
            constraints.append(self._constraint())
        head = str(AffineMap(dims, symbols, ())).removesuffix(" -> ()")
        return f"{head} : ({', '.join(constraints)})"

    def _constraint(self) -> str:
        left = self._sum()
        for sign in (">=", "==", "<="):
            if self.cursor.accept(sign):
                right = self._sum()
                if sign == "<=":
                    left, right, sign = right, left, ">="
                return f"{left + multiply(right, Constant(-1))} {sign} 0"
        raise self.cursor.error("expected '>=', '<=' or '==' in a constraint")

    def _read_names(self) -> tuple[int, int]:
        self._names = {}
        dims = self._read_name_list("(", ")", Dim)
        symbols = self._read_name_list("[", "]", Sym) if self.cursor.looking_at("[") else 0
        return dims, symbols

    def _read_name_list(self, open_: str, close: str, kind: type[Dim] | type[Sym]) -> int:
        self.cursor.expect(open_, "before the names of dimensions")
        count = 0
        while not self.cursor.accept(close):
            if count:
                self.cursor.expect(",", f"or '{close}' after a name")
            start, found = self.cursor.at, self.cursor.take(NAME)
            if found is None:
                raise self.cursor.error("expected the name of a dimension or symbol")
            if found.group() in self._names:
                raise self.cursor.error(f"redefinition of '{found.group()}'", start)
            self._names[found.group()] = kind(count)
            count += 1
        return count

    def _sum(self) -> AffineExpr:
        total = self._product()
        while True:
            if self.cursor.accept("+"):
                total = add(total, self._product())
            elif self.cursor.looking_at("-") and not self.cursor.looking_at("->"):
                self.cursor.accept("-")
                total = add(total, multiply(self._product(), Constant(-1)))
            else:
                return total

    def _product(self) -> AffineExpr:
        left = self._factor()
        while True:
            start = self.cursor.at
            if self.cursor.accept("*"):
                right = self._factor()
                if not _is_constant(left) and not _is_constant(right):
                    raise self.cursor.error(
                        "not affine: one side of '*' must be a constant or a symbol", start
                    )
                left = multiply(left, right)
                continue
            word = self.cursor.peek_word()
            if word not in ("floordiv", "ceildiv", "mod"):
                return left
            self.cursor.accept_word(word)
            left = self._divide(word, left, self._factor(), start)

    def _divide(self, word: str, left: AffineExpr, right: AffineExpr, start: int) -> AffineExpr:
        if not _is_constant(right):
            raise self.cursor.error(
                f"not affine: the right side of '{word}' must be a constant or a symbol", start
            )
        if not isinstance(right, Constant):
            return Binary(word, left, right)
        if right.value <= 0:
            raise self.cursor.error(f"'{word}' needs a positive divisor", start)
        if word == "floordiv":
            return divide(left, right.value)
        if word == "mod":
            return modulo(left, right.value)
        if isinstance(left, Constant):
            return Constant(-(-left.value // right.value))
        return left if right.value == 1 else Binary(word, left, right)

    def _factor(self) -> AffineExpr:
        cursor = self.cursor
        if cursor.accept("("):
            inner = self._sum()
            cursor.expect(")", "in an affine expression")
            return inner
        if cursor.accept("-"):
            return multiply(self._factor(), Constant(-1))
        number = cursor.take(NUMBER)
        if number is not None:
            return Constant(int(number.group()))
        start, name = cursor.at, cursor.take(NAME)
        if name is None:
            raise cursor.error("expected an affine expression")
        known = self._names.get(name.group())
        if known is None:
            raise cursor.error(f"use of undeclared identifier '{name.group()}'", start)
        return known


def _is_constant(expr: AffineExpr) -> bool:
    """Constants and expressions of symbols alone."""
    match expr:
        case Constant() | Sym():
            return True
        case Binary(_, left, right):
            return _is_constant(left) and _is_constant(right)
    return False
