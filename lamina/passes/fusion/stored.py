"""The memory order in which a kernel writes a value, so that later views of it move no data.

Default: row-major. Two things ask for another order: a reshape of a permuted value that a library call takes
(attention's heads merged), and a result whose strides eager's result has.
"""

from __future__ import annotations

from lamina.ir.attributes import plain
from lamina.ir.core import Operation, Value
from lamina.passes.fusion.atoms import Atom, Map, divide, flatten, resolve
from lamina.passes.fusion.graph import BIJECTIVE_VIEWS, Graph, Node, shape_of
from lamina.passes.fusion.layouts import stated_strides
from lamina.passes.fusion.space import row_major


def place_strides(concat: Operation) -> tuple[int, ...]:
    """Row-major strides of a concatenation's result: those of each piece in it."""
    strides, step = [], 1
    for size in reversed(shape_of(concat.result)):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def stored_order(graph: Graph, function: Operation, node: Node) -> list[Atom]:
    """The atoms of a node's value, outermost in memory first. May split atoms: resolve the list again at
    the end.
    """
    default = flatten(node.map)
    assert node.result is not None
    waiting: list[tuple[Value, Map]] = [(node.result, node.map)]
    while waiting:
        value, map_ = waiting.pop(0)
        for user, position in value.uses:
            if user.name == "func.return":
                order = _returned_order(function, position, map_)
                if order is not None:
                    return order
            elif user.name in BIJECTIVE_VIEWS and user.name != "lamina.broadcast":
                pushed = _push(graph, user, map_)
                if pushed is None or not _reaches_outside(graph, user.result):
                    continue
                if user.name == "tensor.collapse_shape" and not _is_walkable(pushed, default):
                    return flatten(pushed)
                waiting.append((user.result, pushed))
    return default


def _reaches_outside(graph: Graph, value: Value) -> bool:
    """Whether a library call or the caller takes the value or a view of it."""
    return any(
        user in graph.outside or (user.name in BIJECTIVE_VIEWS and _reaches_outside(graph, user.result))
        for user in value.users
    )


def _returned_order(function: Operation, position: int, map_: Map) -> list[Atom] | None:
    """Atoms by falling stride of the result; None when it is row-major or has gaps or overlaps."""
    strides = stated_strides(function, "lamina.result_strides", position)
    if strides is None:
        return None
    walks = [(stride, [*resolve(walk)]) for walk, stride in zip(map_, strides, strict=True) if resolve(walk)]
    walks.sort(key=lambda entry: -entry[0])
    order = [atom for _, walk in walks for atom in walk]
    access = row_major(order)
    is_dense = all(access[walk[-1]] == stride for stride, walk in walks)
    return order if is_dense and order != flatten(map_) else None


def _push(graph: Graph, view: Operation, map_: Map) -> Map | None:
    """The map of a view's result from the map of its operand."""
    if view.name == "lamina.permute":
        return tuple(map_[k] for k in plain(view.attributes["perm"]))
    groups = plain(view.attributes["reassociation"])
    if view.name == "tensor.collapse_shape":
        return tuple(tuple(atom for k in group for atom in map_[k]) for group in groups)
    sizes = shape_of(view.result)
    if not groups:
        return tuple(() for _ in sizes)
    found: Map = ()
    for walk, group in zip(map_, groups, strict=True):
        pieces = divide(walk, [sizes[k] for k in group], graph.trail)
        if pieces is None:
            return None
        found += tuple(pieces)
    return found


def _is_walkable(map_: Map, order: list[Atom]) -> bool:
    """Whether each dimension is a run of neighbours in the memory order."""
    place = {atom: k for k, atom in enumerate(resolve(order))}
    for walk in map_:
        positions = [place[atom] for atom in resolve(walk)]
        if positions != list(range(positions[0], positions[0] + len(positions))) if positions else False:
            return False
    return True
