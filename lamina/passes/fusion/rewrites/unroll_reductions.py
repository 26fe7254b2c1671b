"""Spell out a reduction of few elements that feeds another reduction.

    %0 = lamina.reduce add %x {dims = [2]} : 10x10x3        %0 = 0.0 + %x[.., 0] + %x[.., 1] + %x[.., 2]
    %1 = lamina.reduce max %0 {dims = [1]}             =>   %1 = lamina.reduce max %0 {dims = [1]}

A kernel reduces over one set of dimensions; so the inner reduction becomes elementwise, and one kernel
does both.
"""

from __future__ import annotations

from itertools import product

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Block, Builder, Operation
from lamina.ir.ops import is_elementwise
from lamina.ir.sizes import is_static
from lamina.ir.types import TensorType, i1
from lamina.passes.fusion.graph import is_view, kind_of, shape_of, tensor_type
from lamina.passes.tensor.fold import make_splat
from lamina.passes.tensor.reshape import reshape
from lamina.passes.tensor.structure import reduce_over_ones

MOST_ELEMENTS = 16
"""Reductions of more elements stay loops."""
COMBINE = {
    "add": ("arith.addf", "arith.addi"),
    "mul": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
    "and": ("", "arith.andi"),
    "or": ("", "arith.ori"),
    "xor": ("", "arith.xori"),
}
"""The operation of two elements, on floats and on integers."""


def unroll_reductions(block: Block) -> None:
    """Users last, so that of three reductions in a chain the outermost stays."""
    for operation in block:
        if operation.name != "lamina.reduce" or kind_of(operation) != "reduce":
            continue
        if not is_static(shape_of(operation.operand())):
            continue
        count = reduced_count(operation)
        if count == 1:
            only = reduce_over_ones(operation, Builder.before_op(operation))
            assert only is not None
            operation.replace_with([only])
        elif count <= MOST_ELEMENTS and _is_spelled_out(operation) and _feeds_reduction(operation):
            _unroll(operation)


def reduced_count(operation: Operation) -> int:
    """Elements that make one element of the result."""
    shape = shape_of(operation.operand())
    count = 1
    for dim in plain(operation.attributes["dims"]):
        count *= shape[dim]
    return count


def _is_spelled_out(operation: Operation) -> bool:
    kind = plain(operation.attributes["kind"])
    is_bool_order = tensor_type(operation.operand()).element is i1 and kind in ("max", "min")
    return kind in COMBINE and not is_bool_order and reduced_count(operation) > 1


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
        if is_elementwise(user) or (
            is_view(user) and user.name not in ("lamina.broadcast", "tensor.extract_slice")
        ):
            waiting.extend(user.results[0].users)
    return False


def _unroll(operation: Operation) -> None:
    builder = Builder.before_op(operation)
    source, dims = operation.operand(), plain(operation.attributes["dims"])
    shape, element = shape_of(source), tensor_type(source).element
    names = COMBINE[plain(operation.attributes["kind"])]
    name = names[0] if element.is_float else names[1]
    # A sum of floats starts at 0.0: where all elements are -0.0, it is 0.0.
    total = make_splat(builder, 0.0, tensor_type(operation.result)) if name == "arith.addf" else None
    for place in product(*(range(shape[dim]) for dim in dims)):
        offsets = [place[dims.index(k)] if k in dims else 0 for k in range(len(shape))]
        sizes = [1 if k in dims else size for k, size in enumerate(shape)]
        attributes = {
            "static_offsets": integers(*offsets),
            "static_sizes": integers(*sizes),
            "static_strides": integers(*(1 for _ in shape)),
        }
        part = builder.value(
            "tensor.extract_slice", (source,), TensorType.get(tuple(sizes), element), attributes
        )
        part = reshape(builder, part, shape_of(operation.result))
        total = part if total is None else builder.value(name, (total, part), operation.result.type)
    assert total is not None
    operation.replace_with([total])
