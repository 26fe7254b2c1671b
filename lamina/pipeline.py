"""The compiler on one screen: which passes run, in which order, from graph to kernels and program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from lamina.codegen.llvm.to_llvm import to_llvm
from lamina.ir.attributes import plain
from lamina.ir.core import Block, Operation, Region, lookup, make_module, symbol_name
from lamina.ir.machine import Target
from lamina.ir.ops.aten import is_extern
from lamina.ir.opt import opt
from lamina.ir.passes import Context, Pass, Pipeline, chain
from lamina.passes import tensor
from lamina.passes.fusion import fuse, outline, traffic
from lamina.passes.loops import expand_math, reuse, schedule, to_linalg, vectorize
from lamina.passes.program import insert_frees, plan_memory, reinplace, to_program, write_into, write_over
from lamina.reports.report import GraphReport, KernelReport

Step = Callable[[Operation, Target], Operation]
Observer = Callable[[str, Operation], None]
"""Is told the name of each pass and the module after it."""


def kernel_pass(name: str, step: Step, takes: str, gives: str) -> Pass:
    """A pass that makes a new function of each kernel function of a module."""

    def run(module: Operation, context: Context) -> None:
        for function in [each for each in module.body if is_kernel(each)]:
            made = step(function, context.target)
            if made is not function:
                module.body.insert(made, function)
                function.detach()

    return Pass(name, run, takes, gives, is_required=True)


def is_kernel(operation: Operation) -> bool:
    """Whether this is the function of a generated kernel."""
    return operation.name == "func.func" and (symbol_name(operation) or "").startswith(outline.PREFIX)


def kernel_functions(module: Operation) -> dict[str, Operation]:
    """The kernel functions of a module, by name."""
    return {symbol_name(each) or "": each for each in module.body if is_kernel(each)}


def _run_to_llvm(module: Operation, context: Context) -> None:
    lowered = to_llvm(list(module.body))
    module.regions[0] = Region([Block()])
    module.regions[0].parent = module
    for function in list(lowered.body):
        function.detach()
        module.body.append(function)


FUSE = (
    Pass(fuse.NAME, fuse.run, "tensor", "fused", is_required=True),
    Pass(outline.NAME, outline.run, "fused", "tensor", is_required=True),
)
LOWER = (
    kernel_pass(to_linalg.NAME, lambda function, _: to_linalg.to_linalg(function), "tensor", "linalg"),
    kernel_pass(schedule.NAME, schedule.schedule, "linalg", "linalg"),
    kernel_pass(vectorize.NAME, lambda function, _: vectorize.vectorize(function), "linalg", "loops"),
    Pass(expand_math.NAME, expand_math.run, "loops", "loops", is_required=True),
    Pass(reuse.NAME, reuse.run, "loops", "loops"),
)
TO_LLVM = Pass("to_llvm", _run_to_llvm, "loops", "llvm", is_required=True)

GRAPH: Pipeline = chain(*tensor.PASSES, *FUSE)
"""@main of imported ATen operations -> @main of kernel calls and library calls, and the kernels."""
KERNEL: Pipeline = chain(*LOWER, TO_LLVM)
"""A module of kernel functions -> the llvm dialect."""

REGISTRY: dict[str, Pass] = {
    **tensor.REGISTRY, **{each.name: each for each in (*FUSE, *LOWER, TO_LLVM)}
}  # fmt: skip
"""Every pass that has a word in `lamina opt`."""


def lower_kernel(
    function: Operation, context: Context, observe: Observer | None = None, passes: Sequence[Pass] = LOWER
) -> Operation:
    """A kernel function from the tensor level to loops ready for code generation; `function` stays.

    passes: a beginning of LOWER, for who wants a level in between.
    """
    module = make_module()
    module.body.append(function.clone())
    for each in passes:
        each.run(module, context)
        if observe is not None:
            observe(each.name, module)
    (lowered,) = module.body
    lowered.detach()
    return lowered


def make_program(module: Operation, source: str, *, is_planned: bool = True) -> Operation:
    """The `program.func` of a function at tensor level whose kernels are outlined, memory planned or not."""
    program = to_program.run(module, source, f"{source}_program")
    reinplace.run(module, program)
    write_over.run(module, program)
    write_into.run(program)
    insert_frees.run(program)
    if is_planned:
        plan_memory.run(program)
    return program


def optimise(text: str, passes: str, filename: str, context: Context) -> str:
    """What `lamina opt` prints."""
    return opt(text, passes, REGISTRY, filename=filename, context=context)


def has_prepare(module: Operation) -> bool:
    """Whether there is weights-only work."""
    return any(symbol_name(each) == "prepare" for each in module.body)


def describe(module: Operation, report: GraphReport) -> None:
    """Fill in what a compiled module's report says of its kernels, library calls and traffic."""
    main = lookup(module, "main")
    moved = {entry.operation: entry.bytes for entry in traffic.of_function(module)}
    launches = Counter(plain(each.attributes["callee"]) for each in main.body if each.name == "func.call")
    for call in main.body:
        name = plain(call.attributes["callee"]) if call.name == "func.call" else None
        if name is not None and name in launches:
            kernel = lookup(module, name)
            report.kernels.append(_kernel_report(kernel, launches.pop(name), moved[call]))
    report.externs = dict(Counter(each.name for each in main.body if is_extern(each)))
    report.traffic.lamina = sum(moved.values())


SILENT = frozenset({"func.return", "arith.constant", "lamina.broadcast"})
"""Operations of a kernel that a reader of its report need not see."""


def _kernel_report(kernel: Operation, launches: int, size: int) -> KernelReport:
    inside = [each for each in kernel.body if each.name not in SILENT]
    lines = dict.fromkeys(str(each.location) for each in inside if each.location.file)
    names = [each.name for each in inside]
    kind = plain(kernel.attributes["kind"])
    return KernelReport(symbol_name(kernel) or "", kind, names, list(lines), launches, size)
