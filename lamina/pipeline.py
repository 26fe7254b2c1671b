"""The compiler on one screen: which passes run, in which order, from graph to kernels and program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lamina.reports.report import GraphReport, KernelReport, Traffic
from lamina.ir.attributes import plain
from lamina.ir.core import Operation, lookup, symbol_name
from lamina.ir.machine import Target
from lamina.ir.ops.aten import is_extern
from lamina.ir.remarks import Remarks
from lamina.options import Options
from lamina.passes.fusion import fuse, outline, traffic
from lamina.passes.loops import expand_math, lower
from lamina.passes.program import insert_frees, plan_memory, reinplace, to_program
from lamina.passes.tensor import canonicalize, cse, dce, fold

FREE_OPERATIONS = frozenset({"arith.constant", "func.return", "tensor.empty"})
"""What costs eager no kernel of its own."""


@dataclass(frozen=True, slots=True)
class Context:
    """What passes may read and where they leave remarks."""

    options: Options
    target: Target
    remarks: Remarks
    stage: Callable[[str], AbstractContextManager[None]]


Run = Callable[[Operation, Any], None]

TENSOR_PASSES: dict[str, Run] = {
    "canonicalize": canonicalize.run,
    "fold": fold.run,
    "cse": cse.run,
    "dce": dce.run,
}
FUSION_PASSES: dict[str, Run] = {
    "fuse": fuse.run,
    "outline": outline.run,
}


def run_passes(module: Operation, passes: Mapping[str, Run], context: Context) -> None:
    """Run passes in order, those that the options leave out excepted."""
    for name, run in passes.items():
        if name not in context.options.disabled_passes:
            with context.stage(name):
                run(module, context)


def lower_kernel(function: Operation, target: Target, options: Options) -> Operation:
    """A kernel from the tensor level to the loop level."""
    kernel = lower.lower_kernel(function, target)
    expand_math.expand(kernel, target.isa)
    return kernel


def make_program(module: Operation, source: str) -> Operation:
    """The `program.func` of a function at tensor level whose kernels are outlined, memory planned."""
    program = to_program.run(module, source, f"{source}_program")
    reinplace.run(module, program)
    insert_frees.run(program)
    plan_memory.run(program)
    return program


def has_prepare(module: Operation) -> bool:
    """Whether there is weights-only work."""
    return any(symbol_name(each) == "prepare" for each in module.body)


def describe(module: Operation, report: GraphReport, eager_bytes: int) -> None:
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
    report.traffic = Traffic(eager_bytes, sum(moved.values()), traffic.least(module))


def _kernel_report(kernel: Operation, launches: int, size: int) -> KernelReport:
    inside = [
        each for each in kernel.body if each.name not in ("func.return", "arith.constant", "lamina.broadcast")
    ]
    lines = dict.fromkeys(str(each.location) for each in inside if each.location.file)
    names = [each.name for each in inside]
    return KernelReport(
        symbol_name(kernel) or "", plain(kernel.attributes["kind"]), names, list(lines), launches, size
    )


def count_operations(module: Operation) -> int:
    """Operations of @main that eager would run as kernels."""
    return sum(each.name not in FREE_OPERATIONS for each in lookup(module, "main").body)
