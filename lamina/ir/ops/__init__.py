"""The list of all operation records, one file a dialect."""

from __future__ import annotations

from lamina.ir.core import Operation
from lamina.ir.ops import arith, aten, func, lamina, math, tensor
from lamina.ir.record import COMMUTATIVE, ELEMENTWISE, PURE, OpRecord

DIALECTS = (func, arith, math, tensor, lamina, aten)

RECORDS: dict[str, OpRecord] = {record.name: record for dialect in DIALECTS for record in dialect.RECORDS}


def record(name: str) -> OpRecord | None:
    """The record of an operation by name; every `aten.*` shares one; None when unknown."""
    found = RECORDS.get(name)
    if found is None and name.startswith("aten."):
        return aten.RECORD
    return found


def is_pure(operation: Operation) -> bool:
    """Whether the operation may be removed when unused, and merged with an equal one."""
    if aten.is_extern(operation):
        return aten.effects(operation) is None
    found = RECORDS.get(operation.name)
    return found is not None and PURE in found.traits


def is_elementwise(operation: Operation) -> bool:
    found = RECORDS.get(operation.name)
    return found is not None and ELEMENTWISE in found.traits


def is_commutative(operation: Operation) -> bool:
    found = RECORDS.get(operation.name)
    return found is not None and COMMUTATIVE in found.traits
