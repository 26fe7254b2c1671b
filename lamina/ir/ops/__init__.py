"""The list of all operation records, one file a dialect."""

from __future__ import annotations

from lamina.ir.core import Operation
from lamina.ir.ops import (
    arith,
    aten,
    cf,
    func,
    lamina,
    linalg,
    llvm,
    math,
    memref,
    program,
    scf,
    tensor,
    vector,
)
from lamina.ir.record import COMMUTATIVE, ELEMENTWISE, PURE, OpRecord

DIALECTS = (func, cf, arith, math, tensor, lamina, linalg, memref, scf, vector, llvm, program, aten)

RECORDS: dict[str, OpRecord] = {record.name: record for dialect in DIALECTS for record in dialect.RECORDS}
IMPLIED = {name: found.implied for name, found in RECORDS.items() if found.implied}
OWN_DIALECTS = frozenset(record.dialect for record in RECORDS.values())


def record(name: str) -> OpRecord | None:
    """The record of an operation by name; library operations share one; None in our dialects when unknown."""
    found = RECORDS.get(name)
    if found is None and name.split(".", 1)[0] not in OWN_DIALECTS:
        return aten.RECORD
    return found


def is_pure(operation: Operation) -> bool:
    """Whether the operation does nothing but compute its results: it may be merged with an equal one."""
    if aten.is_extern(operation):
        return aten.effects(operation) is None
    found = RECORDS.get(operation.name)
    return found is not None and PURE in found.traits


def is_removable(operation: Operation) -> bool:
    """Whether the operation may be removed when unused."""
    return is_pure(operation) and "raises" not in operation.attributes


def is_elementwise(operation: Operation) -> bool:
    found = RECORDS.get(operation.name)
    return found is not None and ELEMENTWISE in found.traits


def is_commutative(operation: Operation) -> bool:
    found = RECORDS.get(operation.name)
    return found is not None and COMMUTATIVE in found.traits
