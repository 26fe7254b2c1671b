"""Library calls as passes see them: building one, its arguments by place, and which libraries there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lamina.ir.attributes import UNIT, Attribute
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.passes import Context
from lamina.ir.types import TensorType, none, numbers, row_major_strides

MKL, MKLDNN = "mkl", "mkldnn"


def call(
    builder: Builder,
    name: str,
    args: Sequence[Any],
    result: TensorType,
    strides: Sequence[int] | None = None,
    *,
    opaque: bool = False,
    kwargs: Mapping[str, Any] | None = None,
) -> Value:
    """A call of `name` with one result. Arguments are values, None, numbers, strings and lists of them.

    strides: of the result, in elements; row-major when None. opaque: the result is the library's own packed
    data, which only that library reads.
    """
    stated = list(strides if strides is not None else _row_major(result))
    return _call(builder, name, args, [result], [stated], opaque=opaque, kwargs=kwargs).result


def call_for_several(
    builder: Builder,
    name: str,
    args: Sequence[Any],
    results: Sequence[TensorType],
    *,
    opaque: bool = False,
    returned: Sequence[bool] | None = None,
) -> Sequence[Value]:
    """Like `call` with several results, all row-major.

    returned: for each result of the library whether it is one here; all of them when None.
    """
    strides = [list(_row_major(result)) for result in results]
    return _call(builder, name, args, results, strides, opaque=opaque, returned=returned).results


def _call(
    builder: Builder,
    name: str,
    args: Sequence[Any],
    results: Sequence[TensorType],
    strides: list[list[int]],
    *,
    opaque: bool = False,
    kwargs: Mapping[str, Any] | None = None,
    returned: Sequence[bool] | None = None,
) -> Operation:
    operands: list[Value] = []
    attributes: dict[str, Any] = {"args": [_encode(value, operands) for value in args]}
    if kwargs:
        attributes["kwargs"] = {key: _encode(value, operands) for key, value in kwargs.items()}
    attributes["result_strides"] = strides
    if opaque:
        attributes["opaque"] = True
    if returned is not None:
        attributes["returned"] = list(returned)
    return builder.op(name, operands, results, attributes)


def _encode(value: Any, operands: list[Value]) -> Any:
    if value is None:
        return none
    if isinstance(value, Value):
        operands.append(value)
        return UNIT
    if isinstance(value, Attribute):
        return value
    return [_encode(each, operands) for each in value] if isinstance(value, list | tuple) else value


def _row_major(type_: TensorType) -> tuple[int, ...]:
    strides = row_major_strides(type_.shape)
    if strides is None:
        raise ValueError(f"{type_} has symbolic sizes: say the strides of the result")
    return numbers(strides)


def channels_last_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a batch x channels x height x width tensor whose channels lie innermost."""
    _, channels, height, width = shape
    return (height * width * channels, 1, width * channels, channels)


def libraries(context: Context) -> frozenset[str]:
    """The libraries behind torch that calls may name; `context.libraries` where the pipeline knows them."""
    if context.libraries is not None:
        return context.libraries
    # torch's builds for x86-64 contain MKL and oneDNN, those for other processors only oneDNN.
    return frozenset({MKL, MKLDNN}) if context.target.isa in ("avx2", "avx512") else frozenset({MKLDNN})


def is_call(value: Value, *names: str) -> Operation | None:
    """The library call of one of these names that made a value."""
    operation = value.defining_op
    return operation if operation is not None and operation.name in names else None
