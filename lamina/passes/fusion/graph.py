"""What fusion sees of @main: nodes that compute, the views between them, and what must lie in memory.

A node is an operation that reads or writes elements (elementwise, reduce, iota, index, pad, reverse), a copy
into a place (a piece of a concatenation), or an outside operation (library call, return). Views are not
nodes: a read goes through a chain of them to the value it is based on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lamina.ir.attributes import DenseElementsAttr, plain
from lamina.ir.core import Block, Location, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.ops.aten import effects, is_extern
from lamina.ir.sizes import hint
from lamina.ir.types import KERNEL_SCALARS, TensorType
from lamina.passes.fusion.atoms import Map, Trail, divide, fresh_map

if TYPE_CHECKING:
    from lamina.passes.fusion.groups import Group
    from lamina.passes.fusion.order import Order

BIJECTIVE_VIEWS = frozenset(
    {"lamina.permute", "lamina.broadcast", "tensor.collapse_shape", "tensor.expand_shape"}
)
"""Views through which a read can be followed into the kernel that computes the value."""
VIEWS = BIJECTIVE_VIEWS | {"tensor.extract_slice"}
ACCESSES = frozenset({"lamina.pad", "lamina.reverse"})
"""Operations that are applied to an argument of a kernel, never to a value computed in it."""


def tensor_type(value: Value) -> TensorType:
    if not isinstance(value.type, TensorType):
        raise TypeError(f"{value.type} is no tensor")
    return value.type


def shape_of(value: Value) -> tuple[int, ...]:
    """The sizes of a tensor value."""
    return tensor_type(value).sizes


def count_of(value: Value) -> int:
    """Number of elements, for costs: with the sizes at hand."""
    return math.prod(map(hint, tensor_type(value).shape))


def bytes_of(value: Value) -> int:
    return count_of(value) * tensor_type(value).element.bytes


def is_splat(value: Value) -> bool:
    """Whether the value is a constant with one element for all."""
    operation = value.defining_op
    if operation is None or operation.name != "arith.constant":
        return False
    dense = operation.attributes["value"]
    return isinstance(dense, DenseElementsAttr) and dense.is_splat


def is_view(operation: Operation | None) -> bool:
    return operation is not None and operation.name in VIEWS


def root_of(value: Value) -> Value:
    """The value whose memory this one shows, behind all views."""
    operation = value.defining_op
    while operation is not None and operation.name in VIEWS:
        value = operation.operand()
        operation = value.defining_op
    return value


@dataclass(eq=False, slots=True)
class Read:
    """Node `node` reads operand `position`: `value`, which is `base` behind `chain` (last view first).

    `must_be_stored`: the access cannot be followed into a kernel that computes `base`.
    """

    node: Node
    position: int
    value: Value
    base: Value
    chain: tuple[Operation, ...]
    must_be_stored: bool = False


@dataclass(eq=False, slots=True)
class Node:
    """One operation as fusion sees it; `place` is (concatenation, piece) for a copy into one."""

    operation: Operation
    kind: str
    order: int
    result: Value | None = None
    place: tuple[Operation, int] | None = None
    map: Map = ()
    operand_map: Map = ()
    reads: list[Read] = field(default_factory=list)
    is_needed_outside: bool = False
    stored_for: list[Node] = field(default_factory=list)
    feeds: list[Node] = field(default_factory=list)
    group: Group | None = None

    @property
    def location(self) -> Location:
        return self.operation.location

    @property
    def name(self) -> str:
        """For remarks: the operation's name, its line where known."""
        word = "copy into tensor.concat" if self.kind == "copy" else self.operation.name
        return f"{word} ({self.location})" if self.location.file else word

    @property
    def written(self) -> Value:
        """The value it computes; for a copy, the value that it copies."""
        if self.place is not None:
            return self.place[0].operand(self.place[1])
        assert self.result is not None
        return self.result

    def map_of(self, read: Read) -> Map | None:
        """How the node walks `read.value` over its own atoms; None when the place depends on data or
        bounds.
        """
        if self.kind == "reduce":
            return self.operand_map
        if self.kind == "index":
            return _index_map(self, read.position)
        if self.kind in ("pad", "reverse"):
            return None if read.must_be_stored else ()
        return self.map


def _index_map(node: Node, position: int) -> Map | None:
    if position == 0:
        return None
    first = plain(node.operation.attributes["dims"])[0]
    rank = len(shape_of(node.operation.operand(position)))
    return node.map[first : first + rank]


class Graph:
    """The nodes of a block in order, by the value they compute."""

    order: Order
    """Of the groups that the nodes are in, once they are in some."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.nodes: list[Node] = []
        self.of_value: dict[Value, Node] = {}
        self.outside: dict[Operation, Node] = {}
        self.pieces: dict[Operation, list[Node]] = {}
        self.constants: list[Operation] = []
        self.trail = Trail()
        self.readers: dict[Value, list[Read]] = {}
        for order, operation in enumerate(block):
            self._add(operation, order)
        self._connect()

    def _add(self, operation: Operation, order: int) -> None:
        if operation.name in VIEWS:
            return
        if operation.name == "arith.constant":
            self.constants.append(operation)
            return
        if operation.name == "tensor.concat" and is_in_kernels(operation.result):
            for piece in range(len(operation.operands)):
                self._add_copy(operation, piece, order)
        kind = kind_of(operation)
        node = Node(operation, kind, order)
        self.nodes.append(node)
        if kind == "outside":
            self.outside[operation] = node
            return
        node.result = operation.result
        self.of_value[operation.result] = node
        if kind == "reduce":
            dims = plain(operation.attributes["dims"])
            node.operand_map = fresh_map(shape_of(operation.operand()), whole_dimensions(operation))
            node.map = tuple(walk for k, walk in enumerate(node.operand_map) if k not in dims)
        else:
            node.map = fresh_map(shape_of(operation.result), whole_dimensions(operation))
        for position, value in enumerate(operation.operands):
            self._add_read(node, position, value)

    def _add_copy(self, operation: Operation, piece: int, order: int) -> None:
        value = operation.operand(piece)
        node = Node(operation, "copy", order, place=(operation, piece), is_needed_outside=True)
        node.map = fresh_map(shape_of(value))
        self.nodes.append(node)
        self.pieces.setdefault(operation, []).append(node)
        self._add_read(node, piece, value)

    def _add_read(self, node: Node, position: int, value: Value) -> None:
        is_stored = node.kind in ("pad", "reverse", "index") and position == 0
        if is_splat(root_of(value)) and not is_stored:
            return
        chain: list[Operation] = []
        base = value
        while (
            not is_stored
            and (operation := base.defining_op) is not None
            and operation.name in BIJECTIVE_VIEWS
        ):
            chain.append(operation)
            base = operation.operand()
        node.reads.append(Read(node, position, value, base, tuple(chain), is_stored))

    def _connect(self) -> None:
        previous_effect: Node | None = None
        for node in self.nodes:
            if node.kind == "outside":
                previous_effect = self._connect_outside(node, previous_effect)
                continue
            for read in node.reads:
                self.readers.setdefault(read.base, []).append(read)
                is_stored = read.must_be_stored or read.base not in self.of_value
                self._depend(read.value, node, is_outside=is_stored)

    def _connect_outside(self, node: Node, previous_effect: Node | None) -> Node | None:
        for copy in self.pieces.get(node.operation, ()):
            copy.feeds.append(node)
        if node.operation not in self.pieces:
            for value in node.operation.operands:
                self._depend(value, node, is_outside=True)
        if not is_extern(node.operation) or effects(node.operation) is None:
            return previous_effect
        if previous_effect is not None:
            previous_effect.feeds.append(node)
        return node

    def _depend(self, value: Value, node: Node, is_outside: bool) -> None:
        root = root_of(value)
        source = self.of_value.get(root)
        if source is not None:
            if is_outside:
                source.is_needed_outside = True
                source.stored_for.append(node)
            source.feeds.append(node)
        elif (owner := root.defining_op) is not None and owner in self.outside:
            self.outside[owner].feeds.append(node)

    def pull(self, read: Read) -> Map | None:
        """How the reading node walks `read.base`: its map of `read.value` taken through the chain of views.

        May split atoms (on the trail); None when the access cannot be followed.
        """
        found = None if read.must_be_stored else read.node.map_of(read)
        for view in read.chain:
            if found is None:
                return None
            found = self._pull_view(view, found)
        return found

    def _pull_view(self, view: Operation, map_: Map) -> Map | None:
        source = shape_of(view.operand())
        if view.name == "lamina.permute":
            perm = plain(view.attributes["perm"])
            walks: list[tuple[object, ...]] = [()] * len(perm)
            for position, dim in enumerate(perm):
                walks[dim] = map_[position]
            return tuple(walks)  # type: ignore[arg-type]
        if view.name == "lamina.broadcast":
            dims = plain(view.attributes["dims"])
            return tuple(() if size == 1 else map_[dim] for size, dim in zip(source, dims, strict=True))
        groups = plain(view.attributes["reassociation"])
        if view.name == "tensor.expand_shape":
            return tuple(tuple(atom for k in group for atom in map_[k]) for group in groups)
        if not groups:
            return tuple(() for _ in source)
        found: Map = ()
        for walk, group in zip(map_, groups, strict=True):
            pieces = divide(walk, [source[k] for k in group], self.trail)
            if pieces is None:
                return None
            found += tuple(pieces)
        return found


def is_in_kernels(value: Value) -> bool:
    """Whether generated kernels can compute this value."""
    return tensor_type(value).element in KERNEL_SCALARS


def kind_of(operation: Operation) -> str:
    """elementwise, reduce, iota, index, pad, reverse; "outside" for what kernels do not compute."""
    names = {"lamina.reduce": "reduce", "lamina.iota": "iota", "lamina.index": "index"}
    names["lamina.size"] = "elementwise"
    names |= {"lamina.pad": "pad", "lamina.reverse": "reverse"}
    kind = "elementwise" if is_elementwise(operation) else names.get(operation.name, "outside")
    if kind == "outside" or len(operation.results) != 1:
        return "outside"
    values = (operation.result, *operation.operands)
    is_known = all(isinstance(value.type, TensorType) and is_in_kernels(value) for value in values)
    return kind if is_known else "outside"


def whole_dimensions(operation: Operation) -> list[int]:
    """The dimensions that the operation works along: of the result, or of the operand of an argmax."""
    attributes = operation.attributes
    if operation.name == "lamina.pad":
        amounts = zip(plain(attributes["low"]), plain(attributes["high"]), strict=True)
        return [dim for dim, pair in enumerate(amounts) if any(pair)]
    is_position = operation.name == "lamina.reduce" and plain(attributes["kind"]).startswith("arg")
    if is_position or operation.name == "lamina.reverse":
        return list(plain(attributes["dims"]))
    return []
