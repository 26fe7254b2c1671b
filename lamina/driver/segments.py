"""A captured graph whose sizes or numbers depend on tensors' values: split where the values are read.

    m = x > 0                      part 0: compiled
    i = nonzero(m)                 runs as it is: only now is the size known
    y = x.relu()[i[:, 0]] * 2      part 1: a program for each set of sizes that comes up again
    n = i.size(0); require(n > 1)  Python
    choose(n_1, region_0, ...)     one of two graphs inside this one, each split like it

A read runs as early as it can, so that what does not depend on it stays in one part. An error of a part or a
check sends the call back to eager, which raises its own; a graph with checks writes to no input.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from lamina.capture import Captured
from lamina.capture.control_flow import CONTROL
from lamina.capture.values.modes import LEAVES
from lamina.driver.graph import Compiled
from lamina.driver.parts import Part, Sizes, Values, check_result, example_of, make_part, run_node
from lamina.driver.regions import Control, inner_inputs
from lamina.options import Options
from lamina.reports.report import GraphReport

SETS_GRAD = torch._C._set_grad_enabled
FAILURES_TOLERATED = 4
"""Calls sent back to eager before the others go there at once."""


def compile_segments(captured: Captured, kinds: Sequence[str], options: Options) -> Compiled:
    """The captured graph, ready for inputs that its guards admit. Parts are compiled when they first run.

    kinds: what each input is, as `compile_graph` takes it.
    """
    report = GraphReport("graph")
    is_repeatable = not captured.mutated_inputs
    run = make_segments(captured.graph_module, kinds, options, report, is_repeatable)
    return Compiled(run, report, is_repeatable)


def make_segments(
    module: fx.GraphModule,
    kinds: Sequence[str],
    options: Options,
    report: GraphReport,
    is_repeatable: bool = False,
) -> Segments:
    """The steps of a graph; the graphs inside it are split alike."""
    placeholders = module.graph.find_nodes(op="placeholder")
    kind_of = dict(zip(placeholders, kinds, strict=True))

    def make(nodes: list[fx.Node]) -> Part:
        return make_part(module, nodes, kind_of, options, report)

    def enter(node: fx.Node) -> Control:
        regions = [each for each in node.all_input_nodes if each.op == "get_attr"]
        inner = [[kind_of.get(each, "input") for each in inputs] for inputs in inner_inputs(node)]
        runs = [
            make_segments(getattr(module, str(each.target)), names, options, report)
            for each, names in zip(regions, inner, strict=True)
        ]
        return Control(node, dict(zip(regions, runs, strict=True)))

    steps = Splitter(make, enter).split(module.graph)
    return Segments(placeholders, steps, module.graph, is_repeatable)


class Host:
    """Nodes that run as they are, one after the other."""

    def __init__(self, nodes: list[fx.Node]) -> None:
        self.nodes = nodes
        self.touched = {each for node in nodes for each in (*node.all_input_nodes, node)}
        self.dropped: list[fx.Node] = []

    def run(self, values: Values, sizes: Sizes) -> None:
        for node in self.nodes:
            values[node] = run_node(node, values, sizes)


Step = Host | Part | Control


class Splitter:
    """Puts the nodes of a graph into steps."""

    def __init__(
        self, make_part: Callable[[list[fx.Node]], Part], make_control: Callable[[fx.Node], Control]
    ) -> None:
        self.make_part = make_part
        self.make_control = make_control
        self.steps: list[Step] = []
        self.early: list[fx.Node] = []
        """What runs before the open part."""
        self.open: list[fx.Node] = []
        self.late: list[fx.Node] = []
        """What runs behind the open part: it takes something of it, or must not overtake a write of its."""

    def split(self, graph: fx.Graph) -> list[Step]:
        for node in graph.nodes:
            if node.op in ("placeholder", "output", "get_attr") or node.target is SETS_GRAD:
                continue
            if node.target in CONTROL:
                self._close()
                self.steps.append(self.make_control(node))
                continue
            if node.target in LEAVES or node.target in LEAVES.values():
                self._close()
                self.steps.append(Host([node]))
            elif self._runs_as_it_is(node):
                self._add_host(node)
            else:
                has_effect = bool(node.meta.get("has_effect"))
                if self.late and (has_effect or not set(self.late).isdisjoint(node.all_input_nodes)):
                    self._close()
                self.open.append(node)
        self._close()
        return self.steps

    def _runs_as_it_is(self, node: fx.Node) -> bool:
        if node.meta.get("reads_values") or node.meta.get("checks"):
            return True
        inputs = node.all_input_nodes
        if not inputs or not set(self.open).isdisjoint(inputs):
            return False
        if node.target is operator.getitem and isinstance(example_of(inputs[0]), (tuple, list)):
            return True
        return "example_value" not in node.meta

    def _add_host(self, node: fx.Node) -> None:
        waits = not {*self.open, *self.late}.isdisjoint(node.all_input_nodes)
        is_after_write = any(each.meta.get("has_effect") for each in self.open)
        (self.late if waits or is_after_write else self.early).append(node)

    def _close(self) -> None:
        """Start a new part."""
        if self.early:
            self.steps.append(Host(self.early))
        if self.open:
            self.steps.append(self.make_part(self.open))
        if self.late:
            self.steps.append(Host(self.late))
        self.early, self.open, self.late = [], [], []


@dataclass(slots=True)
class Segments:
    """Runs the steps of one graph."""

    placeholders: list[fx.Node]
    steps: list[Step]
    graph: fx.Graph
    is_repeatable: bool
    """Whether a call that failed can be made again in eager."""
    draws: bool = field(init=False)
    failures: int = 0
    results: Any = field(init=False)

    def __post_init__(self) -> None:
        self.draws = any(node.meta.get("has_effect") for node in self.graph.nodes)
        self.results = next(iter(reversed(self.graph.nodes))).args[0]
        last = {node: position for position, step in enumerate(self.steps) for node in step.touched}
        kept: set[fx.Node] = set()
        fx.map_arg(self.results, kept.add)
        for node, position in last.items():
            if node not in kept:
                self.steps[position].dropped.append(node)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if not self.is_repeatable:
            return self._run(inputs)
        if self.failures > FAILURES_TOLERATED:
            raise RuntimeError("the checks of this graph have failed before")
        state = torch.get_rng_state() if self.draws else None
        try:
            return self._run(inputs)
        except Exception as error:
            if state is not None:
                torch.set_rng_state(state)
            self.failures += 1
            raise RuntimeError("the call is made again in eager") from error

    def _run(self, inputs: Sequence[Any]) -> list[Any]:
        values: Values = dict(zip(self.placeholders, inputs, strict=True))
        sizes: Sizes = {}
        for node, value in values.items():
            check_result(node, value, sizes)
        entered: list[fx.Node] = []
        try:
            for step in self.steps:
                step.run(values, sizes)
                note_modes(step, entered)
                for node in step.dropped:
                    del values[node]
        finally:
            for node in reversed(entered):
                LEAVES[node.target](values[node])
        return list(fx.map_arg(self.results, values.__getitem__))


def note_modes(step: Step, entered: list[fx.Node]) -> None:
    """Keep the list of modes that are entered and not left."""
    if not isinstance(step, Host):
        return
    for node in step.nodes:
        if node.target in LEAVES:
            entered.append(node)
        elif node.target in LEAVES.values():
            entered.remove(node.args[0])  # type: ignore[arg-type]
