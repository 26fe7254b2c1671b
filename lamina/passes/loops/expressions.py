"""Expressions: what one point of a loop nest computes, as a graph of scalar nodes without structure ops.

    %1 = lamina.permute %0 {perm = [1, 0]}            at (d0, d1):
    %2 = lamina.broadcast %b {dims = [1]}      =>     add(load x[d1, d0], load b[d1])
    %3 = arith.addf %1, %2

Reading a tensor at an index walks the producers towards the arguments: permute, slice, reverse, broadcast,
reshape, concat, pad and gather only change the index. Equal nodes of one `Tracer` are one object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina.errors import Unsupported
from lamina.ir.attributes import (
    Attribute,
    BoolAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    decode_scalar,
    plain,
)
from lamina.ir.core import BlockArgument, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.ops.arith import CMPI
from lamina.ir.sizes import Size, SymbolicSize
from lamina.ir.types import ScalarType, TensorType, i1, i32, i64, index, numbers
from lamina.passes.loops.costs import operation_cost
from lamina.passes.loops.places import ZERO, Computed, Place, SplitDimension, divide, linearize


class SplitRange(Exception):  # noqa: N818  (a wish, not an error)
    """Dimension `dim` must be cut in two ranges at `boundary`: different sources serve them."""

    def __init__(self, dim: int, boundary: int) -> None:
        super().__init__(f"cut dimension {dim} at {boundary}")
        self.dim = dim
        self.boundary = boundary


class Node(Computed):
    """One scalar value of the body.

    kind "load": element `place` (a linear address) of `base`; "reduced": the result of reduction `base` at
    the indices `places`; "constant": `value`; "position": `place` as a number of type `type`;
    "apply": the operation `name` on `operands`.
    """

    __slots__ = ("base", "cost", "dims", "kind", "name", "operands", "places", "type", "value")

    kind: str
    type: ScalarType
    operands: tuple[Node, ...]
    name: str
    value: Any
    base: Any
    places: tuple[Place, ...]
    dims: frozenset[int]
    cost: int

    @property
    def place(self) -> Place:
        return self.places[0]

    def walk(self, seen: set[Node]) -> list[Node]:
        """This node and all below it that are not in `seen`, operands first; `seen` learns them."""
        if self in seen:
            return []
        seen.add(self)
        found: list[Node] = []
        for operand in self.children:
            found += operand.walk(seen)
        found.append(self)
        return found

    @property
    def children(self) -> tuple[Node, ...]:
        """Operands and the nodes inside of the places."""
        computed = tuple(term for place in self.places for term, _ in place.terms if isinstance(term, Node))
        return self.operands + computed if computed else self.operands


class Tracer:
    """Reads tensors of one kernel at places; `sizes` are those of the nest's dimensions at the moment."""

    def __init__(self, strides: dict[Value, tuple[int, ...]]) -> None:
        self.strides = strides
        self.sizes: list[int] = []
        self.may_cut = False
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._read: dict[tuple[Value, tuple[Place, ...]], Node] = {}

    def start(self, sizes: Sequence[int], *, may_cut: bool) -> None:
        """Begin a nest: places read from now on are over these dimensions."""
        self.sizes = list(sizes)
        self.may_cut = may_cut
        self._nodes.clear()
        self._read.clear()

    # nodes

    def node(
        self,
        kind: str,
        type_: ScalarType,
        operands: tuple[Node, ...] = (),
        name: str = "",
        value: Any = None,
        base: Any = None,
        places: tuple[Place, ...] = (),
    ) -> Node:
        key = (kind, type_, operands, name, value, base, places)
        found = self._nodes.get(key)
        if found is not None:
            return found
        node = Node()
        node.kind, node.type, node.operands, node.name = kind, type_, operands, name
        node.value, node.base, node.places = value, base, places
        dims: frozenset[int] = frozenset()
        for place in places:
            dims |= place.dims
        cost = operation_cost(name) if kind == "apply" else 0
        for child in node.children:
            dims |= child.dims
            cost += child.cost
        node.dims, node.cost = dims, cost
        self._nodes[key] = node
        return node

    def apply(
        self,
        name: str,
        operands: Sequence[Node],
        type_: ScalarType,
        attributes: dict[str, Attribute] | None = None,
    ) -> Node:
        value = tuple(sorted((attributes or {}).items()))
        return self.node("apply", type_, tuple(operands), name, value)

    def constant(self, value: float | Size, type_: ScalarType) -> Node:
        if isinstance(value, SymbolicSize):
            return self.position(Place((), *numbers((value,))), type_)
        return self.node("constant", type_, value=_scalar_attribute(value, type_))

    def position(self, place: Place, type_: ScalarType = index) -> Node:
        if not place.terms and isinstance(place.constant, int):
            return self.constant(place.constant, type_)
        if type_ is index and place.constant == 0 and len(place.terms) == 1 and place.terms[0][1] == 1:
            term = place.terms[0][0]
            if isinstance(term, Node):
                return term
        return self.node("position", type_, places=(place,))

    def place_of(self, node: Node) -> Place:
        """A place that is the value of a node of type index."""
        if node.kind == "constant":
            return Place((), int(plain(node.value)))
        if node.kind == "position":
            return node.place
        return Place(((node, 1),))

    # reading

    def read(self, value: Value, places: tuple[Place, ...]) -> Node:
        """The scalar that `value` holds at an index. SplitDimension, SplitRange ask for a finer nest."""
        key = (value, places)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = self._produce(value, places)
        return found

    def _produce(self, value: Value, places: tuple[Place, ...]) -> Node:
        type_ = _tensor(value)
        if isinstance(value, BlockArgument):
            address = ZERO
            for place, stride in zip(places, self.strides[value], strict=True):
                address = address + place * stride
            return self.node("load", type_.element, base=value, places=(address,))
        operation = value.owner
        if not isinstance(operation, Operation):
            raise Unsupported("kernel-form", f"a kernel cannot read {value.type}")
        rule = STRUCTURE.get(operation.name)
        if rule is not None:
            return rule(self, operation, places)
        if is_elementwise(operation):
            operands = [self.read(operand, places) for operand in operation.operands]
            return self.apply(operation.name, operands, type_.element, operation.attributes)
        raise Unsupported("kernel-form", f"{operation.name} cannot be inside of a kernel")


def _tensor(value: Value) -> TensorType:
    if not isinstance(value.type, TensorType):
        raise Unsupported("kernel-form", f"a kernel computes tensors, not {value.type}")
    return value.type


def _sizes(value: Value) -> list[int]:
    return list(_tensor(value).sizes)


def _scalar_attribute(value: float | int | bool, type_: ScalarType) -> Attribute:
    if type_ is i1:
        return BoolAttr(bool(value))
    if type_.is_float:
        return FloatAttr(float(value), type_)
    return IntegerAttr(int(value), type_)


# structure operations: each gives the node of its result at `places`

Rule = Callable[[Tracer, Operation, tuple[Place, ...]], Node]


def _constant(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    value, type_ = operation.attributes["value"], _tensor(operation.results[0])
    if not isinstance(value, DenseElementsAttr):
        raise Unsupported("kernel-form", f"constant {value} inside of a kernel")
    if value.is_splat:
        return tracer.constant(value.splat_value(), type_.element)
    step = type_.element.bytes
    count = len(value.bytes_) // step
    if count > LONGEST_TABLE:
        raise Unsupported("kernel-form", f"a constant of {count} elements inside of a kernel")
    numbers = [decode_scalar(value.bytes_[k * step : (k + 1) * step], type_.element) for k in range(count)]
    place = tracer.position(linearize(places, _sizes(operation.results[0])))
    result = tracer.constant(numbers[-1], type_.element)
    for k in range(count - 2, -1, -1):
        here = _compare(tracer, "eq", place, tracer.constant(k, index))
        result = _select(tracer, here, tracer.constant(numbers[k], type_.element), result)
    return result


LONGEST_TABLE = 32
"""A constant that is not one value everywhere becomes a chain of selects, up to so many elements."""


def _broadcast(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    source, dims = operation.operand(), plain(operation.attributes["dims"])
    sizes = _sizes(source)
    return tracer.read(
        source, tuple(ZERO if size == 1 else places[dim] for size, dim in zip(sizes, dims, strict=True))
    )


def _permute(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    permutation = plain(operation.attributes["perm"])
    moved = [ZERO] * len(places)
    for position, source in enumerate(permutation):
        moved[source] = places[position]
    return tracer.read(operation.operand(), tuple(moved))


def _reverse(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    dims, sizes = plain(operation.attributes["dims"]), _sizes(operation.operand())
    turned = [
        (place * -1).plus(max(size - 1, 0)) if k in dims else place
        for k, (place, size) in enumerate(zip(places, sizes, strict=True))
    ]
    return tracer.read(operation.operand(), tuple(turned))


def _slice(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    offsets, steps = (plain(operation.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
    moved = [(place * step).plus(offset) for place, offset, step in zip(places, offsets, steps, strict=True)]
    return tracer.read(operation.operand(), tuple(moved))


def _expand(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    sizes = _sizes(operation.results[0])
    groups = plain(operation.attributes["reassociation"])
    merged = [linearize([places[k] for k in group], [sizes[k] for k in group]) for group in groups]
    return tracer.read(operation.operand(), tuple(merged))


def _collapse(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    sizes = _sizes(operation.operand())
    result = [ZERO] * len(sizes)
    for group, place in zip(plain(operation.attributes["reassociation"]), places, strict=True):
        for k, part in zip(group, delinearize(tracer, place, [sizes[k] for k in group]), strict=True):
            result[k] = part
    return tracer.read(operation.operand(), tuple(result))


def delinearize(tracer: Tracer, place: Place, shape: Sequence[int]) -> list[Place]:
    """The index along each dimension of `shape` of a row-major position."""
    if 0 in shape:
        return [ZERO] * len(shape)
    wide = [k for k, size in enumerate(shape) if size != 1]
    result = [ZERO] * len(shape)
    for k in reversed(wide[1:]):
        parts = divide(place, shape[k], tracer.sizes)
        if parts is None:
            number, by = tracer.position(place), tracer.constant(shape[k], index)
            parts = (
                tracer.place_of(tracer.apply("arith.floordivsi", (number, by), index)),
                tracer.place_of(tracer.apply("arith.remsi", (number, by), index)),
            )
        place, result[k] = parts
    if wide:
        result[wide[0]] = place
    return result


def _iota(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    place, type_ = places[plain(operation.attributes["dim"])], _tensor(operation.results[0]).element
    return tracer.position(place, type_)


def _size(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    number = Place((), plain(operation.attributes["value"]))
    return tracer.position(number, _tensor(operation.results[0]).element)


def _compare(tracer: Tracer, predicate: str, a: Node, b: Node) -> Node:
    return tracer.apply("arith.cmpi", (a, b), i1, {"predicate": IntegerAttr(CMPI.index(predicate), i64)})


def _select(tracer: Tracer, condition: Node, yes: Node, no: Node) -> Node:
    return tracer.apply("arith.select", (condition, yes, no), yes.type)


def _clamp(tracer: Tracer, place: Place, size: int) -> Place:
    """The nearest position inside of `[0, size)`."""
    low = tracer.apply("arith.maxsi", (tracer.position(place), tracer.constant(0, index)), index)
    return tracer.place_of(tracer.apply("arith.minsi", (low, tracer.constant(size - 1, index)), index))


def _side(tracer: Tracer, place: Place, bound: int) -> str:
    """Whether a place is always "below" `bound`, always "above" (at or over it), or "both".

    SplitRange where cutting a dimension decides it.
    """
    if place.is_dynamic:
        return "both"
    low, high = place.range(tracer.sizes)
    if high < bound:
        return "below"
    if low >= bound:
        return "above"
    if tracer.may_cut:
        _cut(tracer, place, bound)
    return "both"


def _cut(tracer: Tracer, place: Place, bound: int) -> None:
    """Raise SplitRange when one dimension alone decides on which side of `bound` a place is."""
    term, factor = max(place.terms, key=lambda entry: abs(entry[1]))
    if not isinstance(term, int):
        return
    rest = place + Place(((term, -factor),))
    low, high = rest.range(tracer.sizes)
    if factor > 0:
        first, second = -((low - bound) // factor), -((high - bound) // factor)
    else:
        first, second = (low - bound) // -factor + 1, (high - bound) // -factor + 1
    if first == second and 0 < first < tracer.sizes[term]:
        raise SplitRange(term, first)


def _concat(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    dim, start = plain(operation.attributes["dim"]), 0
    pieces: list[tuple[Value, int, int]] = []
    for source in operation.operands:
        size = _sizes(source)[dim]
        if size:
            pieces.append((source, start, size))
        start += size
    return _concat_pieces(tracer, pieces, places, dim)


def _concat_pieces(
    tracer: Tracer, pieces: Sequence[tuple[Value, int, int]], places: tuple[Place, ...], dim: int
) -> Node:
    source, start, size = pieces[0]
    place = places[dim]
    side = "below" if len(pieces) == 1 else _side(tracer, place, start + size)
    if side == "above":
        return _concat_pieces(tracer, pieces[1:], places, dim)
    if side == "below":
        return tracer.read(source, (*places[:dim], place.plus(-start), *places[dim + 1 :]))
    here = tracer.read(source, (*places[:dim], _clamp(tracer, place.plus(-start), size), *places[dim + 1 :]))
    later_start = pieces[1][1]
    later = _clamp_below(tracer, place, later_start)
    rest = _concat_pieces(tracer, pieces[1:], (*places[:dim], later, *places[dim + 1 :]), dim)
    is_here = _compare(tracer, "slt", tracer.position(place), tracer.constant(start + size, index))
    return _select(tracer, is_here, here, rest)


def _clamp_below(tracer: Tracer, place: Place, bound: int) -> Place:
    node = tracer.apply("arith.maxsi", (tracer.position(place), tracer.constant(bound, index)), index)
    return tracer.place_of(node)


def _pad(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    source, low = operation.operand(0), plain(operation.attributes["low"])
    padding = tracer.read(operation.operand(1), ())
    conditions: list[Node] = []
    moved: list[Place] = []
    for place, size, before in zip(places, _sizes(source), low, strict=True):
        place = place.plus(-before)
        start, end = _side(tracer, place, 0), _side(tracer, place, size)
        if start == "below" or end == "above" or size == 0:
            return padding
        number = tracer.position(place)
        if start == "both":
            conditions.append(_compare(tracer, "sge", number, tracer.constant(0, index)))
        if end == "both":
            conditions.append(_compare(tracer, "slt", number, tracer.constant(size, index)))
        moved.append(place if start == "above" and end == "below" else _clamp(tracer, place, size))
    inside = tracer.read(source, tuple(moved))
    for condition in conditions:
        inside = _select(tracer, condition, inside, padding)
    return inside


def _index(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    dims, source = plain(operation.attributes["dims"]), operation.operand(0)
    rank = len(_sizes(operation.operand(1)))
    first = dims[0]
    at = places[first : first + rank]
    chosen: list[Place] = []
    for indices in operation.operands[1:]:
        number = tracer.read(indices, at)
        if number.type is not index:
            number = tracer.apply("arith.index_cast", (number,), index)
        chosen.append(tracer.place_of(number))
    return tracer.read(source, (*places[:first], *chosen, *places[first + rank :]))


def _reduced(tracer: Tracer, operation: Operation, places: tuple[Place, ...]) -> Node:
    kind, type_ = plain(operation.attributes["kind"]), _tensor(operation.results[0]).element
    if kind.startswith("arg"):
        found = tracer.node("reduced", i32, base=operation, places=places)
        return tracer.apply("arith.extsi", (found,), type_)
    return tracer.node("reduced", type_, base=operation, places=places)


STRUCTURE: dict[str, Rule] = {
    "arith.constant": _constant,
    "lamina.broadcast": _broadcast,
    "lamina.permute": _permute,
    "lamina.reverse": _reverse,
    "lamina.iota": _iota,
    "lamina.size": _size,
    "lamina.pad": _pad,
    "lamina.index": _index,
    "lamina.reduce": _reduced,
    "tensor.extract_slice": _slice,
    "tensor.concat": _concat,
    "tensor.collapse_shape": _collapse,
    "tensor.expand_shape": _expand,
}

__all__ = ["Node", "SplitDimension", "SplitRange", "Tracer", "delinearize"]
