"""Facts about programs by dataflow: liveness, reaching definitions of memory, available expressions.

Each is an `Analysis` of an operation with one region (a function, a kernel) too, so that passes share them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias, TypeVar

from lamina.ir.analyses import Analysis
from lamina.ir.attributes import plain
from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.dataflow import Dataflow, Solution, solve
from lamina.ir.ops import is_commutative, is_pure, record
from lamina.ir.ops.aten import RECORD as LIBRARY
from lamina.ir.ops.aten import is_functional, writes_into
from lamina.ir.record import READS, WRITES
from lamina.ir.types import MemRefType

F = TypeVar("F")
Values: TypeAlias = frozenset[Value]
NOTHING: Values = frozenset()


def outer_uses(operation: Operation) -> Values:
    """Values that an operation uses, those from outside that its nested regions use included."""
    used = set(operation.operands)
    for region in operation.regions:
        inside: set[Value] = set()
        defined: set[Value] = set()
        for block in region.blocks:
            defined.update(block.arguments)
            for inner in block:
                inside |= outer_uses(inner)
                defined.update(inner.results)
        used |= inside - defined
    return frozenset(used)


def liveness(region: Region) -> Solution[Values]:
    """Values that are used later, at each place (backward, may). Block arguments live from their block on."""

    def transfer(operation: Operation, live: Values) -> Values:
        used = outer_uses(operation) if operation.regions else frozenset(operation.operands)
        return live.difference(operation.results) | used

    def edge(source: Block, target: Block, live: Values) -> Values:
        return live.difference(target.arguments)

    return solve(Dataflow("backward", NOTHING, NOTHING, frozenset.union, transfer, edge), region)


Definition: TypeAlias = tuple[Value, Operation]
"""A buffer and an operation that writes to it."""
Definitions: TypeAlias = frozenset[Definition]

VIEWS = frozenset({"memref.reinterpret_cast", "memref.subview", "program.view"})
OVERWRITES = frozenset({"memref.alloc", "memref.alloca", "program.alloc", "program.copy"})
"""Operations after which nothing that was in the buffer before is left."""


def buffer_behind(value: Value) -> Value:
    """The buffer that a view is a view of."""
    operation = value.defining_op
    while operation is not None and operation.name in VIEWS:
        value = operation.operand(0)
        operation = value.defining_op
    return value


def written_buffers(operation: Operation) -> list[Value]:
    """The buffers an operation may write to, itself or in its regions; a fresh one counts as written."""
    if operation.name in OVERWRITES and operation.results:
        return [operation.results[0]]
    found = record(operation.name)
    own: Iterable[Value] = ()
    if found is not None and (WRITES in found.traits or found is LIBRARY):
        own = operation.operands if found is LIBRARY else _written_operands(operation)
    buffers = {buffer_behind(value): None for value in own if isinstance(value.type, MemRefType)}
    for region in operation.regions:
        for block in region.blocks:
            for inner in block:
                buffers.update(dict.fromkeys(written_buffers(inner)))
    return list(buffers)


def _written_operands(operation: Operation) -> tuple[Value, ...]:
    """By the operation's convention; every buffer it has when there is none."""
    match operation.name:
        case "memref.store" | "vector.store" | "program.copy":
            return operation.operands[1:2]
        case "vector.maskedstore" | "vector.scatter":
            return operation.operands[:1]
        case "program.launch":
            return operation.operands[len(operation.operands) - plain(operation.attributes["outputs"]) :]
        case "program.call":
            callee = plain(operation.attributes["callee"])
            if writes_into(callee):
                return operation.operands[-1:]
            return () if is_functional(callee) else operation.operands
        case "linalg.generic":
            return operation.operands[plain(operation.attributes["operandSegmentSizes"])[0] :]
    return operation.operands


def reaching_definitions(region: Region) -> Solution[Definitions]:
    """Writes whose effect may still be in memory, at each place (forward, may)."""
    writes = {operation: written_buffers(operation) for block in region.blocks for operation in block}

    def transfer(operation: Operation, reaching: Definitions) -> Definitions:
        buffers = writes[operation]
        if not buffers:
            return reaching
        if operation.name in OVERWRITES:
            reaching = frozenset(each for each in reaching if each[0] not in buffers)
        return reaching.union((buffer, operation) for buffer in buffers)

    empty: Definitions = frozenset()
    return solve(Dataflow("forward", empty, empty, frozenset.union, transfer), region)


Expressions: TypeAlias = frozenset[Operation] | None
"""Operations whose results still are what computing them again would give. None is all operations: what holds
of a place that nothing reaches."""


def expression_of(operation: Operation) -> Hashable:
    """Equal for two operations that compute the same, in the same state of memory."""
    operands = [id(value) for value in operation.operands]
    if is_commutative(operation):
        operands.sort()
    types = tuple(id(value.type) for value in operation.results)
    return operation.name, tuple(operands), frozenset(operation.attributes.items()), types


def is_read(operation: Operation) -> bool:
    """Whether the result depends on memory, and nothing else happens."""
    found = record(operation.name)
    return (
        found is not None and READS in found.traits and WRITES not in found.traits and not operation.regions
    )


def may_write(operation: Operation) -> bool:
    """Whether memory may differ afterwards."""
    found = record(operation.name)
    if found is LIBRARY:
        return not is_pure(operation)
    if found is None or WRITES in found.traits or operation.name == "func.call":
        return True
    return any(may_write(inner) for region in operation.regions for block in region.blocks for inner in block)


def is_expression(operation: Operation) -> bool:
    """Whether an operation does nothing but compute its results, of operands and memory."""
    return bool(operation.results) and not operation.regions and (is_pure(operation) or is_read(operation))


def available_expressions(
    region: Region, outside: frozenset[Operation] = frozenset()
) -> Solution[Expressions]:
    """Operations computed on every path whose results still hold, at each place (forward, must).

    Those that read memory end at what may write it. outside: what is available where the region is entered,
    every time it is.
    """

    def join(a: Expressions, b: Expressions) -> Expressions:
        if a is None or b is None:
            return b if a is None else a
        return a & b

    def transfer(operation: Operation, known: Expressions) -> Expressions:
        if known is None:
            return None
        if may_write(operation):
            known = without_reads(known)
        return known | {operation} if is_expression(operation) else known

    return solve(Dataflow("forward", outside, None, join, transfer), region)


def without_reads(known: frozenset[Operation]) -> frozenset[Operation]:
    """What is left of available expressions when memory may have changed."""
    return frozenset(each for each in known if not is_read(each))


def _first_region(operation: Operation) -> Region:
    return operation.regions[0]


def _same_facts(a: Solution[F], b: Solution[F]) -> bool:
    return a.at_start == b.at_start and a.at_end == b.at_end


LIVENESS: Analysis[Solution[Values]] = Analysis(
    "liveness", lambda operation: liveness(_first_region(operation)), _same_facts
)
REACHING: Analysis[Solution[Definitions]] = Analysis(
    "reaching definitions", lambda operation: reaching_definitions(_first_region(operation)), _same_facts
)
AVAILABLE: Analysis[Solution[Expressions]] = Analysis(
    "available expressions", lambda operation: available_expressions(_first_region(operation)), _same_facts
)
