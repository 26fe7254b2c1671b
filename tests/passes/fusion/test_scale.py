"""Fusion's time grows about linearly with the program."""

from __future__ import annotations

import time

from lamina.ir.core import Operation, lookup
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.fuse import fuse, in_dependence_order
from lamina.passes.fusion.graph import Graph
from lamina.passes.fusion.groups import group_of_node
from tests.passes.fusion.form import TARGET, kernels
from tests.passes.fusion.random_programs import Maker


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


def seconds_of(count: int) -> float:
    module = layers(count)
    start = time.process_time()
    fuse(module, TARGET, Remarks())
    spent = time.process_time() - start
    assert len(kernels(module)) == count
    return spent


def test_time_is_about_linear():
    seconds_of(10)
    few, many = min(seconds_of(40) for _ in range(3)), min(seconds_of(160) for _ in range(3))
    assert many / few < 8, f"4 times the program took {many / few:.1f} times as long"


def test_groups_come_after_what_they_need():
    module = Maker(5, steps=30).module()
    graph = Graph(lookup(module, "main").body)
    groups = [group_of_node(graph, node, 0.0) for node in graph.nodes]
    place = {group: k for k, group in enumerate(in_dependence_order(groups[::-1]))}
    assert all(place[group] < place[later] for group in groups for later in group.successors())
