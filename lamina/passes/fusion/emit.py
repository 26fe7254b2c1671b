"""Build the `lamina.kernel` of one group: views of its inputs in @main, the region, views of its results
in @main.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.ir.attributes import DenseElementsAttr, attribute, integers, plain
from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.sizes import Size, SymbolicSize, UndecidedSize, is_static
from lamina.ir.types import TensorType, Type, i64
from lamina.passes.fusion.atoms import Atom, Map, Walk, flatten, resolve
from lamina.passes.fusion.cost import stage_count
from lamina.passes.fusion.graph import Graph, Node, Read, is_splat, root_of, shape_of, tensor_type
from lamina.passes.fusion.groups import Group, is_read_elsewhere
from lamina.passes.fusion.layouts import Layouts
from lamina.passes.fusion.space import Access, Space, access_of, make_space, row_major
from lamina.passes.fusion.stored import place_strides, stored_order
from lamina.passes.fusion.taxonomy import name_kind
from lamina.passes.tensor.reshape import reshape


@dataclass(eq=False, slots=True)
class Argument:
    """A value in memory that the kernel reads, and how the domain walks it.

    `map` is None for the source of a gather, which keeps its shape.
    """

    source: Value
    map: Map | None
    view: Value | None = None
    inner: Value | None = None
    dims: tuple[int, ...] = ()


class Body(Builder):
    """A builder that gives an equal operation made before instead of making it again."""

    __slots__ = ("known",)

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.known: dict[Any, Value] = {}

    def value(
        self,
        name: str,
        operands: Iterable[Value],
        result_type: Type,
        attributes: Mapping[str, Any] | None = None,
    ) -> Value:
        operands = tuple(operands)
        plain_entries = {key: attribute(entry) for key, entry in (attributes or {}).items()}
        key = (name, operands, result_type, tuple(sorted(plain_entries.items(), key=lambda entry: entry[0])))
        found = self.known.get(key)
        if found is None:
            found = super().value(name, operands, result_type, plain_entries)
            self.known[key] = found
        return found


def emit_kernel(
    graph: Graph,
    function: Operation,
    layouts: Layouts,
    group: Group,
    builder: Builder,
    stored: Callable[[Value], Value],
) -> list[tuple[Node, Value]]:
    """Build everything; each written node with its value in @main, in its logical shape."""
    parts = [
        PartEmitter(graph, function, layouts, group, part, builder, stored) for part in group.parts or [group]
    ]
    for part in parts:
        part.prepare()
    views = list(dict.fromkeys(argument.view for part in parts for argument in part.arguments.values()))
    inputs = [view for view in views if view is not None]
    block = Block(view.type for view in inputs)
    inner: dict[Value, Value] = dict(zip(inputs, block.arguments, strict=True))
    body = Body(block)
    results = [part.compute(body, inner) for part in parts]
    yielded = [value for values in results for value in values]
    body.location = builder.location
    body.op("lamina.yield", yielded)
    main, space = parts[0].part, parts[0].space
    attributes = {
        "kind": name_kind(main),
        "domain": integers(*space.sizes(space.all)),
        "reduced": integers(*space.reduced),
        "stages": stage_count(graph, main.nodes, main.reduced) if space.reduced else 0,
        "nests": len(parts),
        "arg_strides": [list(layouts.of(view)) for view in inputs],
        "result_strides": [strides for part in parts for strides in part.result_strides()],
    }
    types = [value.type for value in yielded]
    kernel = builder.op("lamina.kernel", inputs, types, attributes, [Region([block])])
    found: list[tuple[Node, Value]] = []
    start = 0
    for part, values in zip(parts, results, strict=True):
        found += part.view_results(kernel.results[start : start + len(values)])
        start += len(values)
    return found


@dataclass(eq=False, slots=True)
class PartEmitter:
    """One iteration space of a kernel. `stored` gives the value in memory that stands for an old value of
    @main, putting views in place.
    """

    graph: Graph
    function: Operation
    layouts: Layouts
    group: Group
    part: Group
    builder: Builder
    stored: Callable[[Value], Value]
    arguments: dict[Any, Argument] = field(default_factory=dict)
    of_read: dict[tuple[Node, int], Argument] = field(default_factory=dict)
    made: dict[Node, Value] = field(default_factory=dict)
    written: dict[Node, Access] = field(default_factory=dict)
    space: Space = field(default_factory=lambda: Space((), ()))

    def prepare(self) -> None:
        """Views of the inputs in @main, and the iteration space."""
        outputs = [node for node in self.part.nodes if is_read_elsewhere(self.graph, node, (self.group,))]
        for node in self.part.nodes:
            for read in node.reads:
                if not self._is_inner(read):
                    self._find_argument(node, read)
        orders = {
            node: stored_order(self.graph, self.function, node) for node in outputs if node.place is None
        }
        self.written = {node: self._written_access(node, orders) for node in outputs}
        self.space = self._make_space(self.written, orders)
        for argument in self.arguments.values():
            self._view_argument(argument, self.space)

    def _written_access(self, node: Node, orders: dict[Node, list[Atom]]) -> Access:
        if node.place is not None:
            return access_of(node.map, place_strides(node.operation))
        return row_major(resolve(orders[node]))

    # arguments

    def _is_inner(self, read: Read) -> bool:
        source = self.graph.of_value.get(read.base)
        return source is not None and source.group is self.group and not read.must_be_stored

    def _find_argument(self, node: Node, read: Read) -> None:
        if node.kind == "index" and read.position == 0:
            source, map_ = self.stored(read.value), None
        elif node.kind in ("pad", "reverse") and read.position == 0:
            source, map_ = self.stored(read.value), node.map
        else:
            pulled = self.graph.pull(read)
            base = read.base if pulled is not None else read.value
            source, map_ = self.stored(base), pulled if pulled is not None else node.map_of(read)
        key = (source, None if map_ is None else tuple(map(tuple, map(resolve, map_))), node.kind == "pad")
        argument = self.arguments.setdefault(key, Argument(source, map_))
        self.of_read[node, read.position] = argument

    def _make_space(self, written: dict[Node, Access], orders: dict[Node, list[Atom]]) -> Space:
        domain, reduced = self.part.domain, self.part.reduced
        accesses = list(written.values())
        for argument in self.arguments.values():
            if argument.map is not None:
                accesses.append(access_of(argument.map, self.layouts.of(argument.source)))
        order = self._domain_order(domain, written, orders)
        for node in self.part.nodes:
            accesses.extend(_own_accesses(node))
            # A value that walks a part of the dimensions keeps that part apart.
            own = set(flatten(node.map))
            accesses.append(row_major(atom for atom in order if atom in own))
        return make_space(order, reduced, accesses)

    def _domain_order(
        self, domain: list[Atom], written: dict[Node, Access], orders: dict[Node, list[Atom]]
    ) -> list[Atom]:
        """The memory order of the first result that walks the whole domain, else of what is reduced."""
        candidates = [resolve(order) for order in orders.values()]
        candidates += [flatten(node.map) for node in written if node.place is not None]
        candidates += [flatten(node.operand_map) for node in self.part.nodes if node.kind == "reduce"]
        for order in candidates:
            if set(order) == set(domain) and len(order) == len(domain):
                return order
        return domain

    def _view_argument(self, argument: Argument, space: Space) -> None:
        """In @main: the source in the order and the dimensions of the domain."""
        if argument.map is None:
            argument.view = argument.source
            return
        sizes = shape_of(argument.source)
        atoms = flatten(argument.map)
        atom_sizes = _atom_sizes(argument.map, sizes)
        value = reshape(self.builder, argument.source, [atom_sizes[atom] for atom in atoms])
        argument.dims = space.walked_by(atoms)
        order = [atom for k in argument.dims for atom in space.dimensions[k]]
        value = permute(self.builder, value, [atoms.index(atom) for atom in order])
        shape = []
        for k in argument.dims:
            size = 1
            for atom in space.dimensions[k]:
                size *= atom_sizes[atom]
            shape.append(size)
        argument.view = reshape(self.builder, value, shape)

    # the region

    def compute(self, body: Body, inner: dict[Value, Value]) -> list[Value]:
        """Build the part's operations in the kernel's block; the values of the written nodes."""
        for argument in self.arguments.values():
            assert argument.view is not None
            argument.inner = inner[argument.view]
        for node in self.part.nodes:
            body.location = node.location
            self.made[node] = self._compute(node, self.space, body)
        return [self.made[node] for node in self.written]

    def result_strides(self) -> list[list[int]]:
        return [
            list(self.space.strides(access, self.space.walked_by(flatten(node.map))))
            for node, access in self.written.items()
        ]

    def view_results(self, results: Sequence[Value]) -> list[tuple[Node, Value]]:
        """In @main: each written node with its value in its logical shape."""
        return [
            (node, self._view_result(node, result, self.space, self.space.walked_by(flatten(node.map))))
            for node, result in zip(self.written, results, strict=True)
        ]

    def _view_result(self, node: Node, result: Value, space: Space, dims: tuple[int, ...]) -> Value:
        """In @main: a kernel result in the node's logical shape."""
        order = [atom for k in dims for atom in space.dimensions[k]]
        value = reshape(self.builder, result, [atom.size for atom in order])
        value = permute(self.builder, value, [order.index(atom) for atom in flatten(node.map)])
        return reshape(self.builder, value, shape_of(node.written))

    def _compute(self, node: Node, space: Space, body: Body) -> Value:
        operation = node.operation
        dims = space.walked_by(flatten(node.map))
        if node.kind == "copy":
            assert node.place is not None
            return self._operand(node, node.place[1], space, dims, body)
        type_ = TensorType.get(space.sizes(dims), tensor_type(operation.result).element)
        if node.kind == "iota":
            walk = node.map[plain(operation.attributes["dim"])]
            return self._position(walk, space, dims, body, type_)
        if node.kind == "index":
            return self._gather(node, space, dims, body, type_)
        if node.kind in ("pad", "reverse"):
            return self._access(node, space, dims, body)
        attributes = dict(operation.attributes)
        if node.kind == "reduce":
            attributes["dims"] = integers(*space.reduced)
            dims = space.all
        operands = [self._operand(node, k, space, dims, body) for k in range(len(operation.operands))]
        return body.value(operation.name, operands, type_, attributes)

    def _operand(self, node: Node, position: int, space: Space, wanted: tuple[int, ...], body: Body) -> Value:
        """An operand in the domain's shape or the parallel shape."""
        old = node.operation.operand(position)
        root = root_of(old)
        if is_splat(root):
            dense = root.defining_op.attributes["value"]  # type: ignore[union-attr]
            assert isinstance(dense, DenseElementsAttr)
            type_ = TensorType.get(space.sizes(wanted), dense.type.element)
            return self._constant(dense.splat_value(), type_, body)
        read = next(read for read in node.reads if read.position == position)
        argument = self.of_read.get((node, position))
        if argument is not None:
            assert argument.inner is not None
            return self._broadcast(argument.inner, argument.dims, space, wanted, body)
        source = self.graph.of_value[read.base]
        return self._broadcast(self.made[source], space.walked_by(flatten(source.map)), space, wanted, body)

    def _broadcast(
        self, value: Value, dims: Sequence[int], space: Space, wanted: tuple[int, ...], body: Body
    ) -> Value:
        if dims == wanted:
            return value
        type_ = TensorType.get(space.sizes(wanted), tensor_type(value).element)
        places = integers(*(wanted.index(dim) for dim in dims))
        return body.value("lamina.broadcast", (value,), type_, {"dims": places})

    @staticmethod
    def _constant(number: float | Size, type_: TensorType, body: Body) -> Value:
        if isinstance(number, SymbolicSize):
            raise UndecidedSize(f"a position counts in steps of {number}")
        if not is_static(type_.shape):
            # MLIR has no constants of sizes that are known at run time.
            scalar = PartEmitter._constant(number, TensorType.get((), type_.element), body)
            return body.value("lamina.broadcast", (scalar,), type_, {"dims": integers()})
        return body.value("arith.constant", (), type_, {"value": DenseElementsAttr.splat(number, type_)})

    def _position(
        self, walk: Walk, space: Space, wanted: tuple[int, ...], body: Body, type_: TensorType
    ) -> Value:
        """The position along a logical dimension: a sum of iotas times strides."""
        total: Value | None = None
        step = 1
        for dim in reversed(_walked_dimensions(walk, space)):
            term = body.value("lamina.iota", (), type_, {"dim": wanted.index(dim)})
            if step != 1:
                term = body.value("arith.muli", (term, self._constant(step, type_, body)), type_)
            total = term if total is None else body.value("arith.addi", (total, term), type_)
            step *= space.sizes((dim,))[0]
        return total if total is not None else self._constant(0, type_, body)

    def _gather(
        self, node: Node, space: Space, wanted: tuple[int, ...], body: Body, type_: TensorType
    ) -> Value:
        """The source at computed positions along the indexed dimensions, at its own along the others."""
        argument = self.of_read[node, 0]
        assert argument.inner is not None
        rank = len(shape_of(argument.inner))
        indexed = plain(node.operation.attributes["dims"])
        index_rank = len(shape_of(node.operation.operand(1)))
        index_type = TensorType.get(type_.shape, i64)
        positions: list[Value] = []
        for dim in range(rank):
            if dim in indexed:
                positions.append(self._operand(node, 1 + indexed.index(dim), space, wanted, body))
                continue
            own = dim if dim < indexed[0] else dim - len(indexed) + index_rank
            positions.append(self._position(node.map[own], space, wanted, body, index_type))
        attributes = {"dims": integers(*range(rank))}
        return body.value("lamina.index", [argument.inner, *positions], type_, attributes)

    def _access(self, node: Node, space: Space, wanted: tuple[int, ...], body: Body) -> Value:
        """Pad or reverse an argument, then broadcast it."""
        argument = self.of_read[node, 0]
        assert argument.inner is not None
        atoms = [space.dimensions[k][0] for k in argument.dims]
        old = node.operation.attributes
        owner = {resolve(walk)[0]: k for k, walk in enumerate(node.map) if resolve(walk)}
        if node.kind == "reverse":
            dims = [k for k, atom in enumerate(atoms) if owner.get(atom) in plain(old["dims"])]
            value = body.value(
                "lamina.reverse", (argument.inner,), argument.inner.type, {"dims": integers(*dims)}
            )
            return self._broadcast(value, argument.dims, space, wanted, body)
        low, high = (
            [_entry(plain(old[side]), owner.get(atom)) for atom in atoms] for side in ("low", "high")
        )
        type_ = TensorType.get(space.sizes(argument.dims), tensor_type(argument.inner).element)
        filling = self._operand(node, 1, space, (), body)
        attributes = {"low": integers(*low), "high": integers(*high)}
        value = body.value("lamina.pad", (argument.inner, filling), type_, attributes)
        return self._broadcast(value, argument.dims, space, wanted, body)


def _entry(amounts: list[int], dim: int | None) -> int:
    return 0 if dim is None else amounts[dim]


def _atom_sizes(map_: Map, sizes: Sequence[int]) -> dict[Atom, int]:
    """Sizes of the atoms in the source: their own, but a padded dimension is shorter in the source."""
    found: dict[Atom, int] = {}
    for walk, size in zip(map_, sizes, strict=True):
        atoms = resolve(walk)
        for atom in atoms:
            found[atom] = size if len(atoms) == 1 else atom.size
    return found


def _walked_dimensions(walk: Walk, space: Space) -> list[int]:
    """The merged dimensions that a walk consists of, outer first."""
    place = {atom: k for k, atoms in enumerate(space.dimensions) for atom in atoms}
    return list(dict.fromkeys(place[atom] for atom in resolve(walk)))


def _own_accesses(node: Node) -> list[Access]:
    """What keeps dimensions apart besides memory: positions that iota, gathers and padding tell apart."""
    attributes = node.operation.attributes
    if node.kind == "iota":
        return [access_of((node.map[plain(attributes["dim"])],), (1,))]
    if node.kind in ("index", "pad", "reverse"):
        return [access_of((walk,), (1,)) for walk in node.map]
    return []


def permute(builder: Builder, value: Value, perm: Sequence[int]) -> Value:
    """`lamina.permute`, or the value itself for the identity."""
    if list(perm) == list(range(len(perm))):
        return value
    shape = shape_of(value)
    type_ = TensorType.get(tuple(shape[k] for k in perm), tensor_type(value).element)
    return builder.value("lamina.permute", (value,), type_, {"perm": integers(*perm)})
