"""The graphs of one trace: that of the call, and inside it those of functions that stay functions.

    y = torch.cond(p, f, g, (x,))        choose(p, region_0, region_1, (x,))

While `f` is traced its operations go into a graph of its own. Inputs are placeholders of the outermost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx

from lamina.capture.values.sizes import NumberValue
from lamina.capture.values.tensor import TensorValue


class NestedGraphs:
    """Where nodes and placeholders go."""

    def __init__(self) -> None:
        self.graph = self.root = torch.fx.Graph()
        """The graph that is being built, and the outermost."""
        self.holder = torch.nn.Module()
        """Holds the graphs that nodes of `graph` call."""
        self.open = [self.graph]
        """The graphs under construction, from the outermost to the innermost."""
        self.inputs: list[TensorValue | NumberValue] = []
        self._by_fake: dict[int, TensorValue] = {}
        self._last_placeholder: torch.fx.Node | None = None
        self.indexing_modes = 0
        """How many modes are on under which tensors are looked up by tensors."""

    def add_placeholder(self, name: str, example: Any) -> torch.fx.Node:
        """An input of the outermost graph, behind those that there are."""
        if self._last_placeholder is not None:
            with self.root.inserting_after(self._last_placeholder):
                node = self.root.placeholder(name)
        elif self.root._len:
            with self.root.inserting_before(next(iter(self.root.nodes))):
                node = self.root.placeholder(name)
        else:
            node = self.root.placeholder(name)
        # The target becomes a parameter's name: paths that look alike must not share it.
        node.target = node.name
        self._last_placeholder = node
        node.meta["example_value"] = example
        return node

    @contextlib.contextmanager
    def inner_graph(self) -> Iterator[torch.fx.Graph]:
        """A graph of its own for what is recorded meanwhile. Its tensors are forgotten at the end."""
        outer, known = (self.graph, self.holder), set(self._by_fake)
        self.graph, self.holder = torch.fx.Graph(), torch.nn.Module()
        self.open.append(self.graph)
        try:
            yield self.graph
        finally:
            self.open.pop()
            self.graph, self.holder = outer
            of_inputs = {id(value.fake) for value in self.inputs}
            for key in self._by_fake.keys() - known - of_inputs:
                del self._by_fake[key]

    def is_open(self, node: torch.fx.Node) -> bool:
        """Whether a node may be used in the graph that is being built."""
        return any(node.graph is graph for graph in self.open)
