"""Lowerings of ATen ops to tensor-level IR, one table a family.

A lowering takes (Emitter, Call) and returns the result (a list for several), or None where kernels cannot
have eager's exact meaning: the op then stays a library call.
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.autograd.lower import (
    activations,
    division,
    elementwise,
    factories,
    indexing,
    losses,
    norms,
    pooling,
    reductions,
    views,
)
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir.core import Value

FAMILIES = (
    elementwise,
    division,
    activations,
    reductions,
    norms,
    losses,
    pooling,
    views,
    indexing,
    factories,
)

LOWERINGS: dict[str, Callable[[Emitter, Call], Value | list[Value] | None]] = {
    name: lowering for family in FAMILIES for name, lowering in family.LOWERINGS.items()
}
