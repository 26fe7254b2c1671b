"""The scalar body of a `linalg.generic`, written from expression nodes.

    add(load x[4 * d0 + d1], load b[d1])      =>      ^bb0(%x: f32, %b: f32, %out: f32):
                                                        %0 = arith.addf %x, %b
                                                        linalg.yield %0

Linear loads become operands of the generic (a view each), others `memref.load`s inside of the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lamina.ir.affine import AffineMap
from lamina.ir.attributes import Attribute, IntegerAttr
from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.ops.memref import as_memref, reinterpret
from lamina.ir.sizes import Size
from lamina.ir.types import MemRefType, ScalarType, i1, i8, i64, index
from lamina.passes.loops.expressions import Node
from lamina.passes.loops.places import Place
from lamina.passes.loops.reductions import accumulate, compare, is_position
from lamina.passes.loops.size_values import SizeValues


@dataclass(frozen=True, slots=True)
class View:
    """Elements of `buffer` at linear address `address`; a temporary's own dimensions when it is None."""

    buffer: Value
    address: Place | None


class Body:
    """Builds one generic: `dims` are the nest's dimensions it walks, in order."""

    def __init__(
        self,
        outside: Builder,
        sizes: Sequence[int],
        dims: Sequence[int],
        arguments: Mapping[Value, Value],
        temporaries: Mapping[Operation, Sequence[Value]],
        kept: Mapping[Node, View],
        numbers: SizeValues,
    ) -> None:
        self.outside = outside
        self.sizes = sizes
        self.dims = list(dims)
        self.arguments = arguments
        self.temporaries = temporaries
        self.kept = kept
        self.numbers = numbers
        self.block = Block()
        self.builder = Builder(self.block, location=outside.location)
        self._values: dict[Node, Value] = {}
        self._inputs: dict[View, tuple[Value, AffineMap, Value]] = {}
        self._outputs: list[tuple[Value, AffineMap, Value]] = []
        self._results: list[Value] = []
        self._constants: dict[tuple[ScalarType, Attribute], Value] = {}

    # the outside

    def add_output(self, view: View) -> Value:
        """One more operand that is written; gives its old scalar."""
        memory, map_ = self._view(view, is_output=True)
        scalar = self.block.add_argument(as_memref(memory.type).element)
        self._outputs.append((memory, map_, scalar))
        return scalar

    def finish(self) -> tuple[Region, list[Value], list[Value], list[AffineMap]]:
        """The body's region, inputs, outputs and the maps of both."""
        self._cover()
        self.builder.op("linalg.yield", self._results)
        inputs = list(self._inputs.values())
        ordered = [scalar for _, _, scalar in (*inputs, *self._outputs)]
        self.block.arguments.sort(key=lambda argument: ordered.index(argument))
        for position, argument in enumerate(self.block.arguments):
            argument.position = position
        maps = [map_ for _, map_, _ in (*inputs, *self._outputs)]
        return (
            Region([self.block]),
            [memory for memory, _, _ in inputs],
            [memory for memory, _, _ in self._outputs],
            maps,
        )

    def _cover(self) -> None:
        """Upstream takes the sizes of a generic from its operands: add one for dimensions that none walks."""
        seen = {str(expr) for _, map_, _ in (*self._inputs.values(), *self._outputs) for expr in map_.results}
        missing = [dim for position, dim in enumerate(self.dims) if f"d{position}" not in seen]
        if not missing:
            return
        # A kernel that reads nothing has its output for this: the scalar is never used.
        source = next(iter(self.arguments.values()), None) or self._outputs[0][0]
        memory = reinterpret(
            self.outside, source, 0, [self.sizes[dim] for dim in missing], [0] * len(missing), self.numbers
        )
        scalar = self.block.add_argument(as_memref(source.type).element)
        map_ = AffineMap.select(len(self.dims), [self.dims.index(dim) for dim in missing])
        self._inputs[View(memory, None)] = (memory, map_, scalar)

    def _view(self, view: View, *, is_output: bool = False) -> tuple[Value, AffineMap]:
        """The buffer and the map; an output has all dimensions, also those of size 1."""
        type_ = as_memref(view.buffer.type)
        if view.address is None:
            return view.buffer, AffineMap.select(len(self.dims), list(range(type_.rank)))
        address = view.address
        walked = [
            dim for dim in self.dims if address.coefficient(dim) or (is_output and self.sizes[dim] == 1)
        ]
        sizes = [self.sizes[dim] for dim in walked]
        strides = [view.address.coefficient(dim) for dim in walked]
        map_ = AffineMap.select(len(self.dims), [self.dims.index(dim) for dim in walked])
        wanted = MemRefType.get(tuple(sizes), type_.element, tuple(strides), view.address.constant)
        if wanted is type_:
            return view.buffer, map_
        constant = view.address.constant
        return reinterpret(self.outside, view.buffer, constant, sizes, strides, self.numbers), map_

    # values

    def value(self, node: Node) -> Value:
        """The scalar of a node."""
        found = self._values.get(node)
        if found is None:
            found = self._values[node] = self._write(node)
        return found

    def yield_value(self, value: Value) -> None:
        """The next output's new scalar."""
        self._results.append(value)

    def yield_stored(self, node: Node, *, as_byte: bool) -> None:
        value = self.value(node)
        self._results.append(self.builder.value("arith.extui", (value,), i8) if as_byte else value)

    def accumulate(self, kind: str, node: Node, old: Sequence[Value], dim: int) -> list[Value]:
        """Take `node` into a partial result; `dim` is the dimension whose position argmax tells."""
        position = None
        value = self.value(node)
        if is_position(kind):
            position = self.builder.value("arith.index_cast", (self._index_of(dim),), old[1].type)
        return accumulate(self.builder, kind, old, value, position)

    def _write(self, node: Node) -> Value:
        view = self.kept.get(node)
        if view is not None:
            return self._as_value(self._input(view), node.type)
        if node.kind == "load":
            return self._as_value(self._load(node), node.type)
        if node.kind == "reduced":
            return self._input(View(self.temporaries[node.base][-1], None))
        if node.kind == "constant":
            return self._constant(node.value, node.type)
        if node.kind == "position":
            place = self._place(node.place)
            return (
                place if node.type is index else self.builder.value("arith.index_cast", (place,), node.type)
            )
        operands = [self.value(operand) for operand in node.operands]
        return self.builder.value(node.name, operands, node.type, dict(node.value))

    def _input(self, view: View) -> Value:
        found = self._inputs.get(view)
        if found is None:
            memory, map_ = self._view(view)
            scalar = self.block.add_argument(as_memref(memory.type).element)
            found = self._inputs[view] = (memory, map_, scalar)
        return found[2]

    def _load(self, node: Node) -> Value:
        buffer = self.arguments[node.base]
        if not node.place.is_dynamic:
            return self._input(View(buffer, node.place))
        type_ = as_memref(buffer.type)
        span = 1 + sum((size - 1) * step for size, step in zip(type_.sizes, type_.steps, strict=True))
        is_flat = type_.layout == (1,)
        flat = buffer if is_flat else reinterpret(self.outside, buffer, 0, [span], [1], self.numbers)
        return self.builder.value("memref.load", (flat, self._place(node.place)), type_.element)

    def _as_value(self, value: Value, type_: ScalarType) -> Value:
        """A bool is a byte in memory."""
        if type_ is not i1 or value.type is i1:
            return value
        return compare(self.builder, "ne", value, self._constant(IntegerAttr(0, i8), i8))

    def _constant(self, value: Attribute, type_: ScalarType) -> Value:
        key = (type_, value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.builder.value("arith.constant", (), type_, {"value": value})
        return found

    def _index_of(self, dim: int) -> Value:
        attributes = {"dim": IntegerAttr(self.dims.index(dim), i64)}
        return self.builder.value("linalg.index", (), index, attributes)

    def _place(self, place: Place) -> Value:
        result: Value | None = None
        for term, factor in place.terms:
            value = self._index_of(term) if isinstance(term, int) else self.value(_as_node(term))
            if factor != 1:
                number = self._number(factor)
                value = self.builder.value("arith.muli", (value, number), index)
            result = value if result is None else self.builder.value("arith.addi", (result, value), index)
        if result is not None and place.constant == 0:
            return result
        constant = self._number(place.constant)
        if result is None:
            return constant
        return self.builder.value("arith.addi", (result, constant), index)

    def _number(self, number: Size) -> Value:
        """A constant of the body, or a size from outside of it."""
        if isinstance(number, int):
            return self._constant(IntegerAttr(number, index), index)
        return self.numbers(number)


def _as_node(term: object) -> Node:
    if not isinstance(term, Node):
        raise TypeError(term)
    return term
