"""From a torch-level graph to a `Program`: trace, tensor passes, fusion, kernels, memory plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from lamina import pipeline
from lamina.autograd.eager_cost import eager_cost
from lamina.autograd.import_graph import import_graph
from lamina.autograd.outputs import kept_results
from lamina.autograd.symbols import OpenSizes
from lamina.autograd.trace import Traced, trace_inference
from lamina.driver.kernels import STORE
from lamina.driver.program import Program
from lamina.driver.watch import Watch
from lamina.ir.attributes import attribute, plain
from lamina.ir.core import BlockArgument, Operation, lookup
from lamina.ir.passes import Context, PassManager
from lamina.ir.sizes import Decisions, deciding
from lamina.ir.types import TensorType
from lamina.passes.fusion import traffic
from lamina.passes.program.to_program import buffer_root
from lamina.reports.report import GraphReport
from lamina.reports.report import Traffic as TrafficReport
from lamina.runtime.cache import Cache

Tensor = torch.Tensor


def make_program(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    kinds: Sequence[str],
    context: Context,
    cache: Cache,
    watch: Watch,
) -> Program:
    """Compile for inputs like these; the kernels are in the store afterwards."""
    with watch.stage("trace"):
        traced = trace_inference(graph, inputs)
    with watch.stage("import"):
        module = import_graph(traced)
        describe_main(lookup(module, "main"), traced, inputs, kinds)
    return lower_graph(module, traced, context, cache, watch)


def make_open_program(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    kinds: Sequence[str],
    sizes: OpenSizes,
    context: Context,
    cache: Cache,
    watch: Watch,
) -> Program:
    """Compile for all sizes under conditions. Main's memory is not planned yet."""
    with watch.stage("trace"):
        traced = trace_inference(graph, inputs, sizes)
    with deciding(Decisions(sizes.hints)) as decisions:
        with watch.stage("import"):
            module = import_graph(traced)
            describe_main(lookup(module, "main"), traced, inputs, kinds)
        program = lower_graph(module, traced, context, cache, watch, is_open=True)
    program.conditions = list(dict.fromkeys([*sizes.conditions(), *decisions.conditions]))
    program.number_conditions = list(sizes.number_conditions)
    program.derived = dict(sizes.derived)
    return program


def describe_main(main: Operation, traced: Traced, inputs: Sequence[Any], kinds: Sequence[str]) -> None:
    """Write what the later levels need onto @main: kinds of arguments, which results are kept."""
    positions = tensor_positions(inputs)
    named = [kinds[k] if kinds else _kind_of(inputs[k]) for k in positions]
    main.attributes["lamina.arg_kinds"] = attribute(named)
    main.attributes["lamina.kept"] = attribute(kept_results(traced.outputs))


def tensor_positions(inputs: Sequence[Any]) -> list[int]:
    """Which of the graph's inputs are tensors: the arguments of @main."""
    return [position for position, value in enumerate(inputs) if isinstance(value, Tensor)]


def _kind_of(value: Any) -> str:
    return "parameter" if isinstance(value, torch.nn.Parameter) else "input"


def lower_graph(
    module: Operation, traced: Traced, context: Context, cache: Cache, watch: Watch, *, is_open: bool = False
) -> Program:
    """From the tensor level to a program and its kernels. is_open: memory is planned when sizes are known."""
    cost = eager_cost(traced)
    report = GraphReport("graph", operations=cost.operations)
    report.traffic = TrafficReport(eager=cost.bytes, least=traffic.least(module))
    options = context.options
    manager = PassManager(
        pipeline=pipeline.GRAPH, verify=options.verify, print_after=frozenset(options.trace)
    )
    manager.run(module, context)
    kernels = STORE.make(pipeline.kernel_functions(module), context, cache, watch)
    with watch.stage("program"):
        main = pipeline.make_program(module, "main", is_planned=not is_open)
        prepare = pipeline.make_program(module, "prepare") if pipeline.has_prepare(module) else None
    with watch.stage("describe"):
        pipeline.describe(module, report)
    report.arena_bytes = 0 if is_open else plain(main.attributes["arena_bytes"])
    report.remarks = [remark.to_plain() for remark in context.remarks]
    arguments: list[int] = []
    if prepare is not None:
        arguments = plain(lookup(module, "main").attributes["lamina.prepare_arguments"])
        report.prepared_bytes = prepared_bytes(lookup(module, "prepare"))
        prepare.detach()
    main.detach()
    positions = tensor_positions(traced.inputs)
    return Program(
        main, prepare, arguments, kernels, positions, len(traced.inputs), traced.outputs,
        is_repeatable(main), report,
    )  # fmt: skip


def prepared_bytes(function: Operation) -> int:
    """Bytes that the results of @prepare hold: packed weights take what the weights take."""
    total = 0
    for value, strides in zip(
        function.body.terminator.operands, plain(function.attributes["lamina.result_strides"]), strict=True
    ):
        assert isinstance(value.type, TensorType)
        sizes = value.type.sizes
        count = math.prod(size if step else min(size, 1) for size, step in zip(sizes, strides, strict=True))
        total += count * value.type.element.bytes
    return total


def is_repeatable(program: Operation) -> bool:
    """Whether the program has changed nothing outside where it may fail: in library calls."""
    is_changed = False
    for operation in program.body:
        is_changed = is_changed or changes_outside(operation)
        if is_changed and operation.name == "program.call":
            return False
    return True


def changes_outside(operation: Operation) -> bool:
    """Whether an operation of a program writes to an argument or draws random numbers."""
    if operation.name == "program.call":
        effects = operation.attributes.get("effects")
        writes = plain(operation.attributes["callee"]).split(".")[1].endswith("_")
        return writes or (effects is not None and plain(effects) == "random")
    if operation.name == "program.copy":
        return isinstance(buffer_root(operation.operand(1)), BlockArgument)
    if operation.name != "program.launch":
        return False
    outputs = operation.operands[-plain(operation.attributes["outputs"]) :]
    return any(isinstance(buffer_root(value), BlockArgument) for value in outputs)
