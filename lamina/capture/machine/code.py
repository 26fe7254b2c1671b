"""Decodes a code object once: instructions with their handlers, jump indices, lines and exception table."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lamina.capture.machine.signals import stop

CO_GENERATOR = 0x20
CO_COROUTINE = 0x80
CO_ITERABLE_COROUTINE = 0x100
CO_ASYNC_GENERATOR = 0x200
CO_SUSPENDS = CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR
"""Flags of code whose frame may be left and entered again."""
Handler = Callable[[Any, Any, "Instruction"], "int | None"]


@dataclass(slots=True)
class Instruction:
    """One bytecode instruction; `target` is the index of the instruction a jump goes to (-1: not a jump)."""

    handler: Handler
    name: str
    arg: int
    argval: Any
    target: int
    line: int


@dataclass(frozen=True, slots=True)
class ExceptionRange:
    """Guards instructions start <= i < end: unwind to `depth`, push the index if `lasti`, go to target."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass(slots=True)
class DecodedCode:
    """A code object as the machine runs it."""

    code: types.CodeType
    instructions: list[Instruction]
    ranges: list[ExceptionRange]
    slot_names: tuple[str, ...]

    def find_range(self, index: int) -> ExceptionRange | None:
        """The innermost exception range around the instruction at `index`."""
        # Ranges are disjoint in the table (the compiler flattens nesting), so the first that fits is the one.
        for entry in self.ranges:
            if entry.start <= index < entry.end:
                return entry
        return None


def read_varint(data: Iterator[int]) -> int:
    """One big-endian base-64 number of an exception table (CPython, Objects/exception_handling_notes.txt)."""
    byte = next(data)
    value = byte & 63
    while byte & 64:
        byte = next(data)
        value = (value << 6) | (byte & 63)
    return value


def parse_exception_table(code: types.CodeType) -> Iterator[tuple[int, int, int, int, bool]]:
    """(start, end, target, depth, lasti) in byte offsets."""
    data = iter(code.co_exceptiontable)
    try:
        while True:
            start = read_varint(data) * 2
            length = read_varint(data) * 2
            target = read_varint(data) * 2
            depth_lasti = read_varint(data)
            yield start, start + length, target, depth_lasti >> 1, bool(depth_lasti & 1)
    except StopIteration:
        return


def name_slots(code: types.CodeType) -> tuple[str, ...]:
    """Names of the fast slots in the interpreter's own order: locals, further cells, free variables."""
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + cells + code.co_freevars


def decode(code: types.CodeType, handlers: dict[str, Handler]) -> DecodedCode:
    """Decode `code`; an instruction without a handler stops tracing only when it is reached."""
    raw = list(dis.get_instructions(code))
    index_of = {instruction.offset: index for index, instruction in enumerate(raw)}
    instructions = []
    line = code.co_firstlineno
    jumps = set(dis.hasjrel) | set(dis.hasjabs)
    lines = {offset: number for offset, number in dis.findlinestarts(code) if number is not None}
    for item in raw:
        line = lines.get(item.offset, line)
        target = index_of[item.argval] if item.opcode in jumps else -1
        handler = handlers.get(item.opname, unknown_instruction)
        instructions.append(Instruction(handler, item.opname, item.arg or 0, item.argval, target, line))
    end = len(raw)
    ranges = [
        ExceptionRange(index_of[start], index_of.get(stop_at, end), index_of[target], depth, lasti)
        for start, stop_at, target, depth, lasti in parse_exception_table(code)
    ]
    return DecodedCode(code, instructions, ranges, name_slots(code))


def unknown_instruction(machine: Any, frame: Any, instruction: Instruction) -> int | None:
    stop("bytecode", f"the bytecode {instruction.name} is not modelled")
