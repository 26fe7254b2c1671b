"""Makes the texts that docs/architecture.md shows: one kernel from bytecode to machine code.

`python -m tests.docs.walk` writes them into the page; the test compares.
"""

from __future__ import annotations

import dis
import io
import re
from pathlib import Path

import torch
from torch import Tensor

from lamina import pipeline
from lamina.autograd.import_graph import import_graph
from lamina.autograd.trace import trace_inference
from lamina.capture import trace
from lamina.codegen.llvm.compile import assembly
from lamina.codegen.llvm.emit import emit
from lamina.codegen.llvm.to_llvm import to_llvm
from lamina.driver.lowering import describe_main
from lamina.ir.core import Operation, lookup, make_module
from lamina.ir.machine import Target
from lamina.ir.passes import Context, PassManager
from lamina.ir.text import print_module

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
TARGET = Target(
    name="a processor with AVX-512", isa="avx512", vector_bits=512, features=(), cores=2, l1_bytes=48 << 10,
    l2_bytes=2 << 20, l3_bytes=32 << 20, copy_bandwidth=2e10, cache_bandwidth=1e11, peak_flops=2e11,
    launch_seconds=3e-6,
)  # fmt: skip
"""Fixed, so that the page does not depend on the machine."""


def program(x: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(x + bias) * 2


def texts() -> dict[str, str]:
    """What the page shows, by name."""
    args = (torch.zeros(64, 256), torch.zeros(256))
    found = {"bytecode": _bytecode()}
    with torch.no_grad():
        captured = trace(program, args, {})
        inputs = captured.fetch_inputs(args, {})
        found["graph"] = str(captured.graph_module.graph)
        found["guards"] = captured.guards_text()
        traced = trace_inference(captured.graph_module, inputs)
    module = import_graph(traced)
    describe_main(lookup(module, "main"), traced, inputs, ())
    found["tensor"] = print_module(module)
    context = Context(target=TARGET)
    PassManager(pipeline=pipeline.GRAPH, verify=True).run(module, context)
    found["fused"] = print_module(module)
    ((_, kernel),) = pipeline.kernel_functions(module).items()

    def keep(name: str, after: Operation) -> None:
        found[name] = print_module(after.body.first or after)

    lowered = pipeline.lower_kernel(kernel, context, keep)
    machine_level = to_llvm([lowered])
    found["to_llvm"] = _shorten(print_module(machine_level), 60)
    text = emit(machine_level)
    found["assembly"] = _loop_of(assembly(text, "avx512"))
    found["program"] = _alone(pipeline.make_program(module, "main"))
    return {name: text.strip("\n") for name, text in found.items()}


def _bytecode() -> str:
    stream = io.StringIO()
    dis.dis(program, file=stream)
    lines = [re.sub(r"^\s*\d+\s+(?=\d)|^\s+", "", line) for line in stream.getvalue().splitlines()]
    return "\n".join(line for line in lines if line)


def _alone(operation: Operation) -> str:
    operation.detach()
    module = make_module()
    module.body.append(operation)
    return print_module(operation)


def _shorten(text: str, most: int) -> str:
    lines = text.splitlines()
    return "\n".join(lines[:most] + ([f"... {len(lines) - most} more lines"] if len(lines) > most else []))


def _loop_of(text: str) -> str:
    """The instructions of the function that holds the loop, without directives."""
    body = text.split("kernel_0.loop:", 1)[-1].split(".Lfunc_end", 1)[0]
    lines = [line.split("#")[0].rstrip() for line in body.splitlines()]
    return "\n".join(line for line in lines if line.strip() and not line.strip().startswith("."))


def fill(page: str, shown: dict[str, str]) -> str:
    """The page with every `<!-- walk: name -->` block replaced by the current text."""

    def block(match: re.Match[str]) -> str:
        name, fence = match.group(1), match.group(2)
        return f"<!-- walk: {name} -->\n```{fence}\n{shown[name]}\n```\n<!-- /walk -->"

    return re.sub(r"<!-- walk: (\w+) -->\n```(\w*)\n.*?```\n<!-- /walk -->", block, page, flags=re.DOTALL)


if __name__ == "__main__":
    # Through the import, so that guards name this module as the test sees it.
    from tests.docs import walk

    PAGE.write_text(walk.fill(PAGE.read_text(encoding="utf-8"), walk.texts()), encoding="utf-8")
