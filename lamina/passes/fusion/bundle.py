"""Put small groups into the kernel of a group that reads the same memory, as loop nests of their own.

    kernel a: all(0 <= i < 10)     kernel b: x[i] = table[i]     =>     one kernel with two nests

A check of bounds beside the gather it guards is the usual case. The iteration spaces stay apart, so this
costs nothing but code; a group is small when a single core does it in less time than a launch takes.
"""

from __future__ import annotations

from lamina.ir.machine import Target
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.atoms import typical_volume
from lamina.passes.fusion.graph import Graph
from lamina.passes.fusion.groups import Group
from lamina.passes.fusion.legality import has_no_elements, has_too_many_buffers, makes_cycle, needs_memory

MOST_NESTS = 4


def bundle(graph: Graph, groups: list[Group], target: Target, remarks: Remarks) -> list[Group]:
    """The groups that are left; a bundled one is in the `parts` of another."""
    for small in groups:
        if small.is_outside or small.parts or not is_small(small, target):
            continue
        host = next((group for group in _hosts(graph, small) if _may_join(graph, small, group)), None)
        if host is not None:
            text = f"{small.name()} as a nest beside {host.name()}"
            remarks.add("fuse", small.nodes[0].location, text, "applied")
            graph.order.contract(small, host)
            _join(small, host)
    return [group for group in groups if group.nodes]


def is_small(group: Group, target: Target) -> bool:
    """Whether one core computes it in less than the time of a launch."""
    operations = max(group.work, float(typical_volume(group.domain)))
    return operations / (target.peak_flops / 4 / target.cores) < target.launch_seconds


def _hosts(graph: Graph, small: Group) -> list[Group]:
    """The groups that read what the small one reads."""
    found = [
        read.node.group
        for value in small.inputs
        for read in graph.readers.get(value, ())
        if read.node.group is not None
    ]
    return [group for group in dict.fromkeys(found) if group is not small and not group.is_outside]


def _may_join(graph: Graph, small: Group, host: Group) -> bool:
    if len(host.parts) >= MOST_NESTS or any(reader is small for reader in host.successors()):
        return False
    if any(reader is host for reader in small.successors()):
        return False
    predicates = (has_no_elements, needs_memory, makes_cycle, has_too_many_buffers)
    return all(predicate(graph, small, host) is None for predicate in predicates)


def _join(small: Group, host: Group) -> None:
    part = Group(small.nodes, small.atoms, small.reduced_atoms, small.inputs, small.outputs, small.work)
    if not host.parts:
        host.parts = [Group(host.nodes, host.atoms, host.reduced_atoms, host.inputs, host.outputs, host.work)]
    host.parts.append(part)
    for node in small.nodes:
        node.group = host
    host.nodes = sorted(host.nodes + small.nodes, key=lambda node: node.order)
    host.inputs = {**small.inputs, **host.inputs}
    host.outputs = {**host.outputs, **small.outputs}
    host.work += small.work
    small.nodes = []
