"""Which values depend on weights and constants alone, so that they may be computed once a weight version."""

from __future__ import annotations

from lamina.ir.attributes import plain
from lamina.ir.core import Block, Operation, Value
from lamina.ir.ops import is_pure
from lamina.ir.passes import Context
from lamina.ir.size_names import names_in

VIEWS = frozenset(
    {
        "lamina.permute", "lamina.broadcast", "tensor.extract_slice", "tensor.collapse_shape",
        "tensor.expand_shape",
    }
)  # fmt: skip
"""Operations that are free on a buffer: other strides, no work."""


def weight_arguments(function: Operation) -> set[Value]:
    """Arguments that are parameters or buffers and that the function does not write."""
    if "lamina.arg_kinds" not in function.attributes:
        return set()
    kinds = plain(function.attributes["lamina.arg_kinds"])
    mutations = function.attributes.get("lamina.mutations")
    written = {argument for argument, _ in plain(mutations)} if mutations is not None else set()
    return {
        argument
        for argument, kind in zip(function.body.arguments, kinds, strict=True)
        if kind in ("parameter", "buffer", "prepared") and argument.position not in written
    }


def weight_values(function: Operation) -> set[Value]:
    """All values that the function computes from weights and constants, with a weight among them.

    What has a size that is known only at run time is none: it would be computed once a size.
    """
    weights = weight_arguments(function)
    constants: set[Value] = set()
    _extend(function.body, weights, constants)
    return weights


def _extend(block: Block, weights: set[Value], constants: set[Value]) -> None:
    for operation in block:
        if operation.regions or not operation.results or not is_pure(operation) or names_in(operation):
            continue
        if all(value in constants for value in operation.operands):
            constants.update(operation.results)
        elif all(value in constants or value in weights for value in operation.operands):
            weights.update(operation.results)


def is_constant_scalar_or_weight(value: Value, weights: set[Value]) -> bool:
    """A weight value, or a constant."""
    maker = value.defining_op
    return value in weights or (maker is not None and maker.name == "arith.constant")


def main_function(module: Operation) -> Operation | None:
    """`func.func @main`, where the module has one with a body."""
    for operation in module.body:
        if operation.name == "func.func" and plain(operation.attributes["sym_name"]) == "main":
            return operation if operation.region.blocks else None
    return None


def main_to_fold(module: Operation, context: Context) -> Operation | None:
    """`@main`, where what its weights alone decide may be done once: a condition of all passes on weights."""
    return main_function(module) if context.options.fold_weights else None
