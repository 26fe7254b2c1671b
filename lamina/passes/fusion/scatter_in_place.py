"""Mark library scatters whose first operand may be overwritten: only the scattered elements then move.

    %1 = aten.index_put.default(%0, %i, %v)    =>    %1 = aten.index_put.default(%0, %i, %v) {lamina.in_place}

Legal when %0 lies in memory that this program made (or is an argument whose new value this is, see
`lamina.mutations`), nothing reads that memory afterwards, and both lie alike.
"""

from __future__ import annotations

from lamina.ir.attributes import UNIT, plain
from lamina.ir.core import BlockArgument, Operation, Value
from lamina.ir.ops.aten import arguments, is_extern
from lamina.ir.sizes import hint
from lamina.passes.fusion.graph import VIEWS, bytes_of, count_of, root_of, shape_of, tensor_type
from lamina.passes.fusion.layouts import Layouts

SCATTERS = frozenset(
    f"aten.{name}"
    for name in (
        "index_put.default",
        "index_copy.default",
        "index_add.default",
        "scatter.src",
        "scatter_add.default",
    )
)
ATTRIBUTE = "lamina.in_place"
SHARES = frozenset({"tensor.concat"}) | {
    f"aten.{name}.default" for name in ("reshape", "contiguous", "view", "_reshape_alias")
}
"""Readers whose result may lie in the memory they read."""


def scatter_in_place(function: Operation) -> int:
    """Mark all that are legal in a `func.func` at tensor level; returns how many."""
    layouts = Layouts(function)
    order = {operation: place for place, operation in enumerate(function.body)}
    count = 0
    for operation in function.body:
        if operation.name in SCATTERS and _is_legal(operation, function, layouts, order):
            operation.attributes[ATTRIBUTE] = UNIT
            count += 1
    return count


def _is_legal(
    operation: Operation, function: Operation, layouts: Layouts, order: dict[Operation, int]
) -> bool:
    target = operation.operand()
    root = root_of(target)
    if target.type is not operation.result.type or layouts.of(target) != layouts.of(operation.result):
        return False
    owner = root.defining_op
    if isinstance(root, BlockArgument):
        if not _is_new_value_of(operation, root, function):
            return False
    elif owner is None or owner.name == "arith.constant" or not _is_fresh(owner):
        return False
    if any(root_of(value) is root for value in operation.operands[1:]):
        return False
    return all(reader.name not in SHARES and order[reader] <= order[operation] for reader in _readers(root))


def _is_fresh(owner: Operation) -> bool:
    """Whether the maker of a value surely gives memory of its own."""
    return owner.name in ("lamina.kernel", "func.call") or owner.name in SCATTERS


def _is_new_value_of(operation: Operation, argument: BlockArgument, function: Operation) -> bool:
    mutations = function.attributes.get("lamina.mutations")
    returned = function.body.terminator.operands
    return any(
        position == argument.position and returned[result] is operation.result
        for position, result in (plain(mutations) if mutations is not None else ())
    )


def _readers(value: Value) -> list[Operation]:
    """Operations that read a value's memory, through views."""
    found: list[Operation] = []
    for user in value.users:
        found += _readers(user.result) if user.name in VIEWS else [user]
    return found


def is_in_place(operation: Operation) -> bool:
    return is_extern(operation) and ATTRIBUTE in operation.attributes


def touched_bytes(operation: Operation) -> int:
    """Bytes that an in-place scatter writes."""
    whole = bytes_of(operation.result)
    size = tensor_type(operation.result).element.bytes
    if operation.name != "aten.index_put.default":
        return min(whole, max((count_of(value) for value in operation.operands[1:]), default=0) * size)
    indices = arguments(operation)[0][1]
    if not isinstance(indices, list):
        return whole
    count, shape = 1, shape_of(operation.result)
    for value in indices:
        count = max(count, count_of(value) if isinstance(value, Value) else 1)
    for dim, extent in enumerate(shape):
        if dim >= len(indices) or not isinstance(indices[dim], Value):
            count *= hint(extent)
    return min(whole, count * size)
