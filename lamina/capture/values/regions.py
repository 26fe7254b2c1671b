"""Functions of the program that become graphs of their own, called by a node of the graph around them.

    torch.cond(p, lambda a: a + b, lambda a: a - b, (x,))
 => choose(p, region_0, region_1, (x, b))         region_0(x, b): x + b;  region_1(x, b): x - b

What a region takes from around it, operands and free tensors alike, are its last parameters.
Whether it runs at all, or how often, is not known: it must change nothing but what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.fx
from torch.utils import _pytree as pytree

from lamina.capture.control_flow import CONTROL
from lamina.capture.machine.signals import TracingPaused, TracingStopped, Value, stop
from lamina.capture.values.reachable import Snapshot
from lamina.capture.values.sizes import NumberValue
from lamina.capture.values.tensor import TensorValue
from lamina.eager.memory import storage_key

Place = Callable[[Sequence[Any]], tuple[tuple[Value, ...], dict[str, Value]]]
"""Gives the arguments and keywords of a call, of the parameters that are its own."""
Run = Callable[[Sequence[torch.fx.GraphModule], Sequence[torch.fx.Node]], tuple[torch.Tensor | None, ...]]
"""Gives a node's result on fakes, of the regions and of what they take."""
COPIED_META = ("example_value", "number")


def refuse(what: str) -> NoReturn:
    stop("control-flow", f"a function that becomes a graph of its own {what}")


@dataclass(slots=True)
class Region:
    """A function traced by itself.

    leaves: what it gives, flat. outputs: of tensors and numbers among these the nodes, else the leaves.
    taken: nodes around it that it uses.
    """

    graph: torch.fx.Graph
    holder: torch.nn.Module
    leaves: list[Value]
    outputs: list[Any]
    structure: Any
    taken: list[torch.fx.Node]

    def close(self, taken: Sequence[torch.fx.Node], given: Sequence[int]) -> torch.fx.GraphModule:
        """The region as a module: its own parameters, then `taken`; it gives the leaves numbered `given`."""
        parameters = {}
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), self.graph._root)
        with self.graph.inserting_before(first):
            for outer in taken:
                node = parameters[outer] = self.graph.placeholder(outer.name)
                # The target is the parameter's name.
                node.target = node.name
                node.meta |= {name: outer.meta[name] for name in COPIED_META if name in outer.meta}
        self.graph.output(tuple(self.outputs[k] for k in given))
        for node in list(self.graph.nodes):
            for outer in node.all_input_nodes:
                if outer.graph is not self.graph:
                    node.replace_input_with(outer, parameters[outer])
        return torch.fx.GraphModule(self.holder, self.graph)


def trace_region(world: Any, function: Value, own: Sequence[torch.Tensor | None], place: Place) -> Region:
    """Trace a call of `function`.

    own: fakes for which parameters are made, None for an int. place: gives the arguments and keywords with
    these parameters.
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
            world.check_origin(error)
            refuse(f"raises {type(error).__name__}: {error}")
        leaves, structure = pytree.tree_flatten(result)
        outputs = [leaf.node if type(leaf) in (TensorValue, NumberValue) else leaf for leaf in leaves]
        holder = builder.holder
    snapshot.check()
    if any(each.is_mutated() for each in parameters):
        refuse("writes to what it is given")
    region = Region(graph, holder, leaves, outputs, structure, [])
    check_nodes(region)
    used = [*(node for each in graph.nodes for node in each.all_input_nodes), *outputs]
    region.taken = [
        node for node in dict.fromkeys(used) if isinstance(node, torch.fx.Node) and node.graph is not graph
    ]
    return region


def check_nodes(region: Region) -> None:
    """No size or error in a region depends on values of tensors: what is around it does not know them."""
    for node in region.graph.nodes:
        if node.meta.get("checks") or (node.meta.get("reads_values") and node.target not in CONTROL):
            refuse("needs the values of a tensor")
        if node.meta.get("has_effect") and torch.is_inference_mode_enabled():
            refuse("writes to a tensor in inference mode")


def check_results(
    region: Region, around: Sequence[torch.Tensor], places: Iterable[int] | None = None
) -> list[torch.Tensor | None]:
    """The fakes of a region's tensors, None for other leaves; each must have memory of its own.

    places: which of the leaves to look at; None: all.
    """
    memory = {storage_key(fake) for fake in around}
    found: list[torch.Tensor | None] = []
    for leaf in region.leaves if places is None else [region.leaves[k] for k in places]:
        found.append(leaf.fake if type(leaf) is TensorValue else None)
        if type(leaf) is TensorValue:
            if storage_key(leaf.fake) in memory:
                refuse("gives memory of a tensor that there is already")
            memory.add(storage_key(leaf.fake))
    return found


def record(
    world: Any,
    target: Any,
    head: tuple[Any, ...],
    regions: Sequence[Region],
    tail: tuple[Any, ...],
    run: Run,
    given: Sequence[Sequence[int]],
) -> tuple[Any, ...]:
    """A node `target(*head, *regions, *tail, taken)`, whose result on fakes `run` gives.

    given: of each region the leaves that its graph gives.
    """
    builder = world.builder
    taken = list(dict.fromkeys(node for region in regions for node in region.taken))
    nodes, modules = [], []
    for region, numbers in zip(regions, given, strict=True):
        name = f"region_{len(builder.holder._modules)}"
        modules.append(region.close(taken, numbers))
        builder.holder.add_module(name, modules[-1])
        nodes.append(builder.create_node("get_attr", name, (), {}))
    arguments = (*head, *nodes, *tail, tuple(taken))
    found: tuple[Any, ...] = builder.record_regions(target, arguments, lambda: run(modules, taken))
    return found


def fake_of(node: torch.fx.Node) -> Any:
    """What stands for a node's result in a run on fakes."""
    number = node.meta.get("stands_for")
    if number is None and "example_value" not in node.meta:
        refuse("takes a number that is no value of the program's")
    return node.meta["example_value"] if number is None else number.fake
