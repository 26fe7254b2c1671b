"""`aten` and other operator libraries: operations that torch runs. One record serves all of them.

The name is the operator's in torch (`aten.mm.default`, `mkldnn._linear_pointwise.default`, a custom
library's `mylib.op.default`); the `args` attribute marks it.

`"aten.convolution.default"(%x, %w) {args = [unit, unit, none, [1, 1], ...], result_strides = [...]}`:
each `unit` in `args` (and in the values of `kwargs`) takes the next operand; a `none` type is None.
`aliases` marks a result that may be a view of the first operand, `raises` an operation that fails on some
values of its operands: it runs, used or not. `effects = "random"` marks an operation that draws random
numbers, `"host"` one with other effects.
"""

from __future__ import annotations

from typing import Any

from lamina.ir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, TypeAttr, UnitAttr, plain
from lamina.ir.core import Operation, Value
from lamina.ir.record import OpRecord
from lamina.ir.types import Type, none

RECORD = OpRecord(
    "aten.*", None, None, frozenset(), ("args",),
    optional=("kwargs", "result_strides", "effects", "aliases", "opaque", "raises", "returned"),
)  # fmt: skip


GATHERS = frozenset(
    {
        "aten.embedding.default", "aten.embedding_bag.default", "aten._embedding_bag.default",
        "aten._embedding_bag_forward_only.default", "aten.index.Tensor", "aten.gather.default",
        "aten.index_select.default",
    }
)  # fmt: skip
"""Library operations that read at most as much of their first operand as they give."""


def is_extern(operation: Operation) -> bool:
    return "args" in operation.attributes


def is_functional(name: str) -> bool:
    """Whether a library operation writes none of its operands: by torch's custom, in-place ones end so."""
    return not name.rpartition(".")[0].endswith("_")


def writes_into(name: str) -> bool:
    """Whether an operation of torch's own writes its result into its last operand, `out`."""
    return name.startswith("aten.") and name.endswith(".out")


def effects(operation: Operation) -> str | None:
    """ "random", "host", or None for a pure library operation."""
    value = operation.attributes.get("effects")
    return value.value if isinstance(value, StringAttr) else None


def arguments(operation: Operation) -> tuple[list[Any], dict[str, Any]]:
    """The call's arguments with operands in place: `Value`, None, numbers, strings, types, lists of them."""
    operands = iter(operation.operands)
    args = [_fill(entry, operands) for entry in _array(operation.attributes["args"])]
    keywords = operation.attributes.get("kwargs")
    entries = keywords.entries if isinstance(keywords, DictAttr) else ()
    return args, {key: _fill(entry, operands) for key, entry in entries}


def _array(value: Attribute) -> tuple[Attribute, ...]:
    if not isinstance(value, ArrayAttr):
        raise ValueError("args must be an array")
    return value.elements


def _fill(entry: Attribute, operands: Any) -> Value | Type | Any:
    match entry:
        case UnitAttr():
            return next(operands)
        case TypeAttr(value):
            return None if value is none else value
        case ArrayAttr(elements):
            return [_fill(element, operands) for element in elements]
    return plain(entry)


RECORDS: tuple[OpRecord, ...] = ()
