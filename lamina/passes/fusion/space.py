"""The iteration space of a finished group: its dimensions in order, merged where every access walks them
as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lamina.ir.sizes import is_known_equal
from lamina.passes.fusion.atoms import Atom, Map, Walk, resolve, volume

Access = dict[Atom, int]
"""Stride in elements of each atom in one access; atoms that are not walked are absent."""


def access_of(map_: Map, strides: Sequence[int]) -> Access:
    """Strides of the atoms that walk dimensions of these strides."""
    found: Access = {}
    for walk, stride in zip(map_, strides, strict=True):
        step = stride
        for atom in reversed(resolve(walk)):
            found[atom] = step
            step *= max(atom.size, 1)
    return found


def row_major(order: Iterable[Atom]) -> Access:
    """Strides of a contiguous value whose atoms lie in this order, outermost first."""
    found: Access = {}
    step = 1
    for atom in reversed(list(order)):
        found[atom] = step
        step *= max(atom.size, 1)
    return found


@dataclass(frozen=True, slots=True)
class Space:
    """`dimensions` are the merged dimensions of the domain, outermost first; `reduced` those that are
    reduced.
    """

    dimensions: tuple[Walk, ...]
    reduced: tuple[int, ...]

    @property
    def parallel(self) -> tuple[int, ...]:
        return tuple(k for k in range(len(self.dimensions)) if k not in self.reduced)

    def sizes(self, dims: Iterable[int]) -> tuple[int, ...]:
        return tuple(volume(self.dimensions[k]) for k in dims)

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(range(len(self.dimensions)))

    def walked_by(self, atoms: Iterable[Atom]) -> tuple[int, ...]:
        """The dimensions that hold these atoms."""
        wanted = set(atoms)
        return tuple(k for k, walk in enumerate(self.dimensions) if walk[0] in wanted)

    def strides(self, access: Access, dims: Iterable[int]) -> tuple[int, ...]:
        """The access's stride along each of these dimensions; 0 where it does not walk one."""
        return tuple(access.get(self.dimensions[k][-1], 0) for k in dims)


def make_space(order: Sequence[Atom], reduced: set[Atom], accesses: Sequence[Access]) -> Space:
    """Merge neighbours of `order` that are both parallel or both reduced and that no access tells apart."""
    dimensions: list[list[Atom]] = []
    for atom in order:
        if dimensions and _is_one_walk(dimensions[-1][-1], atom, reduced, accesses):
            dimensions[-1].append(atom)
        else:
            dimensions.append([atom])
    walks = tuple(tuple(dimension) for dimension in dimensions)
    return Space(walks, tuple(k for k, walk in enumerate(walks) if walk[0] in reduced))


def _is_one_walk(outer: Atom, inner: Atom, reduced: set[Atom], accesses: Sequence[Access]) -> bool:
    if (outer in reduced) != (inner in reduced) or 0 in (outer.size, inner.size):
        return False
    for access in accesses:
        step, wider = access.get(inner), access.get(outer)
        if step is None or wider is None:
            if step is not wider:
                return False
        elif not is_known_equal(wider, step * inner.size):
            return False
    return True
