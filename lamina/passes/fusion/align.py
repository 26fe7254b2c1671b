"""Make the iteration spaces of two groups one, or say why that cannot be.

The union has parallel atoms P and reduced atoms R; what depends on a reduction is walked over P or over P and
R, other values also over a part. So two groups fit when, after their common values are walked alike,

    both walk the same atoms                                    elementwise into elementwise, into a
    reduction the first walks fewer and reduces nothing                   a broadcast: small values
    computed again the first walks P and R, the second P                       a reduction into
    elementwise one reduces R, the other walks P and atoms of R's sizes     a reduction broadcast back
    over what it reduced
"""

from __future__ import annotations

from lamina.ir.core import Value
from lamina.passes.fusion.atoms import Map, Union, flatten, resolve, unify_maps
from lamina.passes.fusion.graph import Graph, Read
from lamina.passes.fusion.groups import Group, reads_between

Pair = tuple[Map, Map]


def align(graph: Graph, producer: Group, consumer: Group) -> str | None:
    """Unify the atoms of both (on the graph's trail). The reason why not, where they do not fit."""
    mark = graph.trail.mark()
    reason = _align(graph, producer, consumer)
    if reason is not None:
        graph.trail.undo(mark)
    return reason


def _align(graph: Graph, producer: Group, consumer: Group) -> str | None:
    pairs: list[Pair] = []
    for read in reads_between(graph, producer, consumer):
        source = graph.of_value[read.base]
        walked = graph.pull(read)
        if walked is None:
            return (
                f"{read.node.name} reads {source.name} at positions that cannot be followed into its kernel"
            )
        pairs.append((source.map, walked))
    keeps_left = len(producer.nodes) >= len(consumer.nodes)
    union = Union(producer.atoms, consumer.atoms, graph.trail, keeps_left=keeps_left)
    pairs.sort(key=lambda pair: -min(len(flatten(pair[0])), len(flatten(pair[1]))))
    for position, (left, right) in enumerate(pairs):
        if not unify_maps(union, left, right):
            return _say_mismatch(pairs[position], is_first=position == 0)
    _follow_shared_inputs(graph, producer, consumer, union)
    reason = _match_rest(producer, consumer, union)
    return reason or _check_reduced(producer, consumer)


def _say_mismatch(pair: Pair, is_first: bool) -> str:
    sizes = [[atom.size for atom in flatten(map_)] for map_ in pair]
    if is_first:
        return f"their iteration spaces do not correspond: sizes {sizes[0]} against {sizes[1]}"
    return "an intermediate value is read at two different index maps (such as itself and its transpose)"


def _follow_shared_inputs(graph: Graph, producer: Group, consumer: Group, union: Union) -> None:
    """Let dimensions correspond that walk the same input alike, so that it is read once; where it fails,
    not.
    """
    trail = graph.trail
    reads: dict[Value, Read] = {}
    for node in producer.nodes:
        for read in node.reads:
            reads.setdefault(read.base, read)
    for node in consumer.nodes:
        for read in node.reads:
            other = reads.get(read.base)
            if other is None:
                continue
            mark, before = trail.mark(), (set(union.left), set(union.right), set(union.matched))
            left, right = graph.pull(other), graph.pull(read)
            fits = left is not None and right is not None
            if fits and left is not None and right is not None:
                union.refresh()
                fits = unify_maps(union, left, right)
            if not fits:
                trail.undo(mark)
                union.left, union.right, union.matched = before


def _match_rest(producer: Group, consumer: Group, union: Union) -> str | None:
    union.refresh()
    left, right = union.unmatched()
    if left and right:
        ordered_left = [atom for atom in resolve(producer.atoms) if atom in left]
        ordered_right = [atom for atom in resolve(consumer.atoms) if atom in right]
        if not union.unify(ordered_left, ordered_right):
            sizes = [[atom.size for atom in ordered] for ordered in (ordered_left, ordered_right)]
            return f"their iteration spaces do not correspond: sizes {sizes[0]} against {sizes[1]}"
        return None
    if left and (left != producer.reduced or consumer.reduced_atoms):
        if consumer.reduced_atoms:
            return "a reduction of a reduction over other dimensions"
        return "the second walks only a part of the first one's iteration space"
    if right and producer.reduced_atoms:
        return "a reduced value is broadcast over more than the dimensions it was reduced over"
    return None


def _check_reduced(producer: Group, consumer: Group) -> str | None:
    first, second = producer.reduced, consumer.reduced
    if first and second and first != second:
        return "they reduce over different dimensions"
    return None
