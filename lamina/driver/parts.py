"""A piece of a graph between two reads of tensors' values: compiled by itself, for the sizes it meets.

Sizes that depend on values seldom come twice. The first ones are compiled for; of the others, those that come
again; meanwhile the nodes run as they are.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from lamina.autograd.fake import fake_mode_of, quiet_fakes, to_fakes
from lamina.capture.runtime_checks import Expected
from lamina.driver.graph import Compiled, compile_graph
from lamina.driver.replay import write_replay
from lamina.driver.scalars import as_scalars, scalar_inputs
from lamina.driver.watch import watch
from lamina.errors import Unsupported
from lamina.ir.core import UNKNOWN
from lamina.ir.remarks import Remark
from lamina.options import Options
from lamina.reports.report import GraphReport

PROGRAMS_KEPT = 32
"""Sets of sizes of one part that have a program at the same time."""
SETS_REMEMBERED = 1024
"""Sets of sizes seen once, without a program yet."""
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
    programs: dict[Any, Compiled | None] = field(default_factory=dict)
    seen: dict[Any, None] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        numbers = [(k, None) for k, node in enumerate(self.inputs) if type(example_of(node)) in (int, float)]
        self.scalars = scalar_inputs(self.graph.graph, numbers)
        varying = [k for k, node in enumerate(self.inputs) if has_open_size(node)]
        self.keyed = [k for k in varying if k not in self.scalars]

    @property
    def touched(self) -> set[fx.Node]:
        return {*self.inputs, *self.outputs}

    def run(self, values: Values, sizes: Sizes) -> None:
        inputs = [values[node] for node in self.inputs]
        key = tuple(describe(inputs[k]) for k in self.keyed)
        program = self.programs.get(key) or self._find(key, inputs, sizes)
        outputs = self._run_as_it_is(inputs, sizes) if program is None else program(inputs)
        for node, value in zip(self.outputs, outputs, strict=True):
            values[node] = value
            check_result(node, value, sizes)

    def _run_as_it_is(self, inputs: Sequence[Any], sizes: Sizes) -> list[Any]:
        nodes = list(self.graph.graph.nodes)
        values: Values = dict(zip(nodes, inputs, strict=False))
        for node in nodes[len(inputs) : -1]:
            values[node] = run_node(node, values, sizes)
        return list(fx.map_arg(nodes[-1].args[0], values.__getitem__))

    def _find(self, key: Any, inputs: list[Any], sizes: Sizes) -> Compiled | None:
        """The program for inputs like these: compiled for the first sizes, and for such that come again."""
        with self.lock:
            if key in self.programs:
                return self.programs[key]
            if self.programs and key not in self.seen:
                if len(self.seen) >= SETS_REMEMBERED:
                    self.seen.clear()
                self.seen[key] = None
                return None
            if len(self.programs) >= PROGRAMS_KEPT:
                del self.programs[next(iter(self.programs))]
            made = self.programs[key] = self._compile(inputs, dict(sizes))
            return made

    def _compile(self, inputs: list[Any], sizes: Sizes) -> Compiled | None:
        """The program; None where there cannot be one. Programs of a key all see the sizes seen here."""
        mode = fake_mode_of(inputs)
        with mode, quiet_fakes():
            self._run_as_it_is(to_fakes(mode, inputs), sizes)
        values = as_scalars(inputs, self.scalars)
        try:
            with watch(self.options) as watching:
                made = compile_graph(self.graph, values, self.options, watching, self.kinds)
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
    inputs = [node for node in taken if node not in inside]
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    graph = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
        made[node].meta["example_value"] = example_of(node)
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
