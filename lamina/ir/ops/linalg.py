"""`linalg`: loop nests over buffers with a scalar body, as upstream defines them (here always on memrefs)."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ir.affine import AffineMap
from lamina.ir.attributes import ITERATORS, ArrayAttr, Attribute, DenseArrayAttr, plain
from lamina.ir.core import Builder, Operation, Region, Value
from lamina.ir.record import PURE, READS, TERMINATOR, WRITES, OpRecord
from lamina.ir.types import i32


def segment_sizes(*counts: int) -> DenseArrayAttr:
    """`operandSegmentSizes`: how many operands each operand group has."""
    return DenseArrayAttr(counts, i32)


def iterator_types(kinds: Sequence[str]) -> ArrayAttr:
    """`kinds`: "parallel" or "reduction" for each dimension."""
    return ArrayAttr(tuple(ITERATORS[kind] for kind in kinds))


def iterator_kinds(operation: Operation) -> list[str]:
    """ "parallel" or "reduction" for each dimension of a `linalg.generic`."""
    names = {value: key for key, value in ITERATORS.items()}
    attribute = operation.attributes["iterator_types"]
    if not isinstance(attribute, ArrayAttr):
        raise ValueError("iterator_types must be an array")
    return [names[entry] for entry in attribute.elements]  # type: ignore[index]


def indexing_maps(operation: Operation) -> list[AffineMap]:
    """The map of each operand, inputs before outputs."""
    maps: list[AffineMap] = plain(operation.attributes["indexing_maps"])
    return maps


def inputs_and_outputs(operation: Operation) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The two operand groups of a `linalg.generic`."""
    count = plain(operation.attributes["operandSegmentSizes"])[0]
    return operation.operands[:count], operation.operands[count:]


def generic(
    builder: Builder,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    maps: Sequence[AffineMap],
    kinds: Sequence[str],
    body: Region,
    attributes: dict[str, Attribute] | None = None,
) -> Operation:
    """Build a `linalg.generic` on buffers; `body` has one block that ends in `linalg.yield`."""
    fixed: dict[str, Attribute | list[AffineMap]] = {
        "indexing_maps": list(maps),
        "iterator_types": iterator_types(kinds),
        "operandSegmentSizes": segment_sizes(len(inputs), len(outputs)),
    }
    return builder.op("linalg.generic", [*inputs, *outputs], (), {**fixed, **(attributes or {})}, [body])


def _verify_generic(operation: Operation) -> None:
    kinds, maps = iterator_kinds(operation), indexing_maps(operation)
    if len(maps) != len(operation.operands):
        raise ValueError(f"{len(maps)} indexing maps for {len(operation.operands)} operands")
    for position, map_ in enumerate(maps):
        if map_.dims != len(kinds):
            raise ValueError(f"map {position} has {map_.dims} dimensions, the operation {len(kinds)}")
    if len(operation.body.arguments) != len(operation.operands):
        raise ValueError("the body must take one scalar for each operand")
    outputs = inputs_and_outputs(operation)[1]
    if len(operation.body.terminator.operands) != len(outputs):
        raise ValueError(f"the body must yield one scalar for each of {len(outputs)} outputs")


RECORDS = (
    OpRecord(
        "linalg.generic",
        None,
        0,
        frozenset({READS, WRITES}),
        ("indexing_maps", "iterator_types", "operandSegmentSizes"),
        1,
        verify=_verify_generic,
    ),
    OpRecord("linalg.yield", None, 0, frozenset({TERMINATOR})),
    OpRecord("linalg.index", 0, 1, frozenset({PURE}), ("dim",)),
)
