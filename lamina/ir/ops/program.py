"""`program`: what the runtime does, in order: allocate, launch kernels, call the library, copy, free, return.

Values are buffers (`memref`, strides in elements) or `!program.object` (a library's own packed data).
Buffers live in one of three spaces: "arena" (the workspace, at a planned byte offset), "output" (fresh
memory that the caller gets), or belong to an argument or to a library call's result.
"""

from __future__ import annotations

from lamina.ir.attributes import plain
from lamina.ir.core import Operation
from lamina.ir.record import ISOLATED, READS, SYMBOL, TERMINATOR, WRITES, OpRecord
from lamina.ir.types import MemRefType, OpaqueType

object_type = OpaqueType.get("!program.object")
SPACES = ("arena", "output")


def _verify_alloc(operation: Operation) -> None:
    space = plain(operation.attributes["space"])
    if space not in SPACES:
        raise ValueError(f"space must be one of {', '.join(SPACES)}, got {space!r}")
    if not isinstance(operation.result.type, MemRefType):
        raise ValueError(f"allocates a memref, got {operation.result.type}")


def _verify_buffers(operation: Operation) -> None:
    for value in operation.operands:
        if not isinstance(value.type, MemRefType):
            raise ValueError(f"works on buffers, got {value.type}")


RECORDS = (
    OpRecord(
        "program.func", 0, 0, frozenset({ISOLATED, SYMBOL}), ("sym_name", "function_type"), 1,
        optional=("arg_kinds", "arena_bytes"),
    ),
    OpRecord("program.alloc", 0, 1, attributes=("space",), verify=_verify_alloc, optional=("offset",)),
    OpRecord("program.constant", 0, 1, attributes=("value",)),
    OpRecord("program.view", 1, 1, attributes=("offset",), verify=_verify_buffers),
    OpRecord(
        "program.launch", None, 0, frozenset({READS, WRITES}), ("kernel",), verify=_verify_buffers,
        optional=("outputs", "sizes", "threads", "work"),
    ),
    OpRecord(
        "program.call", None, None, frozenset({READS, WRITES}), ("callee", "args"),
        optional=("kwargs", "effects", "aliases", "returned"),
    ),
    OpRecord("program.copy", 2, 0, frozenset({READS, WRITES}), verify=_verify_buffers),
    OpRecord("program.free", None, 0, frozenset({WRITES})),
    OpRecord("program.return", None, 0, frozenset({TERMINATOR}), optional=("aliases",)),
)  # fmt: skip
"""`view`: same buffer from `offset` elements on, with the sizes and strides of the result type.
`launch`: operands are the kernel's inputs, then its `outputs` last ones; `sizes`: those it takes besides;
`threads`: how many at most; `work`: bytes and operations, where sizes are not known yet. `copy`: source,
destination."""
