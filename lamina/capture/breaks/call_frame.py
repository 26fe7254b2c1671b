"""Calls made at a break: from a frame that looks like the broken one to whoever looks at it.

def f(x):                      the callee finds, by sys._getframe(1), a frame of f's name, file, line,
    name = who_calls(x)        globals and local variables; the code object is another
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

from lamina.capture.machine.frame import Frame
from lamina.capture.machine.native_resume import INSTRUCTION_BYTES, append_instruction, append_plain_call
from lamina.capture.machine.signals import UNBOUND, Value

NO_COLUMNS = 13
"""The kind of entry of a line table (CPython, Objects/locations.md) that gives a line alone."""
LONGEST_ENTRY = 8


class CallerNeeded(BaseException):
    """Raised before anything has run: the callee looks at its caller and must be called natively."""


def call_from(
    frame: Frame, callee: Callable[..., Value], arguments: tuple[Value, ...], keywords: dict[str, Value]
) -> Value:
    """`callee(*arguments, **keywords)`, called from a frame like `frame`."""
    bound: dict[str, Value] = {}
    for name, value in zip(frame.decoded.slot_names, frame.slots, strict=True):
        if isinstance(value, types.CellType) and name in frame.code.co_cellvars + frame.code.co_freevars:
            value = read_cell(value)
        if value is not UNBOUND:
            bound[name] = value
    template = make_template(frame.code, tuple(bound), frame.line)
    # The interpreter calls what is in a partial without a frame in between.
    code = template.replace(co_consts=(functools.partial(callee, *arguments, **keywords),))
    return types.FunctionType(code, frame.global_names)(*bound.values())


def read_cell(cell: types.CellType) -> Value:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


@functools.lru_cache(maxsize=1024)
def make_template(code: types.CodeType, names: tuple[str, ...], line: int) -> types.CodeType:
    """Code that takes local variables of these names and, in that line, calls its only constant."""
    body = bytearray()
    append_instruction(body, "RESUME")
    append_plain_call(body, 0)
    append_instruction(body, "RETURN_VALUE")
    return NOTHING.replace(
        co_code=bytes(body),
        co_varnames=names,
        co_nlocals=len(names),
        co_argcount=len(names),
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_linetable=describe_line(line - code.co_firstlineno, len(body) // INSTRUCTION_BYTES),
        co_stacksize=4,
    )


def _do_nothing() -> None:
    return None


NOTHING = _do_nothing.__code__


def describe_line(distance: int, units: int) -> bytes:
    """A line table: all code units lie `distance` lines below the first."""
    table = bytearray()
    while units:
        covered = min(units, LONGEST_ENTRY)
        table.append(128 | NO_COLUMNS << 3 | covered - 1)
        number = -distance << 1 | 1 if distance < 0 else distance << 1
        while number >= 64:
            table.append(64 | number & 63)
            number >>= 6
        table.append(number)
        units, distance = units - covered, 0
    return bytes(table)
