"""Why two groups may not be one kernel: one predicate a reason, in the order in which they are asked.

Each takes the graph and the pair in program order (the first may compute what the second reads) and gives
the reason as a sentence, or None. `refusal` asks them all.
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.passes.fusion.align import align
from lamina.passes.fusion.atoms import resolve
from lamina.passes.fusion.graph import Graph, Node
from lamina.passes.fusion.groups import Group, is_read_elsewhere, join_contents

MAXIMAL_BUFFERS = 32
"""Pointers a kernel walks at once: beyond this, addresses spill and hardware prefetchers lose track."""

Predicate = Callable[[Graph, Group, Group], str | None]


def is_library_call(graph: Graph, first: Group, second: Group) -> str | None:
    for group in (first, second):
        if group.is_outside:
            name = group.nodes[0].operation.name
            if name in ("func.return", "tensor.concat"):
                return f"{name} only takes values in memory"
            return f"{name} is a library call, its operands and results lie in memory"
    return None


def needs_memory(graph: Graph, first: Group, second: Group) -> str | None:
    """One reads the other's value in a way that needs it whole in memory."""
    for source, target in ((first, second), (second, first)):
        for node in source.outputs:
            for reader in node.stored_for:
                if reader.group is target:
                    return _say_stored(node, reader)
    return None


def _say_stored(node: Node, reader: Node) -> str:
    if reader.kind == "index":
        return f"{reader.name} reads {node.name} at computed positions"
    if reader.kind in ("pad", "reverse"):
        return f"{reader.name} reads {node.name} shifted: only a value in memory can be"
    return f"{reader.name} reads a slice of {node.name}"


def makes_cycle(graph: Graph, first: Group, second: Group) -> str | None:
    """Another group needs the first and is needed by the second (or the other way round)."""
    between = graph.order.find_between(first, second)
    return None if between is None else f"would make a cycle through {between.name()}"


def has_no_elements(graph: Graph, first: Group, second: Group) -> str | None:
    if any(atom.size == 0 for group in (first, second) for atom in group.domain):
        return "there is nothing to compute: a size is 0"
    return None


def has_too_many_buffers(graph: Graph, first: Group, second: Group) -> str | None:
    joined = join_contents(graph, first, second)
    count = len(joined.inputs) + len(joined.outputs)
    if count > MAXIMAL_BUFFERS:
        return f"the kernel would walk {count} buffers, more than {MAXIMAL_BUFFERS}"
    return None


def has_several_nests(graph: Graph, first: Group, second: Group) -> str | None:
    if first.parts or second.parts:
        return "one of them already has several loop nests"
    return None


def stores_partial_value(graph: Graph, first: Group, second: Group) -> str | None:
    """After alignment: each value that is written must be walked over P or over P and R."""
    reduced = first.reduced | second.reduced
    domain = set(resolve(first.atoms)) | set(resolve(second.atoms))
    for group in (first, second):
        for node in group.outputs:
            walked = {atom for walk in node.map for atom in resolve(walk)}
            if walked not in (domain, domain - reduced) and is_read_elsewhere(graph, node, (first, second)):
                return f"{node.name} is a part of the iteration space and must be written"
    return None


BEFORE_ALIGNMENT: tuple[Predicate, ...] = (
    is_library_call, has_no_elements, needs_memory, makes_cycle, has_too_many_buffers, has_several_nests,
)  # fmt: skip
AFTER_ALIGNMENT: tuple[Predicate, ...] = (stores_partial_value,)


def refusal(graph: Graph, first: Group, second: Group) -> str | None:
    """The first reason why the two cannot be one kernel. None: they can, and their atoms are now unified."""
    for predicate in BEFORE_ALIGNMENT:
        reason = predicate(graph, first, second)
        if reason is not None:
            return reason
    mark = graph.trail.mark()
    reason = align(graph, first, second)
    for predicate in AFTER_ALIGNMENT:
        reason = reason or predicate(graph, first, second)
    if reason is not None:
        graph.trail.undo(mark)
    return reason
