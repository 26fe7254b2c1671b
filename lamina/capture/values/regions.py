"""Functions of the program that become graphs of their own, called by a node of the graph around them.

    torch.cond(p, lambda a: a + b, lambda a: a - b, (x,))
 => choose(p, region_0, region_1, (x, b))         region_0(x, b): x + b;  region_1(x, b): x - b

What a region takes from around it, operands and free tensors alike, are its last parameters.
Whether it runs at all, or how often, is not known: it must change nothing but what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.fx
from torch.utils import _pytree as pytree

from lamina.capture.control_flow import CONTROL
from lamina.capture.machine.signals import TracingPaused, TracingStopped, Value, stop
from lamina.capture.values.reachable import Snapshot
from lamina.capture.values.tensor import TensorValue
from lamina.eager.memory import storage_key

Place = Callable[[Sequence[Any]], tuple[tuple[Value, ...], dict[str, Value]]]
"""Gives the arguments and keywords of a call, of the parameters that are its own."""
Run = Callable[[Sequence[torch.fx.GraphModule], tuple[Any, ...]], tuple[torch.Tensor, ...]]
"""Gives a node's result on fakes, of the regions and of what they take."""
COPIED_META = ("example_value", "number")


def refuse(what: str) -> NoReturn:
    stop("control-flow", f"a function that becomes a graph of its own {what}")


@dataclass(slots=True)
class Region:
    """A function traced by itself.

    leaves: what it gives, flat. taken: nodes around it that it uses. own: its parameters that are not taken.
    """

    graph: torch.fx.Graph
    holder: torch.nn.Module
    own: list[torch.fx.Node]
    leaves: list[Value]
    structure: Any
    taken: list[torch.fx.Node]

    def close(self, taken: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
        """The region as a module: its own parameters, then `taken`."""
        parameters = {}
        with self.graph.inserting_before(self._first_operation()):
            for outer in taken:
                node = parameters[outer] = self.graph.placeholder(outer.name)
                # The target is the parameter's name.
                node.target = node.name
                node.meta |= {name: outer.meta[name] for name in COPIED_META if name in outer.meta}
        for node in list(self.graph.nodes):
            for outer in node.all_input_nodes:
                if outer.graph is not self.graph:
                    node.replace_input_with(outer, parameters[outer])
        self.graph.output(tuple(leaf.node for leaf in self.leaves if type(leaf) is TensorValue))
        return torch.fx.GraphModule(self.holder, self.graph)

    def _first_operation(self) -> torch.fx.Node:
        return next((node for node in self.graph.nodes if node.op != "placeholder"), self.graph._root)


def trace_region(world: Any, function: Value, own: Sequence[torch.Tensor], place: Place) -> Region:
    """Trace a call of `function`.

    own: fakes for which parameters are made. place: gives the arguments and keywords with these parameters.
    """
    snapshot = Snapshot(world, (function, place(own)))
    builder = world.builder
    with builder.inner_graph() as graph:
        parameters = [builder.add_parameter(fake) for fake in own]
        try:
            result = world.call(function, *place(parameters))
        except (TracingStopped, TracingPaused, KeyboardInterrupt):
            raise
        except BaseException as error:
            refuse(f"raises {type(error).__name__}: {error}")
        holder = builder.holder
    snapshot.check()
    if any(each.is_mutated() for each in parameters):
        refuse("writes to what it is given")
    leaves, structure = pytree.tree_flatten(result)
    region = Region(graph, holder, [each.node for each in parameters], leaves, structure, [])
    check_nodes(region)
    around = [node for each in graph.nodes for node in each.all_input_nodes if node.graph is not graph]
    region.taken = list(dict.fromkeys(around))
    return region


def check_nodes(region: Region) -> None:
    """No size or error in a region depends on values of tensors: what is around it does not know them."""
    for node in region.graph.nodes:
        if node.meta.get("checks") or (node.meta.get("reads_values") and node.target not in CONTROL):
            refuse("needs the values of a tensor")
        if node.meta.get("has_effect") and torch.is_inference_mode_enabled():
            refuse("writes to a tensor in inference mode")


def check_results(region: Region, around: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The fakes of a region's tensors; each must have memory of its own."""
    memory = {storage_key(fake) for fake in around}
    found = []
    for leaf in region.leaves:
        if type(leaf) is TensorValue:
            key = storage_key(leaf.fake)
            if key in memory:
                refuse("gives memory of a tensor that there is already")
            memory.add(key)
            found.append(leaf.fake)
    return found


def record(
    world: Any,
    target: Any,
    head: tuple[Any, ...],
    regions: Sequence[Region],
    tail: tuple[Any, ...],
    run: Run,
) -> Any:
    """A node `target(*head, *regions, *tail, taken)`, whose result on fakes `run` gives."""
    builder = world.builder
    taken = list(dict.fromkeys(node for region in regions for node in region.taken))
    nodes, modules = [], []
    for region in regions:
        name = f"region_{len(builder.holder._modules)}"
        modules.append(region.close(taken))
        builder.holder.add_module(name, modules[-1])
        nodes.append(builder.create_node("get_attr", name, (), {}))
    examples = tuple(node.meta["example_value"] for node in taken)
    return builder.record_regions(
        target, (*head, *nodes, *tail, tuple(taken)), lambda: run(modules, examples)
    )
