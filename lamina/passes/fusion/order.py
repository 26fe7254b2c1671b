"""An order of the groups in which each comes after those it needs, kept up while groups are joined.

    a  b  c  d     b and d become one; c needs b     =>     a  bd  c

Of a pair only the groups between them can lie on a path from one to the other, however the program's lines
are interleaved. After D. Pearce and P. Kelly, "A dynamic topological sort algorithm for directed acyclic
graphs", JEA 11, 2006.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.passes.fusion.groups import Group


class Order:
    """Places of groups; those of groups that are gone are empty."""

    def __init__(self, groups: Sequence[Group]) -> None:
        """groups: in an order of the program."""
        self._groups: list[Group | None] = list(groups)
        self._places = {group: place for place, group in enumerate(groups)}

    def find_between(self, first: Group, second: Group) -> Group | None:
        """The first group on a path that leads from one of the two to the other through further groups."""
        source, target = self._sort(first, second)
        last = self._places[target]
        seen = {source, target}
        waiting = [(group, group) for group in dict.fromkeys(source.successors()) if group is not target]
        while waiting:
            group, entry = waiting.pop()
            if group in seen or self._places[group] > last:
                continue
            seen.add(group)
            for following in group.successors():
                if following is target:
                    return entry
                waiting.append((following, entry))
        return None

    def contract(self, gone: Group, kept: Group) -> None:
        """Give both, which are about to be one, a place behind what either needs and before what needs it.

        No path may lead from one to the other through further groups.
        """
        source, target = self._sort(gone, kept)
        low, high = self._places[source], self._places[target]
        between = [group for group in self._groups[low + 1 : high] if group is not None]
        after = self._reachable(source, high)
        placed = [*(group for group in between if group not in after), kept]
        placed += [group for group in between if group in after]
        self._groups[low : high + 1] = [*placed, *[None] * (high + 1 - low - len(placed))]
        del self._places[gone]
        self._places.update((group, place) for place, group in enumerate(placed, low))

    def _sort(self, first: Group, second: Group) -> tuple[Group, Group]:
        return (first, second) if self._places[first] < self._places[second] else (second, first)

    def _reachable(self, source: Group, end: int) -> set[Group]:
        """The groups before a place that need something of `source`."""
        found: set[Group] = set()
        waiting = list(source.successors())
        while waiting:
            group = waiting.pop()
            if group not in found and self._places[group] < end:
                found.add(group)
                waiting += group.successors()
        return found
