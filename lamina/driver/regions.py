"""Structured control flow of a captured graph: which of its inner graphs runs, and how often.

Each inner graph is compiled when it first runs, like a part of the graph around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from lamina.capture.control_flow import choose
from lamina.driver.parts import Sizes, Values

Run = Callable[[Sequence[Any]], list[Any]]
"""An inner graph, from its inputs to its outputs."""


@dataclass(slots=True)
class Control:
    """A node that calls inner graphs, each of which takes its inputs one by one."""

    node: fx.Node
    regions: dict[fx.Node, Run]
    dropped: list[fx.Node] = field(default_factory=list)

    @property
    def touched(self) -> set[fx.Node]:
        return {self.node, *(each for each in self.node.all_input_nodes if each not in self.regions)}

    def run(self, values: Values, sizes: Sizes) -> None:
        def find(node: fx.Node) -> Any:
            region = self.regions.get(node)
            return values[node] if region is None else lambda *inputs: region(inputs)

        function: Any = self.node.target
        values[self.node] = function(*fx.map_arg(self.node.args, find))


def inner_inputs(node: fx.Node) -> list[list[fx.Node | None]]:
    """For each inner graph of a control node where its inputs come from; None for what varies in a loop."""
    args: Any = node.args
    inputs = list(args[-1]) if node.target is choose else [None] * len(args[2]) + list(args[3])
    return [inputs, inputs]
