"""Iteration dimensions of kernels (atoms), and maps: each dimension of a value as a product of them.

A value of shape (32, 49) in a kernel over atoms a (4), b (8), c (49) may have the map ((a, b), (c,)): its
first dimension walks a and b, row-major. Joining two kernels unifies the maps that both have of one
value: atoms become equal, or one is split into several (group normalisation splits channels). Every such
step is recorded on a trail, so that a join that turns out illegal is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lamina.ir.sizes import hint, is_known_equal, is_known_multiple


class Atom:
    """One iteration dimension. `link` holds what has become of it: an equal atom, or its parts.

    `is_whole`: never split, since padding, reversal or argmax work along it.
    """

    __slots__ = ("is_whole", "link", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_whole = False
        self.link: tuple[Atom, ...] | None = None

    def __repr__(self) -> str:
        return f"Atom({self.size})"


Walk = tuple[Atom, ...]
"""How one dimension is walked: its atoms, outer first; none for a dimension of size 1."""
Map = tuple[Walk, ...]
"""One walk for each dimension of a value."""


class Trail:
    """The links made since a mark, to be undone."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        self.changed: list[tuple[Atom, Atom | None]] = []

    def link(self, atom: Atom, target: Walk) -> None:
        """Replace an atom by an equal one, or by its parts."""
        made_whole = target[0] if atom.is_whole and not target[0].is_whole else None
        if made_whole is not None:
            made_whole.is_whole = True
        atom.link = target
        self.changed.append((atom, made_whole))

    def mark(self) -> int:
        return len(self.changed)

    def undo(self, mark: int) -> None:
        while len(self.changed) > mark:
            atom, made_whole = self.changed.pop()
            atom.link = None
            if made_whole is not None:
                made_whole.is_whole = False


def fresh_map(shape: Iterable[int], whole: Iterable[int] = ()) -> Map:
    """A new atom for each dimension that is not of size 1; those of `whole` dimensions are never split."""
    found: Map = tuple(() if size == 1 else (Atom(size),) for size in shape)
    for dim in whole:
        for atom in found[dim]:
            atom.is_whole = True
    return found


def resolve(walk: Iterable[Atom]) -> list[Atom]:
    """The atoms as they are now."""
    found: list[Atom] = []
    for atom in walk:
        if atom.link is None:
            found.append(atom)
        else:
            found.extend(resolve(atom.link))
    return found


def flatten(map_: Map) -> list[Atom]:
    """All atoms of a map, outer first."""
    return [atom for walk in map_ for atom in resolve(walk)]


def volume(walk: Iterable[Atom]) -> int:
    size = 1
    for atom in walk:
        size *= atom.size
    return size


def typical_volume(walk: Iterable[Atom]) -> int:
    """The volume for costs: with the sizes at hand."""
    return hint(volume(walk))


def split(atom: Atom, outer: int, trail: Trail) -> Walk:
    """Split a live atom into (outer, rest); `outer` must divide its size."""
    parts = (Atom(outer), Atom(atom.size // outer))
    trail.link(atom, parts)
    return parts


def divide(walk: Iterable[Atom], sizes: Sequence[int], trail: Trail) -> list[Walk] | None:
    """Cut a walk into consecutive walks of these sizes, splitting atoms; None where a cut divides none."""
    waiting = resolve(walk)
    waiting.reverse()
    pieces: list[Walk] = []
    for size in sizes:
        piece: list[Atom] = []
        left = size
        while left != 1:
            if not waiting:
                return None
            atom = waiting.pop()
            if atom.size == 0 or left == 0:
                if atom.size != left:
                    return None
                piece.append(atom)
                break
            if is_known_multiple(left, atom.size):
                piece.append(atom)
                left //= atom.size
            elif is_known_multiple(atom.size, left) and not atom.is_whole:
                outer, inner = split(atom, left, trail)
                piece.append(outer)
                waiting.append(inner)
                left = 1
            else:
                return None
        pieces.append(tuple(piece))
    return None if waiting else pieces


class Union:
    """Atoms of two kernels being made equal. Two different atoms of one kernel never become equal.

    `keeps_left`: which side's atoms stand for both afterwards. The larger kernel's should, so that chains of
    links stay short.
    """

    __slots__ = ("keeps_left", "left", "matched", "right", "trail")

    def __init__(
        self, left: Iterable[Atom], right: Iterable[Atom], trail: Trail, *, keeps_left: bool = False
    ) -> None:
        self.trail = trail
        self.keeps_left = keeps_left
        self.left = set(resolve(left))
        self.right = set(resolve(right))
        self.matched: set[Atom] = set()

    def refresh(self) -> None:
        """Follow splits that were made outside, by taking maps through reshapes."""
        for name in ("left", "right", "matched"):
            setattr(self, name, set(resolve(getattr(self, name))))

    def split(self, atom: Atom, outer: int) -> Walk:
        parts = split(atom, outer, self.trail)
        side = self.left if atom in self.left else self.right
        side.discard(atom)
        side.update(parts)
        if atom in self.matched:
            self.matched.discard(atom)
            self.matched.update(parts)
        return parts

    def unify(self, left: Iterable[Atom], right: Iterable[Atom]) -> bool:
        """Make two walks equal. False when sizes do not fit, or atoms already have other partners."""
        first, second = resolve(left)[::-1], resolve(right)[::-1]
        while first and second:
            one, other = first.pop(), second.pop()
            if one is other:
                continue
            if is_known_equal(one.size, other.size):
                if not self._match(one, other):
                    return False
            elif 0 in (one.size, other.size):
                return False
            elif is_known_multiple(one.size, other.size) and not one.is_whole:
                first.extend(reversed(self.split(one, other.size)))
                second.append(other)
            elif is_known_multiple(other.size, one.size) and not other.is_whole:
                second.extend(reversed(self.split(other, one.size)))
                first.append(one)
            else:
                return False
        return not first and not second

    def _match(self, one: Atom, other: Atom) -> bool:
        if one not in self.left or other not in self.right or other in self.matched:
            return False
        self.left.discard(one)
        if self.keeps_left:
            self.trail.link(other, (one,))
            self.right.discard(other)
            self.right.add(one)
            self.matched.add(one)
        else:
            self.trail.link(one, (other,))
            self.matched.add(other)
        return True

    def unmatched(self) -> tuple[set[Atom], set[Atom]]:
        """The atoms of either side without a partner."""
        return self.left, self.right - self.matched


def unify_maps(union: Union, left: Map, right: Map) -> bool:
    """Unify dimension by dimension."""
    return all(union.unify(one, other) for one, other in zip(left, right, strict=True))


def are_equal(left: Map, right: Map) -> bool:
    """Whether two maps walk the same atoms now."""
    return all(resolve(one) == resolve(other) for one, other in zip(left, right, strict=True))
