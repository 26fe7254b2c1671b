"""Lowerings that an operation's record states by itself: elementwise ops that name the ATen ops they are.

The other tables come first; this one is for records with an expansion, which need no more than the record.
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.autograd.lower.dtypes import compute_type, element
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.ir.core import Value
from lamina.ir.ops import RECORDS
from lamina.ir.record import ELEMENTWISE, OpRecord


def record_lowering(name: str) -> Callable[[Emitter, Call], Value | None] | None:
    """The lowering of an ATen op that a record with an expansion names; None when there is none."""
    for found in RECORDS.values():
        if found.expand is not None and name in found.torch and found.has(ELEMENTWISE):
            return _lowering(found)
    return None


def _lowering(found: OpRecord) -> Callable[[Emitter, Call], Value | None]:
    def lower(e: Emitter, call: Call) -> Value | None:
        """Floats only: computed in f32 for the half types, rounded once."""
        operands = list(call.arguments.values())[: found.operands]
        if not call.element.is_float or not all(isinstance(value, Value) for value in operands):
            return None
        wide = compute_type(call.element)
        values = [e.operand(value, wide, call.shape) for value in operands]
        if any(element(value) is not wide for value in values):
            return None
        return e.cast(e.op(found.name, *values), call.element)

    return lower
