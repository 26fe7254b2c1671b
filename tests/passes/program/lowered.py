"""Functions lowered to the program level, with what runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from lamina.driver.kernels import STORE
from lamina.driver.lowering import make_program
from lamina.driver.watch import Watch
from lamina.ir import machine
from lamina.ir.core import Operation
from lamina.ir.passes import Context
from lamina.options import Options
from lamina.runtime.cache import Cache
from lamina.runtime.executor import Executor


def lower(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Operation, Executor]:
    """The `program.func` of a function of tensors, and it ready to run."""
    options = Options(cache=False)
    context = Context(options, machine.host(options))
    program = make_program(fx.symbolic_trace(function), inputs, (), context, Cache(None), Watch())
    return program.main, Executor(program.main, STORE.callables(program.kernels))
