"""The text of one program at every level, for people who read and for tests of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from lamina import pipeline
from lamina.autograd.import_graph import import_graph
from lamina.autograd.symbols import STATIC, OpenSizes
from lamina.autograd.trace import Traced, trace_inference
from lamina.codegen.llvm.emit import emit
from lamina.codegen.llvm.to_llvm import to_llvm
from lamina.driver.lowering import describe_main
from lamina.ir import machine
from lamina.ir.core import Operation, lookup, make_module
from lamina.ir.passes import Context, PassManager
from lamina.ir.sizes import NOTHING, Decisions, deciding
from lamina.ir.text import print_module
from lamina.options import Options
from lamina.runtime.library_calls import available_libraries


def texts_by_level(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    kinds: Sequence[str] = (),
    sizes: OpenSizes = STATIC,
) -> dict[str, list[str]]:
    """IR text by level: "tensor" (imported), "fused" (kernels outlined), then a text for each kernel at
    "to_linalg", "schedule", "vectorize", "expand_math" and "to_llvm", LLVM's own at "llvm_ir", and "program".

    Nothing is compiled to machine code or kept. sizes: the symbols in the sizes of fakes among the inputs.
    """
    traced = trace_inference(graph, inputs, sizes)
    with deciding(Decisions(sizes.hints)):
        return _texts(traced, inputs, options, kinds, is_open=sizes is not STATIC)


def _texts(
    traced: Traced, inputs: Sequence[Any], options: Options, kinds: Sequence[str], *, is_open: bool
) -> dict[str, list[str]]:
    module = import_graph(traced)
    describe_main(lookup(module, "main"), traced, inputs, kinds)
    context = Context(options, machine.host(options), libraries=available_libraries())
    texts = {"tensor": [print_module(module, locations=True)]}
    PassManager(pipeline=pipeline.GRAPH, verify=True).run(module, context)
    texts["fused"] = [print_module(module, locations=True)]

    def keep(level: str, after: Operation) -> None:
        texts.setdefault(level, []).append(print_module(after, locations=True))

    for function in pipeline.kernel_functions(module).values():
        with deciding(NOTHING):
            lowered = to_llvm([pipeline.lower_kernel(function, context, keep)])
        keep("to_llvm", lowered)
        texts.setdefault("llvm_ir", []).append(emit(lowered))
    for source in ("main", "prepare") if pipeline.has_prepare(module) else ("main",):
        program = pipeline.make_program(module, source, is_planned=not is_open)
        program.detach()
        alone = make_module()
        alone.body.append(program)
        keep("program", alone)
    return texts
