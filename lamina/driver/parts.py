"""A piece of a graph between two reads of tensors' values: compiled by itself, once for all sizes.

The program is made for the first sizes. To put others into it takes milliseconds, and sizes that depend on
values seldom come twice: that is done for sizes that come again, and at once where the part has much to do;
otherwise the nodes run as they are. Sizes 0 and 1, and all where an operation needs to know a size, have a
program for each set that comes again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from lamina.autograd.fake import fake_mode_of, to_fakes
from lamina.capture.runtime_checks import Expected
from lamina.driver.graph import Compiled, compile_graph
from lamina.driver.open_sizes import OpenGraph
from lamina.driver.replay import write_replay
from lamina.driver.scalars import as_scalars, scalar_inputs
from lamina.driver.sizes import OpenPrograms
from lamina.driver.watch import Watch, watch
from lamina.eager.logs import quiet_fakes
from lamina.errors import Unsupported
from lamina.ir.core import UNKNOWN
from lamina.ir.remarks import Remark
from lamina.options import Options
from lamina.reports.report import GraphReport

PROGRAMS_KEPT = 64
"""Sets of sizes of one part that have a program at the same time."""
MUCH_WORK = 2**24
"""Elements times operations from which a new set of sizes is put into the program at once: that costs some
milliseconds, about as much as the operations."""
SETS_REMEMBERED = 1024
"""Sets of sizes for which the nodes have run as they are."""
Values = dict[fx.Node, Any]
Sizes = dict[str, int]


def run_node(node: fx.Node, values: Values, sizes: Sizes) -> Any:
    """What a node gives, with the sizes that the capture took it to have; RuntimeError for others."""
    args = fx.map_arg(node.args, values.__getitem__)
    kwargs = fx.map_arg(node.kwargs, values.__getitem__)
    if node.op == "call_method":
        result = getattr(args[0], str(node.target))(*args[1:], **kwargs)
    else:
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    check_result(node, result, sizes)
    return result


def check_result(node: fx.Node, result: Any, sizes: Sizes) -> None:
    example = node.meta.get("example_value")
    if not isinstance(example, torch.Tensor):
        return
    expected: Expected | None = node.meta.get("expected")
    if expected is None:
        expected = node.meta["expected"] = Expected(example)
    expected.check(result, sizes)


@dataclass(slots=True)
class Part:
    """Nodes between reads: a graph of its own, compiled for the sizes it meets."""

    graph: fx.GraphModule
    inputs: list[fx.Node]
    outputs: list[fx.Node]
    kinds: list[str]
    options: Options
    report: GraphReport
    dropped: list[fx.Node] = field(default_factory=list)
    scalars: list[int] = field(init=False)
    """Inputs that are numbers and may as well be tensors."""
    keyed: list[int] = field(init=False)
    """Inputs that vary otherwise."""
    open: OpenPrograms = field(init=False)
    """The program for all sizes, or why there is none."""
    programs: dict[Any, Compiled | None] = field(default_factory=dict)
    seen: dict[Any, None] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        numbers = [(k, None) for k, node in enumerate(self.inputs) if type(example_of(node)) in (int, float)]
        self.scalars = scalar_inputs(self.graph.graph, numbers)
        varying = [k for k, node in enumerate(self.inputs) if has_open_size(node)]
        self.keyed = [k for k in varying if k not in self.scalars]
        places = [place for k in self.keyed for place in open_places(k, self.inputs[k])]
        self.open = OpenPrograms(OpenGraph(self.graph, self.kinds, places, self.options))

    @property
    def touched(self) -> set[fx.Node]:
        return {*self.inputs, *self.outputs}

    def run(self, values: Values, sizes: Sizes) -> None:
        inputs = [values[node] for node in self.inputs]
        key = tuple(describe(inputs[k]) for k in self.keyed)
        program = self.programs.get(key) or self._find(key, inputs, sizes)
        if program is None:
            outputs = self._run_as_it_is(inputs, sizes)
            self._remember(key)
        else:
            outputs = program(inputs)
        for node, value in zip(self.outputs, outputs, strict=True):
            values[node] = value
            check_result(node, value, sizes)

    def _run_as_it_is(self, inputs: Sequence[Any], sizes: Sizes) -> list[Any]:
        nodes = list(self.graph.graph.nodes)
        values: Values = dict(zip(nodes, inputs, strict=False))
        for node in nodes[len(inputs) : -1]:
            inner = getattr(self.graph, str(node.target)) if node.op == "get_attr" else None
            values[node] = inner or run_node(node, values, sizes)
        return list(fx.map_arg(nodes[-1].args[0], values.__getitem__))

    def _find(self, key: Any, inputs: list[Any], sizes: Sizes) -> Compiled | None:
        """The program for inputs like these; None where the nodes are to run as they are."""
        with self.lock:
            if key in self.programs:
                return self.programs[key]
            if self.programs and key not in self.seen and not self._is_worth_binding(inputs):
                return None
            if len(self.programs) >= PROGRAMS_KEPT:
                del self.programs[next(iter(self.programs))]
            if key not in self.seen:
                self._run_on_fakes(inputs, dict(sizes))
            made = self.programs[key] = self._compile(inputs)
            return made

    def _remember(self, key: Any) -> None:
        """The nodes have run for these sizes: all results had those that the capture took them to have."""
        if len(self.seen) >= SETS_REMEMBERED:
            self.seen.clear()
        self.seen[key] = None

    def _is_worth_binding(self, inputs: list[Any]) -> bool:
        """Whether a call at new sizes takes about as long as to put them into the program that there is."""
        elements = max((each.numel() for each in inputs if isinstance(each, torch.Tensor)), default=0)
        work = elements * (len(self.graph.graph.nodes) - len(inputs) - 1)
        return work >= MUCH_WORK and self.open.hold(as_scalars(inputs, self.scalars))

    def _run_on_fakes(self, inputs: list[Any], sizes: Sizes) -> None:
        """See that all results have the sizes that the capture took them to have; a program does not look."""
        mode = fake_mode_of(inputs)
        with mode, quiet_fakes():
            self._run_as_it_is(to_fakes(mode, inputs), sizes)

    def _compile(self, inputs: list[Any]) -> Compiled | None:
        """The program; None where there cannot be one."""
        values = as_scalars(inputs, self.scalars)
        try:
            with watch(self.options) as watching:
                made = self._find_open(values, watching) or compile_graph(
                    self.graph, values, self.options, watching, self.kinds
                )
        except Unsupported as error:
            text = f"a part of the graph runs eagerly: {error.message}"
            self.report.remarks.append(Remark("segments", "refused", UNKNOWN, text).to_plain())
            return None
        except Exception as error:
            bug = write_replay(error, self.graph, {}, self.options)
            warnings.warn(f"lamina: {bug.message}; a part ran eagerly. {bug.replay_folder}", stacklevel=2)
            return None
        if not self.programs:
            add_report(self.report, made.report)
        return Compiled(lambda inputs: made(as_scalars(inputs, self.scalars))) if self.scalars else made

    def _find_open(self, values: Sequence[Any], watching: Watch) -> Compiled | None:
        """The program for all sizes, with these sizes put in; None where there is none for them."""
        if not self.keyed or any(type(values[k]) not in (int, torch.Tensor) for k in self.keyed):
            return None
        remark = self.open.remark
        found = self.open.find(values, watching)
        if self.open.remark is not remark and self.open.remark is not None:
            self.report.remarks.append(self.open.remark.to_plain())
        return found


def make_part(
    module: fx.GraphModule,
    nodes: list[fx.Node],
    kinds: dict[fx.Node, str],
    options: Options,
    report: GraphReport,
) -> Part:
    """The part of a graph that `nodes` are, from what they take to what others take of them."""
    inside = set(nodes)
    taken = dict.fromkeys(each for node in nodes for each in node.all_input_nodes)
    inputs = [node for node in taken if node not in inside and node.op != "get_attr"]
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    graph = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
        made[node].meta["example_value"] = example_of(node)
    # Graphs inside this one, called by its nodes.
    nodes = [*(node for node in taken if node.op == "get_attr"), *nodes]
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(tuple(made[node] for node in outputs))
    names = [kinds.get(node, "input") for node in inputs]
    return Part(fx.GraphModule(module, graph), inputs, outputs, names, options, report)


def example_of(node: fx.Node) -> Any:
    """What the capture saw of a node's result; of a number that only the running graph knows, any."""
    kind = node.meta.get("number")
    return node.meta.get("example_value") if kind is None else kind(2)


def has_open_size(node: fx.Node) -> bool:
    """Whether a node's result is a number or has sizes that differ from call to call."""
    example = example_of(node)
    if not isinstance(example, torch.Tensor):
        return True
    return any(type(size) is not int for size in example.shape)


def open_places(position: int, node: fx.Node) -> list[tuple[int, int | None]]:
    """The dimensions of input number `position` that vary, or the input itself where it is a number."""
    example = example_of(node)
    if not isinstance(example, torch.Tensor):
        return [(position, None)]
    return [(position, k) for k, size in enumerate(example.shape) if type(size) is not int]


def describe(value: Any) -> Any:
    """What of an input a program depends on."""
    return (value.shape, value.stride()) if isinstance(value, torch.Tensor) else repr(value)


def add_report(whole: GraphReport, part: GraphReport) -> None:
    """Add what was made of a part to the report of the whole."""
    whole.operations += part.operations
    whole.kernels += part.kernels
    whole.remarks += part.remarks
    whole.arena_bytes += part.arena_bytes
    whole.prepared_bytes += part.prepared_bytes
    for name, calls in part.externs.items():
        whole.externs[name] = whole.externs.get(name, 0) + calls
    for name, seconds in part.seconds.items():
        whole.seconds[name] = whole.seconds.get(name, 0.0) + seconds
    for name in ("eager", "lamina", "least"):
        setattr(whole.traffic, name, getattr(whole.traffic, name) + getattr(part.traffic, name))
