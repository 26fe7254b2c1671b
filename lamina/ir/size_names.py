"""Which sizes that are known only at run time an operation knows of."""

from __future__ import annotations

from lamina.ir.attributes import sizes_in
from lamina.ir.core import Operation
from lamina.ir.sizes import Size, names_of
from lamina.ir.types import MemRefType, TensorType


def names_in(operation: Operation) -> tuple[str, ...]:
    """The names of sizes in the types and attributes of an operation and all inside it, in order."""
    sizes: list[Size] = []
    for each in operation.walk():
        for value in (*each.operands, *each.results):
            if isinstance(value.type, TensorType | MemRefType):
                sizes += value.type.shape
        for entry in each.attributes.values():
            sizes += sizes_in(entry)
    return names_of(sizes)
