"""Fusion's work grows about linearly with the program."""

from __future__ import annotations

from lamina.ir.core import Operation, lookup
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.fuse import fuse, in_dependence_order
from lamina.passes.fusion.graph import Graph
from lamina.passes.fusion.groups import group_of_node
from tests.passes.fusion.form import TARGET, kernels
from tests.passes.fusion.random_programs import Maker
from tests.work import count_calls


def layers(count: int) -> Operation:
    """Layers of ten elementwise operations and a softmax-like step, with a library call after each."""
    maker = Maker(3, inputs=1, steps=0)
    value = maker.block.arguments[0]
    for _ in range(count):
        for k in range(10):
            value = maker._same("math.sin" if k % 2 else "arith.negf", value)
        value = maker._library(maker._reduce_back(value))
    maker.values = [value]
    return maker.module()


def work_of(count: int) -> int:
    module = layers(count)
    calls = count_calls(lambda: fuse(module, TARGET, Remarks()))
    assert len(kernels(module)) == count
    return calls


def test_work_is_about_linear():
    work_of(10)
    ratio = work_of(160) / work_of(40)
    assert ratio < 5, f"4 times the program took {ratio:.1f} times the calls"


def test_groups_come_after_what_they_need():
    module = Maker(5, steps=30).module()
    graph = Graph(lookup(module, "main").body)
    groups = [group_of_node(graph, node, 0.0) for node in graph.nodes]
    place = {group: k for k, group in enumerate(in_dependence_order(groups[::-1]))}
    assert all(place[group] < place[later] for group in groups for later in group.successors())
