"""Spell out a reduction of few elements that feeds another reduction.

    %0 = lamina.reduce add %x {dims = [2]} : 10x10x3        %0 = %x[.., 0] + %x[.., 1] + %x[.., 2]
    %1 = lamina.reduce max %0 {dims = [1]}             =>   %1 = lamina.reduce max %0 {dims = [1]}

A kernel reduces over one set of dimensions; so the inner reduction becomes elementwise, and one kernel does both.
"""

from __future__ import annotations

from itertools import product

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Block, Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.types import TensorType
from lamina.passes.fusion.graph import is_view, kind_of, shape_of, tensor_type
from lamina.passes.tensor.reshape import reshape

MOST_ELEMENTS = 16
"""Reductions of more elements stay loops."""
COMBINE = {
    "add": ("arith.addf", "arith.addi"), "mul": ("arith.mulf", "arith.muli"), "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"), "and": ("", "arith.andi"), "or": ("", "arith.ori"),
    "xor": ("", "arith.xori"),
}  # fmt: skip


def unroll_reductions(block: Block) -> None:
    """Users last, so that of three reductions in a chain the outermost stays."""
    for operation in block:
        if operation.name == "lamina.reduce" and kind_of(operation) == "reduce" and _is_small_and_feeds(operation):
            _unroll(operation)


def _is_small_and_feeds(operation: Operation) -> bool:
    shape, dims = shape_of(operation.operand()), plain(operation.attributes["dims"])
    count = 1
    for dim in dims:
        count *= shape[dim]
    is_known = plain(operation.attributes["kind"]) in COMBINE
    return is_known and 1 < count <= MOST_ELEMENTS and _feeds_reduction(operation)


def _feeds_reduction(operation: Operation) -> bool:
    """Whether elementwise operations and reshapes alone lie between it and another reduction of its shape."""
    waiting, seen = list(operation.result.users), set[Operation]()
    while waiting:
        user = waiting.pop()
        if user in seen:
            continue
        seen.add(user)
        if user.name == "lamina.reduce":
            return True
        if is_elementwise(user) or (is_view(user) and user.name not in ("lamina.broadcast", "tensor.extract_slice")):
            waiting.extend(user.results[0].users)
    return False


def _unroll(operation: Operation) -> None:
    builder = Builder.before_op(operation)
    source, dims = operation.operand(), plain(operation.attributes["dims"])
    shape, element = shape_of(source), tensor_type(source).element
    names = COMBINE[plain(operation.attributes["kind"])]
    name = names[0] if element.is_float else names[1]
    total: Value | None = None
    for place in product(*(range(shape[dim]) for dim in dims)):
        offsets = [place[dims.index(k)] if k in dims else 0 for k in range(len(shape))]
        sizes = [1 if k in dims else size for k, size in enumerate(shape)]
        attributes = {
            "static_offsets": integers(*offsets),
            "static_sizes": integers(*sizes),
            "static_strides": integers(*(1 for _ in shape)),
        }
        part = builder.value("tensor.extract_slice", (source,), TensorType.get(tuple(sizes), element), attributes)
        part = reshape(builder, part, shape_of(operation.result))
        total = part if total is None else builder.value(name, (total, part), operation.result.type)
    assert total is not None
    operation.replace_with([total])
