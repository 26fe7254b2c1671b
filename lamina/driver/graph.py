"""Compiles one torch-level graph: trace, tensor passes, fusion, kernels, program, executor.

The result is called with the graph's inputs and gives the graph's outputs, in eager's strides, with eager's
aliasing and mutations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from lamina import pipeline
from lamina.autograd.eager_cost import eager_cost
from lamina.autograd.import_graph import import_graph
from lamina.autograd.trace import (
    ConstantOutput,
    FreshOutput,
    InputOutput,
    Output,
    SameOutput,
    Traced,
    ViewOutput,
    trace_inference,
)
from lamina.driver.kernels import STORE, kernel_functions
from lamina.driver.prepared import Prepared
from lamina.driver.watch import Watch, counters
from lamina.ir import machine
from lamina.ir.attributes import attribute, plain
from lamina.ir.core import BlockArgument, Operation, lookup
from lamina.ir.passes import Context, PassManager
from lamina.ir.types import TensorType
from lamina.options import Options
from lamina.passes.fusion import traffic
from lamina.passes.program.to_program import buffer_root
from lamina.reports.report import GraphReport, Traffic
from lamina.runtime.cache import Cache
from lamina.runtime.executor import Executor
from lamina.runtime.library_calls import available_libraries

Tensor = torch.Tensor


@dataclass(slots=True)
class Compiled:
    """A graph ready to run: `compiled(inputs) -> outputs`, flat lists as the graph has them."""

    run: Callable[[Sequence[Any]], list[Any]]
    report: GraphReport = field(default_factory=lambda: GraphReport("graph"))
    is_repeatable: bool = False
    """Whether a call that failed left no trace: no argument written in place, no random number drawn."""

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.run(inputs)


def compile_graph(
    graph: fx.GraphModule, inputs: Sequence[Any], options: Options, watch: Watch, kinds: Sequence[str] = ()
) -> Compiled:
    """Compile for inputs like these. `kinds` says of each whether it is an "input", "parameter" or "buffer".

    Raises Unsupported for what cannot be compiled, CompilerBug (with the IR before the pass) for failures.
    """
    with watch.stage("trace"):
        traced = trace_inference(graph, inputs)
    with watch.stage("import"):
        module = import_graph(traced)
        describe_main(lookup(module, "main"), traced, inputs, kinds)
    context = Context(options, machine.host(options), libraries=available_libraries(), stage=watch.stage)
    return lower_graph(module, traced, context, watch)


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


def kept_results(outputs: Sequence[Output]) -> list[int]:
    """Results that some output is made of."""
    used = [each.result for each in outputs if isinstance(each, FreshOutput)]
    used += [each.base for each in outputs if isinstance(each, ViewOutput) and not each.is_input]
    return sorted(set(used))


def lower_graph(module: Operation, traced: Traced, context: Context, watch: Watch) -> Compiled:
    """From the tensor level to something that runs."""
    cost = eager_cost(traced)
    report = GraphReport("graph", operations=cost.operations)
    report.traffic = Traffic(eager=cost.bytes, least=traffic.least(module))
    options = context.options
    cache = Cache(options.cache_path() if options.cache else None)
    manager = PassManager(
        pipeline=pipeline.GRAPH, verify=options.verify, print_after=frozenset(options.trace)
    )
    manager.run(module, context)
    kernels = STORE.kernels(kernel_functions(module), context, cache, watch)
    with watch.stage("program"):
        main = Executor(pipeline.make_program(module, "main"), kernels, options.threads)
        prepare = pipeline.make_program(module, "prepare") if pipeline.has_prepare(module) else None
    with watch.stage("describe"):
        pipeline.describe(module, report)
    counters.kernels += len(kernels)
    counters.externs += sum(report.externs.values())
    report.seconds = watch.seconds
    report.arena_bytes = main.arena_bytes
    report.remarks = [remark.to_plain() for remark in context.remarks]
    report.texts["program"] = main.source
    run: Callable[[Sequence[Any]], list[Any]] = main
    if prepare is not None:
        arguments = plain(lookup(module, "main").attributes["lamina.prepare_arguments"])
        report.prepared_bytes = prepared_bytes(lookup(module, "prepare"))
        run = Prepared(main, Executor(prepare, kernels), arguments)
    return Compiled(finish_outputs(run, traced), report, is_repeatable(module))


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


def is_repeatable(module: Operation) -> bool:
    """Whether the program, stopped halfway, has changed nothing that the caller sees."""
    main = lookup(module, "main_program").body
    calls = [each for each in main if each.name == "program.call"]
    writes = any(plain(each.attributes["callee"]).split(".")[1].endswith("_") for each in calls)
    draws = any(
        "effects" in each.attributes and plain(each.attributes["effects"]) == "random" for each in calls
    )
    launches = [each for each in main if each.name == "program.launch"]
    outputs = [value for each in launches for value in each.operands[-plain(each.attributes["outputs"]) :]]
    into = any(isinstance(buffer_root(value), BlockArgument) for value in outputs)
    return not (writes or draws or into)


def finish_outputs(
    run: Callable[[Sequence[Any]], list[Any]], traced: Traced
) -> Callable[[Sequence[Any]], list[Any]]:
    """Wrap `run` so that it takes the graph's inputs and gives its outputs.

    run: from the tensors among the inputs to the kept results. The wrapper is written as Python text.
    """
    kept = {result: place for place, result in enumerate(kept_results(traced.outputs))}
    positions = tensor_positions(traced.inputs)
    names: dict[str, Any] = {"run": run, "as_strided": torch.as_strided}
    outputs: list[str] = []
    for place, output in enumerate(traced.outputs):
        match output:
            case FreshOutput(result):
                text = f"results[{kept[result]}]"
            case ViewOutput(base, is_input, size, stride, offset, _):
                source = f"inputs[{base}]" if is_input else f"results[{kept[base]}]"
                text = f"as_strided({source}, {size}, {stride}, {source}.storage_offset() + {offset})"
            case InputOutput(index):
                text = f"inputs[{index}]"
            case SameOutput(earlier):
                text = outputs[earlier]
            case ConstantOutput(value):
                text = f"constant_{place}"
                names[text] = value
        outputs.append(f"o{place}")
        names.setdefault("lines", []).append(f"o{place} = {text}")
    whole = len(positions) == len(traced.inputs)
    chosen = "inputs" if whole else "[" + ", ".join(f"inputs[{k}]" for k in positions) + "]"
    lines = [f"results = run({chosen})", *names.pop("lines", []), f"return [{', '.join(outputs)}]"]
    if whole and outputs and all(isinstance(each, FreshOutput) for each in traced.outputs):
        order = [kept[each.result] for each in traced.outputs if isinstance(each, FreshOutput)]
        if order == list(range(len(kept))):
            return run
    source = "def finish(inputs):\n    " + "\n    ".join(lines) + "\n"
    exec(compile(source, "<lamina outputs>", "exec"), names)
    finished: Callable[[Sequence[Any]], list[Any]] = names["finish"]
    return finished
