"""Let the library write a matrix product into memory of the program's.

    %1 = program.call "aten.mm.default"(%x, %y)    =>    %1 = program.alloc {space = "arena"}
                                                         program.call "aten.mm.out"(%x, %y, %1)

A product then lies in the planned arena, where its memory serves others after its last use, or in the pool
of outputs; fresh memory costs page faults in every call. Exact: torch makes the functional form of these
operators from the one with `out`, so the same code runs, on row-major memory such as it would allocate.
"""

from __future__ import annotations

import math

from lamina.ir.attributes import UNIT, DictAttr, attribute, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.types import MemRefType, Type, element_count, numbers
from lamina.passes.program.to_program import buffer_root

NAME = "write_into"
LINEAR = "aten.linear.default"
WITH_OUT = {
    f"aten.{name}.default": f"aten.{name}.out" for name in ("mm", "bmm", "addmm", "baddbmm", "linear")
}
"""Library operations that can write into a given row-major tensor, with the name of that form."""
LARGE = 256 * 1024
"""Bytes from which on the pool of outputs reuses memory; the library's own allocator is fast for less."""


def run(program: Operation) -> int:
    """Rewrite one `program.func`; returns how many library calls write into given memory."""
    returned = {buffer_root(value) for value in program.body.terminator.operands}
    count = 0
    for call in [each for each in program.body if each.name == "program.call" and _has_out(each)]:
        if call.result not in returned:
            _rewrite(call, "arena")
        elif _is_large(call.result.type):
            _rewrite(call, "output")
        else:
            continue
        count += 1
    return count


def _has_out(call: Operation) -> bool:
    """Whether the call has a form that writes into given memory, and its result is row-major."""
    callee = plain(call.attributes["callee"])
    if callee not in WITH_OUT or not _is_row_major(call.result):
        return False
    return callee != LINEAR or _rank(call.result) == 2 or _is_of_rows(call)


def _is_of_rows(layer: Operation) -> bool:
    """Whether torch computes a linear layer as one product of all rows, which adds the bias too."""
    source, _, *bias = layer.operands
    if not all(map(_is_row_major, (source, *bias))):
        return False
    return _rank(source) == 3 or (_rank(source) > 3 and not bias)


def _is_row_major(buffer: Value) -> bool:
    type_ = buffer.type
    return isinstance(type_, MemRefType) and type_ is MemRefType.get(type_.shape, type_.element)


def _rank(buffer: Value) -> int:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.rank


def _is_large(type_: Type) -> bool:
    """Whether reused memory is worth a longer call, for a result that is the caller's."""
    assert isinstance(type_, MemRefType)
    count = element_count(type_)
    return isinstance(count, int) and count * type_.element.bytes >= LARGE


def _rewrite(call: Operation, space: str) -> None:
    build = Builder.before_op(call)
    buffer = build.value("program.alloc", (), call.result.type, {"space": space})
    first, *others = call.operands
    target = buffer
    if plain(call.attributes["callee"]) == LINEAR:
        first, target = _rows(first, build), _rows(buffer, build)
    keywords = call.attributes.get("kwargs")
    known = keywords.entries if isinstance(keywords, DictAttr) else ()
    attributes = call.attributes | {
        "callee": attribute(WITH_OUT[plain(call.attributes["callee"])]),
        "kwargs": DictAttr((*known, ("out", UNIT))),
    }
    build.op("program.call", (first, *others, target), (), attributes)
    call.replace_with([buffer])


def _rows(buffer: Value, build: Builder) -> Value:
    """A row-major buffer as a matrix with the last dimension that it has."""
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    if type_.rank == 2:
        return buffer
    *outer, width = type_.shape
    matrix = MemRefType.get((math.prod(numbers(tuple(outer))), width), type_.element)
    return build.value("program.view", (buffer,), matrix, {"offset": 0})
