"""Move work that depends on weights alone into a function that runs once a weight version.

    func @main(%x, %w)                                         func @prepare(%w) -> %0
      %0 = mkl._mkl_reorder_linear_weight(%w, 8)         =>      %0 = mkl._mkl_reorder_linear_weight(%w, 8)
      %1 = mkl._mkl_linear(%x, %0, ...)                        func @main(%x, %w, %0)
                                                                 %1 = mkl._mkl_linear(%x, %0, ...)

The results of @prepare become further arguments of @main, of kind "prepared"; `lamina.prepare_arguments` of
@main says which of its arguments @prepare takes. Only work moves: a view of a weight stays where it is, and
so does what is computed from constants alone, which kernels make cheaper than they read it. @prepare has
library calls only: what runs once is not worth a kernel.
"""

from __future__ import annotations

import math
from typing import Any

from lamina.ir.attributes import attribute, plain
from lamina.ir.core import UNKNOWN, Block, Builder, Operation, Region, Value, symbol_name
from lamina.ir.ops import is_pure
from lamina.ir.ops.aten import is_extern
from lamina.ir.passes import Context
from lamina.ir.size_names import names_in
from lamina.ir.types import FunctionType, TensorType, numbers, row_major_strides
from lamina.passes.tensor.to_library import can_run, to_library
from lamina.passes.tensor.weights import VIEWS, main_to_fold, weight_values

NAME = "prepare"


def run(module: Operation, context: Context) -> None:
    """Add @prepare and give @main its results, where there is work to move."""
    main = main_to_fold(module, context)
    if main is None or _has_prepare(module):
        return
    wanted = [value for value in _values_to_prepare(main) if all(map(can_run, _behind([value])))]
    if not wanted:
        return
    moved = _needed_by(wanted)
    sources = [argument for argument in main.body.arguments if argument.uses and _feeds(argument, moved)]
    function = _make_function(main, sources, _largest_first(moved, wanted), wanted)
    to_library(function)
    module.body.insert(function, main)
    _add_arguments(main, wanted)
    main.attributes["lamina.prepare_arguments"] = attribute([argument.position for argument in sources])
    for operation in reversed(moved):
        if not any(result.uses for result in operation.results):
            operation.erase()
    text = f"{len(moved)} operations on weights done once; {len(wanted)} values kept"
    names = sorted({operation.name for operation in moved})
    context.remarks.add(NAME, UNKNOWN, text, "applied", operations=names)


def _has_prepare(module: Operation) -> bool:
    return any(symbol_name(operation) == "prepare" for operation in module.body)


def _values_to_prepare(main: Operation) -> list[Value]:
    """Values computed from weights that other operations use, without the views on top of them."""
    weights = weight_values(main)
    free = _computed_from_nothing(main)
    wanted: dict[Value, None] = {}
    for operation in main.body:
        if all(result in weights or result in free for result in operation.results) and operation.results:
            continue
        for value in operation.operands:
            if value not in weights and value not in free:
                continue
            below = _below_views(value)
            if below.defining_op is not None and (below in weights or below in free):
                wanted[below] = None
    return list(wanted)


def _computed_from_nothing(main: Operation) -> set[Value]:
    """Results of pure library calls that take no tensor: the library's constants."""
    return {
        result
        for operation in main.body
        if is_extern(operation) and is_pure(operation) and not operation.operands and not names_in(operation)
        for result in operation.results
    }


def _below_views(value: Value) -> Value:
    operation = value.defining_op
    while operation is not None and operation.name in VIEWS:
        value = operation.operand()
        operation = value.defining_op
    return value


def _behind(wanted: list[Value]) -> set[Operation]:
    """The operations that the wanted values are computed by."""
    found: set[Operation] = set()
    pending = [value.defining_op for value in wanted]
    while pending:
        operation = pending.pop()
        if operation is not None and operation not in found:
            found.add(operation)
            pending.extend(value.defining_op for value in operation.operands)
    return found


def _needed_by(wanted: list[Value]) -> list[Operation]:
    """The operations behind the wanted values, in program order."""
    found = _behind(wanted)
    block = wanted[0].defining_op.parent if wanted[0].defining_op is not None else None
    return [] if block is None else [operation for operation in block if operation in found]


def _largest_first(moved: list[Operation], wanted: list[Value]) -> list[Operation]:
    """The operations behind the wanted values, one value's after another's.

    What one value leaves behind has room for what the smaller ones need on their way: memory is not cut into
    pieces between the values that stay.
    """
    place = {operation: k for k, operation in enumerate(moved)}
    ordered = sorted(wanted, key=lambda value: -_count(value))
    chains = (sorted(_behind([value]), key=place.__getitem__) for value in ordered)
    return list(dict.fromkeys(operation for chain in chains for operation in chain))


def _count(value: Value) -> int:
    assert isinstance(value.type, TensorType)
    return math.prod(value.type.sizes)


def _feeds(argument: Value, moved: list[Operation]) -> bool:
    inside = set(moved)
    return any(user in inside for user in argument.users)


def _make_function(
    main: Operation, sources: list[Any], moved: list[Operation], wanted: list[Value]
) -> Operation:
    block = Block(argument.type for argument in sources)
    mapping: dict[Value, Value] = dict(zip(sources, block.arguments, strict=True))
    for operation in moved:
        block.append(operation.clone(mapping))
    Builder(block).op("func.return", [mapping[value] for value in wanted])
    type_ = FunctionType.get(
        tuple(argument.type for argument in sources), tuple(value.type for value in wanted)
    )
    positions = [argument.position for argument in sources]
    kinds, strides = plain(main.attributes["lamina.arg_kinds"]), main.attributes.get("lamina.arg_strides")
    attributes: dict[str, Any] = {
        "sym_name": "prepare",
        "function_type": type_,
        "lamina.arg_kinds": [kinds[position] for position in positions],
        "lamina.result_strides": [strides_of_result(value) for value in wanted],
    }
    if strides is not None:
        all_strides = plain(strides)
        attributes["lamina.arg_strides"] = [all_strides[position] for position in positions]
    return Operation("func.func", attributes=attributes, regions=[Region([block])])


def strides_of_result(value: Value) -> list[int]:
    """Strides of a value as @prepare gives it: a library's own, else row-major."""
    operation = value.defining_op
    if operation is not None and is_extern(operation):
        place = operation.results.index(value)  # type: ignore[arg-type]
        return list(plain(operation.attributes["result_strides"])[place])
    assert isinstance(value.type, TensorType)
    return list(numbers(row_major_strides(value.type.shape) or ()))


def _add_arguments(main: Operation, wanted: list[Value]) -> None:
    body = main.body
    strides = main.attributes.get("lamina.arg_strides")
    all_strides = plain(strides) if strides is not None else None
    kinds, opaque = plain(main.attributes["lamina.arg_kinds"]), []
    for value in wanted:
        if all_strides is not None:
            all_strides.append(strides_of_result(value))
        argument = body.add_argument(value.type)
        kinds.append("prepared")
        if is_opaque(value):
            opaque.append(argument.position)
        value.replace_all_uses_with(argument)
    results = plain(main.attributes["function_type"]).results
    type_ = FunctionType.get(tuple(argument.type for argument in body.arguments), results)
    changes: dict[str, Any] = {"function_type": type_, "lamina.arg_kinds": kinds}
    if all_strides is not None:
        changes["lamina.arg_strides"] = all_strides
    if opaque:
        changes["lamina.opaque_args"] = opaque
    main.attributes.update({name: attribute(value) for name, value in changes.items()})


def is_opaque(value: Value) -> bool:
    """Whether a value is a library's own packed data."""
    operation = value.defining_op
    return operation is not None and "opaque" in operation.attributes
