"""Places: linear index expressions over the dimensions of a loop nest, with the algebra of reshapes.

A `Place` is `sum(coefficient * term) + constant`. A term is the number of a dimension, which runs over
`[0, size)`, or an index computed in the loop body (`Computed`: then nothing is known of its range).
Division and remainder by a constant either come out linear, or say which dimension must first be split
in two (`SplitDimension`), or have no linear form (None).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


class Computed:
    """Base of the index values that a loop body computes."""

    __slots__ = ()


Term: TypeAlias = int | Computed


class SplitDimension(Exception):  # noqa: N818  (a wish, not an error)
    """Dimension `dim` must become an outer and an inner one, the inner of size `inner`."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__(f"split dimension {dim} into blocks of {inner}")
        self.dim = dim
        self.inner = inner


@dataclass(frozen=True, slots=True)
class Place:
    """Coefficients are never 0; a dimension of size 1 never appears."""

    terms: tuple[tuple[Term, int], ...]
    constant: int = 0

    @staticmethod
    def of(terms: Mapping[Term, int], constant: int = 0) -> Place:
        dims = sorted(term for term, factor in terms.items() if isinstance(term, int) and factor != 0)
        values = [
            (term, factor) for term, factor in terms.items() if not isinstance(term, int) and factor != 0
        ]
        return Place((*((dim, terms[dim]) for dim in dims), *values), constant)

    @staticmethod
    def dim(position: int, size: int) -> Place:
        return ZERO if size == 1 else Place(((position, 1),))

    def plus(self, amount: int) -> Place:
        return Place(self.terms, self.constant + amount)

    def __add__(self, other: Place) -> Place:
        if not other.terms:
            return self.plus(other.constant)
        if not self.terms:
            return other.plus(self.constant)
        terms: dict[Term, int] = dict(self.terms)
        for term, factor in other.terms:
            terms[term] = terms.get(term, 0) + factor
        return Place.of(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Place:
        if factor == 0:
            return ZERO
        return Place(tuple((term, f * factor) for term, f in self.terms), self.constant * factor)

    def coefficient(self, dim: int) -> int:
        return next((factor for term, factor in self.terms if term == dim), 0)

    @property
    def dims(self) -> frozenset[int]:
        return frozenset(term for term, _ in self.terms if isinstance(term, int))

    @property
    def is_dynamic(self) -> bool:
        """Whether a value computed in the body takes part."""
        return any(not isinstance(term, int) for term, _ in self.terms)

    def range(self, sizes: Sequence[int]) -> tuple[int, int]:
        """Least and largest value over non-empty dimensions. ValueError when it is dynamic."""
        low = high = self.constant
        for term, factor in self.terms:
            if not isinstance(term, int):
                raise ValueError("the range of a computed value is not known")
            reach = factor * max(sizes[term] - 1, 0)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def with_dims(self, replacement: Sequence[Place]) -> Place:
        """Put a place for each dimension."""
        result = Place((), self.constant)
        for term, factor in self.terms:
            part = replacement[term] * factor if isinstance(term, int) else Place(((term, factor),))
            result = result + part
        return result


ZERO = Place(())


def linearize(places: Sequence[Place], shape: Sequence[int]) -> Place:
    """The row-major position of a multi-dimensional index."""
    result = ZERO
    for place, size in zip(places, shape, strict=True):
        result = result * size + place
    return result


def divide(place: Place, divisor: int, sizes: Sequence[int]) -> tuple[Place, Place] | None:
    """Quotient (rounded down) and remainder of `place / divisor`; None when they are not linear.

    SplitDimension when they are, once a dimension is split.
    """
    if divisor == 1:
        return place, ZERO
    whole = {term: factor // divisor for term, factor in place.terms if factor % divisor == 0}
    rest = Place(tuple((term, factor) for term, factor in place.terms if factor % divisor), place.constant)
    if rest.is_dynamic:
        return None
    low, high = rest.range(sizes)
    quotient = low // divisor
    if quotient == high // divisor:
        return Place.of(whole, quotient), rest.plus(-quotient * divisor)
    for term, factor in sorted(rest.terms, key=lambda entry: -abs(entry[1])):
        if not isinstance(term, int) or divisor % factor:
            continue
        inner = divisor // abs(factor)
        if inner < sizes[term] and sizes[term] % inner == 0:
            raise SplitDimension(term, inner)
    return None
