"""Slice the operands instead of the result of elementwise operations.

    %0 = arith.addf %x, %y                       %0 = tensor.extract_slice %x [0] [4] [1]
    %1 = tensor.extract_slice %0 [0] [4] [1]  => %1 = tensor.extract_slice %y [0] [4] [1]
    %2 = math.tanh %1                            %2 = math.tanh (arith.addf %0, %1)

So a kernel that needs parts of a value computes just them; a slice only ever reads memory. Done where
nothing needs the whole value, and the parts together are at most the whole.
"""

from __future__ import annotations

from collections.abc import Hashable

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Block, Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.types import TensorType
from lamina.passes.fusion.graph import count_of, is_view, kind_of, shape_of, tensor_type

MOST_REPEATS = 1.0
"""Elements of all slices together, as a multiple of the sliced value's."""


def slices_first(block: Block) -> None:
    """To a fixed point: a slice that moves up may meet the next operation."""
    waiting = [operation for operation in block if operation.name == "tensor.extract_slice"]
    while waiting:
        slice_ = waiting.pop()
        if slice_.parent is None:
            continue
        source = slice_.operand().defining_op
        if source is None or not slice_.result.uses:
            continue
        if source.name in ("lamina.permute", "lamina.broadcast"):
            if source.result.has_one_use or not _is_stored(source.operand()):
                waiting.extend(_move_through_view(slice_, source))
        elif _is_movable(source):
            for other in list(source.result.users):
                waiting.extend(_move_through_elementwise(other, source))
    _merge_equal_slices(block)


def _merge_equal_slices(block: Block) -> None:
    """Kernels that read one slice of a value then share an input."""
    known: dict[tuple[Value, Hashable], Value] = {}
    for operation in block:
        if operation.name != "tensor.extract_slice":
            continue
        columns = tuple(operation.attributes[f"static_{name}"] for name in ("offsets", "sizes", "strides"))
        found = known.setdefault((operation.operand(), columns), operation.result)
        if found is not operation.result:
            operation.replace_with([found])


def _is_stored(value: Value) -> bool:
    """Whether the value lies in memory anyway."""
    owner = value.defining_op
    return owner is None or not (is_elementwise(owner) or is_view(owner))


def _is_movable(source: Operation) -> bool:
    if not is_elementwise(source) or kind_of(source) == "outside":
        return False
    users = source.result.users
    if any(user.name != "tensor.extract_slice" for user in users):
        return False
    # Slices that only library calls take are views of the whole value; computing parts would gain nothing.
    if not any(kind_of(reader) != "outside" for user in users for reader in _readers(user)):
        return False
    total = sum(count_of(user.result) for user in users)
    return total <= MOST_REPEATS * count_of(source.result)


def _readers(view: Operation) -> list[Operation]:
    """The operations that take a view's result, behind further views."""
    found: list[Operation] = []
    for user in view.result.users:
        found += _readers(user) if is_view(user) else [user]
    return found


def _move_through_elementwise(slice_: Operation, source: Operation) -> list[Operation]:
    """The new slices of the operands."""
    builder = Builder.before_op(source)
    builder.before = slice_
    made: dict[Value, Value] = {}
    for value in source.operands:
        if value not in made:
            type_ = TensorType.get(shape_of(slice_.result), tensor_type(value).element)
            made[value] = builder.value("tensor.extract_slice", (value,), type_, slice_.attributes)
    builder.location = source.location
    operands = [made[value] for value in source.operands]
    moved = builder.value(source.name, operands, slice_.result.type, source.attributes)
    slice_.replace_with([moved])
    if not source.result.uses:
        source.erase()
    return [operation for value in made.values() if (operation := value.defining_op) is not None]


def _move_through_view(slice_: Operation, view: Operation) -> list[Operation]:
    builder = Builder.before_op(slice_)
    source = view.operand()
    columns = [plain(slice_.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")]
    places = plain(view.attributes["perm" if view.name == "lamina.permute" else "dims"])
    if view.name == "lamina.permute":
        before = [[column[places.index(k)] for k in range(len(places))] for column in columns]
    else:
        whole = ([0] * len(places), list(shape_of(source)), [1] * len(places))
        before = [
            [own[k] if shape_of(source)[k] == 1 else column[place] for k, place in enumerate(places)]
            for own, column in zip(whole, columns, strict=True)
        ]
    names = ("static_offsets", "static_sizes", "static_strides")
    attributes = {name: integers(*column) for name, column in zip(names, before, strict=True)}
    type_ = TensorType.get(tuple(before[1]), tensor_type(source).element)
    is_whole = type_ is source.type
    inner = source if is_whole else builder.value("tensor.extract_slice", (source,), type_, attributes)
    moved = builder.value(view.name, (inner,), slice_.result.type, view.attributes)
    slice_.replace_with([moved])
    if not view.result.uses:
        view.erase()
    operation = inner.defining_op
    return [] if is_whole or operation is None else [operation]
