"""Decodes a code object once: instructions with their handlers, jump indices, lines and exception table."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

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
    """One bytecode instruction; `target` is the index of the instruction a jump goes to (-1: not a jump).

    argval: the constant, name, slot's name or comparison that `arg` stands for; `arg` where it is a number.
    """

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


Operand = Literal["number", "constant", "name", "slot", "comparison", "forward", "backward"]
"""What the argument of an instruction stands for; the last two are distances of jumps."""
PAIRS = frozenset({"LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"})
"""Bytecodes whose argument holds two slots."""
FLAG_BITS = {"LOAD_GLOBAL": 1}
"""How many low bits of an argument tell something else than the name or comparison."""
if sys.version_info >= (3, 12):
    FLAG_BITS |= {"LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2, "COMPARE_OP": 5 if sys.version_info >= (3, 13) else 4}


def classify(opcode: int) -> Operand:
    """The operand of a bytecode."""
    name = dis.opname[opcode]
    if opcode in dis.hasconst:
        return "constant"
    if opcode in dis.hasname:
        return "name"
    if opcode in dis.hasjrel:
        return "backward" if "JUMP_BACKWARD" in name else "forward"
    if name not in PAIRS and (opcode in dis.haslocal or opcode in dis.hasfree):
        return "slot"
    return "comparison" if opcode in dis.hascompare else "number"


BYTECODES = tuple(
    (name, classify(opcode), FLAG_BITS.get(name, 0)) for opcode, name in enumerate(dis.opname[:256])
)
CACHE = dis.opmap["CACHE"]
"""Fills the places behind an instruction where the interpreter keeps what it found out."""


def decode(code: types.CodeType, handlers: dict[str, Handler]) -> DecodedCode:
    """Decode `code`; an instruction without a handler stops tracing only when it is reached.

    `dis` takes three to six times as long, most of it for what it would print.
    """
    data = code.co_code
    offsets = [offset for offset in range(0, len(data), 2) if data[offset] != CACHE] + [len(data)]
    index_of = {offset: index for index, offset in enumerate(offsets)}
    constants, names, slot_names = code.co_consts, code.co_names, name_slots(code)
    lines = list_lines(code)
    instructions = []
    extended = 0
    for index, offset in enumerate(offsets[:-1]):
        name, operand, flag_bits = BYTECODES[data[offset]]
        arg = data[offset + 1] | extended
        extended = arg << 8 if name == "EXTENDED_ARG" else 0
        target = -1
        argval: Any = arg
        if operand == "slot":
            argval = slot_names[arg]
        elif operand == "constant":
            argval = constants[arg]
        elif operand == "name":
            argval = names[arg >> flag_bits]
        elif operand == "comparison":
            argval = dis.cmp_op[arg >> flag_bits]
        elif operand == "forward" or operand == "backward":
            distance = 2 * arg if operand == "forward" else -2 * arg
            target = index_of[offsets[index + 1] + distance]
        handler = handlers.get(name, unknown_instruction)
        instructions.append(Instruction(handler, name, arg, argval, target, lines[offset // 2]))
    ranges = [
        ExceptionRange(index_of[start], index_of[stop_at], index_of[target], depth, lasti)
        for start, stop_at, target, depth, lasti in parse_exception_table(code)
    ]
    return DecodedCode(code, instructions, ranges, slot_names)


def list_lines(code: types.CodeType) -> list[int]:
    """The source line of each two bytes of code; what has none of its own belongs to the line before it."""
    lines: list[int] = []
    line = code.co_firstlineno
    for start, stop_at, number in code.co_lines():
        line = line if number is None else number
        lines += [line] * ((stop_at - start) // 2)
    return lines


def unknown_instruction(machine: Any, frame: Any, instruction: Instruction) -> int | None:
    stop("bytecode", f"the bytecode {instruction.name} is not modelled")
