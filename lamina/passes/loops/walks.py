"""Walks: what the `linalg.generic`s of a kernel say, read back for scheduling and loop building.

A walk is one generic: its sizes, and for each operand the buffer behind the view with the stride of every
dimension. Walks of one nest share their first dimensions, the parallel ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lamina.errors import CompilerBug
from lamina.ir.affine import AffineMap, Dim
from lamina.ir.attributes import plain
from lamina.ir.core import Block, Operation, Value
from lamina.ir.ops.linalg import indexing_maps, inputs_and_outputs
from lamina.ir.ops.memref import as_memref
from lamina.ir.types import ScalarType, numbers


@dataclass(frozen=True, slots=True)
class Access:
    """One operand: element `offset + sum(strides[d] * d)` of `buffer`; `scalar` is its name in the body."""

    buffer: Value
    strides: tuple[int, ...]
    offset: int
    scalar: Value

    @property
    def is_temporary(self) -> bool:
        """Whether the buffer is made by the kernel itself."""
        source = self.buffer.defining_op
        return source is not None and source.name == "memref.alloc"

    @property
    def element(self) -> ScalarType:
        return as_memref(self.buffer.type).element

    @property
    def dims(self) -> frozenset[int]:
        return frozenset(dim for dim, stride in enumerate(self.strides) if stride)


@dataclass(slots=True)
class Walk:
    """One generic. `kinds[k]` is the reduction that output k takes part in, "" when it is stored."""

    operation: Operation
    sizes: tuple[int, ...]
    parallel: int
    inputs: list[Access]
    outputs: list[Access]
    kinds: list[str]
    buffers: Mapping[Value, Value] = field(default_factory=dict)

    @property
    def block(self) -> Block:
        return self.operation.body

    @property
    def is_full(self) -> bool:
        """Whether it walks more than the parallel dimensions, or has no others to walk."""
        return len(self.sizes) > self.parallel

    @property
    def reduces(self) -> bool:
        return any(self.kinds)

    @property
    def is_initialization(self) -> bool:
        """Whether it only puts a constant into temporaries that are reduced into later."""
        yielded = self.block.terminator.operands
        return not self.inputs and all(
            access.is_temporary
            and value.defining_op is not None
            and value.defining_op.name == "arith.constant"
            for access, value in zip(self.outputs, yielded, strict=True)
        )

    def rename(self, buffers: Mapping[Value, Value]) -> None:
        """Use other values for the buffers from outside, also for those that the body loads from."""
        self.buffers = buffers
        for accesses in (self.inputs, self.outputs):
            accesses[:] = [
                replace(access, buffer=buffers.get(access.buffer, access.buffer)) for access in accesses
            ]

    @property
    def memory(self) -> list[Access]:
        """Accesses to buffers from outside that the body uses."""
        read = [access for access in self.inputs if access.scalar.uses and not access.is_temporary]
        return read + [access for access in self.outputs if not access.is_temporary]


@dataclass(slots=True)
class LoopNest:
    """The walks of one nest, in order."""

    walks: list[Walk] = field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the parallel dimensions."""
        return self.walks[0].sizes[: self.walks[0].parallel]

    @property
    def is_pointwise(self) -> bool:
        """Whether no dimension is walked inside of the parallel ones."""
        return not any(walk.is_full for walk in self.walks)


def read_nests(function: Operation) -> list[LoopNest]:
    """The nests of a linalg-level kernel."""
    nests: dict[int, LoopNest] = {}
    for operation in function.body:
        if operation.name == "linalg.generic":
            number, parallel = plain(operation.attributes["lamina.nest"])
            nests.setdefault(number, LoopNest()).walks.append(read_walk(operation, parallel))
    return list(nests.values())


def read_walk(operation: Operation, parallel: int) -> Walk:
    maps = indexing_maps(operation)
    inputs, outputs = inputs_and_outputs(operation)
    scalars = operation.body.arguments
    sizes: list[Any] = [-1] * maps[0].dims
    accesses: list[Access] = []
    for memory, map_, scalar in zip((*inputs, *outputs), maps, scalars, strict=True):
        accesses.append(_access(memory, map_, scalar))
        for expr, size in zip(map_.results, as_memref(memory.type).shape, strict=True):
            if isinstance(expr, Dim):
                sizes[expr.position] = size
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise CompilerBug("no operand of a linalg.generic walks one of its dimensions", stage="vectorize")
    kinds = operation.attributes.get("lamina.reductions")
    names = [""] * len(outputs) if kinds is None else plain(kinds)
    first = len(inputs)
    return Walk(operation, tuple(sizes), parallel, accesses[:first], accesses[first:], names)


def _access(memory: Value, map_: AffineMap, scalar: Value) -> Access:
    type_ = as_memref(memory.type)
    strides = [0] * map_.dims
    for expr, stride in zip(map_.results, type_.steps, strict=True):
        if not isinstance(expr, Dim):
            raise CompilerBug(f"loops cannot be built for the map {map_}", stage="vectorize")
        strides[expr.position] += stride
    source = memory.defining_op
    buffer = memory
    offset = 0
    if source is not None and source.name == "memref.reinterpret_cast":
        buffer = source.operand()
        (offset,) = numbers((type_.offset,))
    return Access(buffer, tuple(strides), offset, scalar)
