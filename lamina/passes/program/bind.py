"""Put the sizes at hand into a program of symbolic sizes: nothing is decided again, no kernel is built.

    %0 = program.alloc : memref<?x8xf32, "s0">                    %0 = program.alloc : memref<37x8xf32>
    program.launch @k(%x, %0) {sizes = [s0]}          s0 = 37     program.launch @k(%x, %0) {sizes = [37]}
    %1 = program.call {args = [unit, [s0, 4]]}          =>        %1 = program.call {args = [unit, [37, 4]]}

Memory is planned afterwards, for these sizes.
"""

from __future__ import annotations

from collections.abc import Mapping

from lamina.ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseElementsAttr,
    DictAttr,
    IntegerAttr,
    SizeAttr,
    TypeAttr,
)
from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.machine import Target
from lamina.ir.sizes import Size, value_of
from lamina.ir.types import FunctionType, MemRefType, TensorType, Type, VectorType
from lamina.passes.program.sharing import share

Values = Mapping[str, int]


def bind(program: Operation, values: Values, target: Target) -> Operation:
    """A new detached `program.func` in which each named size has the value listed."""
    binding = _Binding(values)
    source = program.body
    block = Block([binding.type(argument.type) for argument in source.arguments])
    known: dict[Value, Value] = dict(zip(source.arguments, block.arguments, strict=True))
    for operation in source:
        made = Operation(
            operation.name,
            [known[value] for value in operation.operands],
            [binding.type(value.type) for value in operation.results],
            {key: binding.attribute(entry) for key, entry in operation.attributes.items()},
            location=operation.location,
        )
        known.update(zip(operation.results, made.results, strict=True))
        block.append(made)
        if made.name == "program.launch":
            share(made, target)
    attributes = {key: binding.attribute(entry) for key, entry in program.attributes.items()}
    return Operation("program.func", attributes=attributes, regions=[Region([block])])


class _Binding:
    """Puts numbers in place of sizes; each type once."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._types: dict[Type, Type] = {}

    def sizes(self, sizes: tuple[Size, ...]) -> tuple[int, ...]:
        return tuple(value_of(size, self.values) for size in sizes)

    def type(self, type_: Type) -> Type:
        found = self._types.get(type_)
        if found is None:
            found = self._types[type_] = self._bind_type(type_)
        return found

    def _bind_type(self, type_: Type) -> Type:
        if isinstance(type_, TensorType):
            return TensorType.get(self.sizes(type_.shape), type_.element)
        if isinstance(type_, MemRefType):
            strides = None if type_.strides is None else self.sizes(type_.strides)
            (offset,) = self.sizes((type_.offset,))
            return MemRefType.get(self.sizes(type_.shape), type_.element, strides, offset)
        if isinstance(type_, FunctionType):
            return FunctionType.get(tuple(map(self.type, type_.inputs)), tuple(map(self.type, type_.results)))
        return type_

    def attribute(self, value: Attribute) -> Attribute:
        match value:
            case SizeAttr(size):
                return IntegerAttr(size.value(self.values))
            case ArrayAttr(elements):
                return ArrayAttr(tuple(map(self.attribute, elements)))
            case DictAttr(entries):
                return DictAttr(tuple((key, self.attribute(entry)) for key, entry in entries))
            case TypeAttr(type_):
                return TypeAttr(self.type(type_))
            case DenseElementsAttr(type=type_):
                bound = self.type(type_)
                assert isinstance(bound, TensorType | VectorType)
                return DenseElementsAttr(bound, value.bytes_, value.is_splat)
        return value
