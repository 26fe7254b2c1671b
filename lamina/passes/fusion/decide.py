"""Choose which nodes share a kernel: greedily, the pair that saves the most predicted time first.

Pairs are a producer and its consumer, siblings that read one value, pieces of one concatenation. Each
pair waits in a priority queue by what its union would save; a pair whose groups have changed since is
asked again. A pair that is refused keeps its reason.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from lamina.ir.core import Location
from lamina.ir.machine import Target
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.cost import CostModel, work_of
from lamina.passes.fusion.graph import Graph, Node, Read, count_of
from lamina.passes.fusion.groups import Group, Joined, group_of_node, join, join_contents, reads_between
from lamina.passes.fusion.legality import refusal
from lamina.passes.fusion.order import Order

SIBLING_WINDOW = 8
"""How many of the following readers of a value a group is paired with: keeps the number of pairs linear."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a pair is worth a kernel: seconds saved, or the reason why not."""

    saved: float
    reason: str | None
    joined: Joined | None = None


class Decision:
    """The groups of a graph, being joined."""

    def __init__(self, graph: Graph, target: Target, remarks: Remarks) -> None:
        self.graph = graph
        self.cost = CostModel(target)
        self.remarks = remarks
        self.groups = [group_of_node(graph, node, work_of(node)) for node in graph.nodes]
        graph.order = Order(self.groups)
        self.seconds: dict[Group, float] = {}
        self.queue: list[tuple[float, int, Group, int, Group, int]] = []
        self.count = 0

    def run(self) -> list[Group]:
        """Join until nothing is saved any more; the groups that are left, outside ones included."""
        self._join_only_readers()
        for group in self.groups:
            if group.nodes and not group.is_outside:
                self._push_pairs(group, self._later_neighbours(group))
        self._join_pairs()
        self._join_scalars()
        self._join_pairs()
        self.groups = [group for group in self.groups if group.nodes]
        return self.groups

    def _join_pairs(self) -> None:
        while self.queue:
            _, _, first, first_version, second, second_version = heapq.heappop(self.queue)
            if not first.nodes or not second.nodes:
                continue
            if (first.version, second.version) == (first_version, second_version):
                self._try(first, second)

    def _join_scalars(self) -> None:
        """Groups that compute single numbers share launches, though they have nothing else in common."""
        host: Group | None = None
        for group in self.groups:
            if not group.nodes or group.is_outside or group.domain or group.has_reduction:
                continue
            if host is not None:
                self._try(*in_order(self.graph, host, group))
            host = group if group.nodes else host

    def _join_only_readers(self) -> None:
        """An elementwise operation always goes with its only reader, when that walks the same elements."""
        for node in self.graph.nodes:
            if node.kind != "elementwise" or node.is_needed_outside or node.result is None:
                continue
            readers = self.graph.readers.get(node.result, ())
            if len(readers) == 1 and is_same_walk(node, readers[0]):
                self._try(self._group(node.group), self._group(readers[0].node.group))

    def _later_neighbours(self, group: Group) -> Iterator[Group]:
        """Consumers, siblings that come later in the program, other pieces of the same concatenation."""
        for node in list(group.outputs):
            if node.result is not None:
                for read in self.graph.readers.get(node.result, ()):
                    yield self._group(read.node.group)
        for value in list(group.inputs):
            readers = self.graph.readers.get(value, ())
            following = [read.node for read in readers if read.node.group is not group]
            later = [node for node in following if node.order >= group.first]
            for node in later[:SIBLING_WINDOW]:
                yield self._group(node.group)
        yield from list(self._other_pieces(group))

    def _other_pieces(self, group: Group) -> Iterator[Group]:
        for node in group.nodes:
            if node.place is not None:
                at = node.place[1]
                for other in self.graph.pieces[node.place[0]][max(at - 2, 0) : at + SIBLING_WINDOW]:
                    yield self._group(other.group)

    def _earlier_neighbours(self, group: Group) -> Iterator[Group]:
        for value in list(group.inputs):
            node = self.graph.of_value.get(value)
            if node is not None:
                yield self._group(node.group)
            readers = self.graph.readers.get(value, ())
            earlier = [read.node for read in readers if read.node.group is not group]
            for node in [node for node in earlier if node.order <= group.last][-SIBLING_WINDOW:]:
                yield self._group(node.group)

    @staticmethod
    def _group(group: Group | None) -> Group:
        assert group is not None
        return group

    def _push_pairs(self, group: Group, others: Iterator[Group]) -> None:
        for other in dict.fromkeys(others):
            if other is group or other.is_outside or not other.nodes:
                continue
            first, second = in_order(self.graph, group, other)
            estimate = self._estimate(first, second)
            self.count += 1
            entry = (-estimate, self.count, first, first.version, second, second.version)
            heapq.heappush(self.queue, entry)

    def _estimate(self, first: Group, second: Group) -> float:
        """Bytes that the union saves, refusals aside: the order in which pairs are tried."""
        joined = join_contents(self.graph, first, second)
        separate = sum(sum(group.inputs.values()) + sum(group.outputs.values()) for group in (first, second))
        return float(separate - sum(joined.inputs.values()) - sum(joined.outputs.values()))

    def _try(self, first: Group, second: Group) -> None:
        verdict = self.judge(first, second)
        if verdict.joined is None:
            return
        location = second.nodes[0].location
        text = f"{first.name()} with {second.name()}"
        self.remarks.add("fuse", location, text, "applied", saved_seconds=verdict.saved)
        self.seconds.pop(first, None)
        self.seconds.pop(second, None)
        self.graph.order.contract(first, second)
        join(first, second, verdict.joined)
        self._push_pairs(second, self._later_neighbours(second))
        self._push_pairs(second, self._earlier_neighbours(second))

    def judge(self, first: Group, second: Group) -> Verdict:
        """Legality, then cost. When there is no reason against it, the atoms of both are unified."""
        mark = self.graph.trail.mark()
        reason = refusal(self.graph, first, second)
        if reason is not None:
            return Verdict(0.0, reason)
        joined = join_contents(self.graph, first, second)
        joined.work += self.cost.repeated_work(first, second)
        together = self.cost.of_union(self.graph, first, second, joined).seconds
        saved = self._seconds_of(first) + self._seconds_of(second) - together
        if saved <= 0.0:
            self.graph.trail.undo(mark)
            return Verdict(saved, f"it would take {-saved * 1e6:.1f} us longer than two kernels")
        return Verdict(saved, None, joined)

    def _seconds_of(self, group: Group) -> float:
        found = self.seconds.get(group)
        if found is None:
            found = self.cost.of_group(self.graph, group).seconds
            self.seconds[group] = found
        return found

    def explain_refusals(self, groups: list[Group]) -> None:
        """A remark for each pair of neighbouring groups that stayed apart, with its reason."""
        for group in groups:
            for other in dict.fromkeys((*group.successors(), *self._later_neighbours(group))):
                if other is group or (group.is_outside and other.is_outside) or self._is_end(other):
                    continue
                first, second = in_order(self.graph, group, other)
                mark = self.graph.trail.mark()
                verdict = self.judge(first, second)
                self.graph.trail.undo(mark)
                self._refuse(first, second, verdict)

    def _is_end(self, group: Group) -> bool:
        """A return, or a concatenation whose pieces are written in place: nothing could be fused there."""
        operation = group.nodes[0].operation
        return operation.name == "func.return" or (group.is_outside and operation in self.graph.pieces)

    def _refuse(self, first: Group, second: Group, verdict: Verdict) -> None:
        if verdict.reason is None:
            return
        location: Location = second.nodes[0].location
        names = (first.name(), second.name())
        text = f"{names[0]} with {names[1]}: {verdict.reason}"
        self.remarks.add(
            "fuse", location, text, "refused", first=names[0], second=names[1], reason=verdict.reason
        )


def in_order(graph: Graph, one: Group, other: Group) -> tuple[Group, Group]:
    """Producer first; siblings in program order."""
    if reads_between(graph, other, one):
        return other, one
    if reads_between(graph, one, other) or one.first <= other.first:
        return one, other
    return other, one


def is_same_walk(node: Node, read: Read) -> bool:
    """Whether a read goes over all elements, each once, and its node computes as many."""
    if read.must_be_stored or read.node.kind not in ("elementwise", "reduce", "copy"):
        return False
    return read.base is node.result and count_of(read.value) == count_of(node.written)
