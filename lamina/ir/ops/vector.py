"""`vector`: one-dimensional vectors in registers, their loads and stores."""

from __future__ import annotations

from lamina.ir.attributes import OpaqueAttr, plain
from lamina.ir.core import Operation
from lamina.ir.ops.memref import as_memref
from lamina.ir.record import PURE, READS, WRITES, OpRecord
from lamina.ir.types import Type, VectorType, i1, index

COMBINING = (
    "add",
    "mul",
    "minsi",
    "maxsi",
    "minui",
    "maxui",
    "minimumf",
    "maximumf",
    "minnumf",
    "maxnumf",
    "and",
    "or",
    "xor",
)
"""Kinds of `vector.reduction`."""


def combining_kind(name: str) -> OpaqueAttr:
    """The `kind` attribute of `vector.reduction`."""
    if name not in COMBINING:
        raise ValueError(f"no combining kind {name}; there are {', '.join(COMBINING)}")
    return OpaqueAttr(f"#vector.kind<{name}>")


def combining_name(operation: Operation) -> str:
    """The kind of a `vector.reduction` as a word."""
    attribute = operation.attributes["kind"]
    if not isinstance(attribute, OpaqueAttr):
        raise ValueError("kind must be #vector.kind<...>")
    return attribute.spelling.removeprefix("#vector.kind<").removesuffix(">")


def as_vector(type_: Type) -> VectorType:
    if not isinstance(type_, VectorType):
        raise ValueError(f"needs a vector, got {type_}")
    return type_


def _verify_memory(memory: Type, value: Type) -> None:
    if as_memref(memory).element is not as_vector(value).element:
        raise ValueError(f"accesses {value} in {memory}")


def _verify_load(operation: Operation) -> None:
    _verify_memory(operation.operand(0).type, operation.result.type)


def _verify_store(operation: Operation) -> None:
    _verify_memory(operation.operand(1).type, operation.operand(0).type)


def _verify_masked(operation: Operation) -> None:
    """Operands of masked accesses end in the mask and a vector (pass-through of a load, value of a store)."""
    mask, value = operation.operands[-2:]
    _verify_memory(operation.operand(0).type, value.type)
    if mask.type is not VectorType.get(as_vector(value.type).shape, i1):
        raise ValueError(f"mask {mask.type} for {value.type}")


def _verify_broadcast(operation: Operation) -> None:
    if as_vector(operation.result.type).element is not operation.operand().type:
        raise ValueError(f"broadcasts {operation.operand().type} to {operation.result.type}")


def _verify_mask(operation: Operation) -> None:
    if as_vector(operation.result.type).element is not i1 or operation.operand().type is not index:
        raise ValueError(f"makes {operation.result.type} of {operation.operand().type}")


def _verify_reduction(operation: Operation) -> None:
    combining_kind(combining_name(operation))
    if as_vector(operation.operand(0).type).element is not operation.result.type:
        raise ValueError(f"reduces {operation.operand(0).type} to {operation.result.type}")


def _verify_shuffle(operation: Operation) -> None:
    total = sum(as_vector(value.type).shape[0] for value in operation.operands)
    if any(not 0 <= position < total for position in plain(operation.attributes["mask"])):
        raise ValueError(f"mask leaves 0..{total - 1}")


RECORDS = (
    OpRecord(
        "vector.load", None, 1, frozenset({READS}), verify=_verify_load, optional=("nontemporal", "alignment")
    ),
    OpRecord(
        "vector.store",
        None,
        0,
        frozenset({WRITES}),
        verify=_verify_store,
        optional=("nontemporal", "alignment"),
    ),
    OpRecord("vector.maskedload", None, 1, frozenset({READS}), verify=_verify_masked),
    OpRecord("vector.maskedstore", None, 0, frozenset({WRITES}), verify=_verify_masked),
    OpRecord("vector.gather", None, 1, frozenset({READS}), verify=_verify_masked),
    OpRecord("vector.scatter", None, 0, frozenset({WRITES}), verify=_verify_masked),
    OpRecord("vector.broadcast", 1, 1, frozenset({PURE}), verify=_verify_broadcast),
    OpRecord("vector.create_mask", 1, 1, frozenset({PURE}), verify=_verify_mask),
    OpRecord("vector.step", 0, 1, frozenset({PURE})),
    OpRecord("vector.reduction", None, 1, frozenset({PURE}), ("kind",), verify=_verify_reduction),
    OpRecord("vector.extract", 1, 1, frozenset({PURE}), ("static_position",)),
    OpRecord("vector.insert", 2, 1, frozenset({PURE}), ("static_position",)),
    OpRecord("vector.shuffle", 2, 1, frozenset({PURE}), ("mask",), verify=_verify_shuffle),
)
