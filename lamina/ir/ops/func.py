"""`builtin` and `func`: modules, functions, calls."""

from __future__ import annotations

from lamina.ir.attributes import StringAttr, TypeAttr
from lamina.ir.core import Operation
from lamina.ir.record import ISOLATED, SYMBOL, SYMBOL_TABLE, TERMINATOR, OpRecord
from lamina.ir.types import FunctionType


def function_type(operation: Operation) -> FunctionType:
    """The type of a `func.func`."""
    type_ = operation.attributes["function_type"]
    if not isinstance(type_, TypeAttr) or not isinstance(type_.value, FunctionType):
        raise ValueError("function_type must be a function type")
    return type_.value


def _verify_function(operation: Operation) -> None:
    type_ = function_type(operation)
    if not isinstance(operation.attributes["sym_name"], StringAttr):
        raise ValueError("sym_name must be a string")
    if not operation.region.blocks:
        return
    arguments = tuple(argument.type for argument in operation.region.blocks[0].arguments)
    if arguments != type_.inputs:
        given = ", ".join(map(str, arguments))
        raise ValueError(f"entry block arguments ({given}) differ from the function type {type_}")


def _verify_return(operation: Operation) -> None:
    parent = operation.parent_op
    if parent is None or parent.name != "func.func":
        raise ValueError("must be inside func.func")
    given = tuple(value.type for value in operation.operands)
    if given != function_type(parent).results:
        returned, wanted = (", ".join(map(str, types)) for types in (given, function_type(parent).results))
        raise ValueError(f"returns ({returned}), the function type says ({wanted})")


RECORDS = (
    OpRecord("builtin.module", 0, 0, frozenset({ISOLATED, SYMBOL_TABLE}), regions=1, optional=("sym_name",)),
    OpRecord("builtin.unrealized_conversion_cast", None, None),
    OpRecord(
        "func.func", 0, 0, frozenset({ISOLATED, SYMBOL}), ("sym_name", "function_type"), 1,
        verify=_verify_function, optional=("arg_attrs", "res_attrs", "sym_visibility"),
    ),
    OpRecord("func.call", None, None, attributes=("callee",)),
    OpRecord("func.return", None, 0, frozenset({TERMINATOR}), verify=_verify_return),
)  # fmt: skip
