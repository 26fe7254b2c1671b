"""From a kernel of tensor operations to loops, in the order of the steps."""

from __future__ import annotations

from collections.abc import Callable

from lamina.ir.core import Operation
from lamina.ir.machine import Target
from lamina.passes.loops.schedule import schedule
from lamina.passes.loops.to_linalg import to_linalg
from lamina.passes.loops.vectorize import vectorize

Observer = Callable[[str, Operation], None]
"""Is told the name of each step and the kernel after it."""


def lower_kernel(function: Operation, target: Target, observe: Observer | None = None) -> Operation:
    """The loop-level kernel of an outlined tensor-level one: a new, detached `func.func` on memrefs.

    Its arguments are the inputs, then the results, with the strides of `lamina.arg_strides` and
    `lamina.result_strides`. Unsupported when one kernel cannot compute the body.
    """
    tell = observe or (lambda name, kernel: None)
    kernel = to_linalg(function)
    tell("to_linalg", kernel)
    kernel = schedule(kernel, target)
    tell("schedule", kernel)
    kernel = vectorize(kernel)
    tell("vectorize", kernel)
    return kernel
