"""Continues a frame of the machine natively: a real function that goes on at any instruction of another.

    def f(a, b):                          resume(values):
        c = g(a)                              values = prepare(values)   # checked, taken out of the list
        return h(c, |b)           =>          push c's call of h; a, b, c = ...; jump to |
                                              ... all of f's own bytes, unchanged ...

The new code is a prologue in front of the old code's bytes. Slots, names, constants and jumps keep their
numbers, so nothing is assembled anew; only the exception and line tables move by the prologue's length.
Cells go in as cells, by STORE_FAST into the slots where MAKE_CELL and COPY_FREE_VARS leave them.
"""

from __future__ import annotations

import dis
import functools
import opcode
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lamina.capture.machine.code import CO_SUSPENDS, DecodedCode, Instruction, decode, parse_exception_table
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import NULL, UNBOUND, Value
from lamina.capture.machine.slot_needs import Slots, find_needed_cells
from lamina.capture.machine.stack_places import Place, Places, find_places, refuse

VERSIONS = ((3, 11), (3, 12), (3, 13))
CO_VARARGS, CO_VARKEYWORDS = 0x04, 0x08
INSTRUCTION_BYTES = 2
CARRIER = ".values"
"""Name of the slot that takes the argument where the code has no local of its own."""


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Where a frame stands and which of its stack and slots hold something.

    `position` is the index of the next instruction, `empty` marks the stack's NULLs, `bound` the slots with
    a value.
    """

    position: int
    empty: tuple[bool, ...]
    bound: tuple[bool, ...]


def read_layout(frame: Frame) -> FrameLayout:
    """The layout of a frame of the machine between two instructions."""
    return FrameLayout(
        frame.position,
        tuple(value is NULL or value is UNBOUND for value in frame.stack),
        tuple(value is not UNBOUND for value in frame.slots),
    )


def read_values(frame: Frame) -> list[Value]:
    """What a resume function made for the frame's layout takes: [handled, *stack, *slots]."""
    return [frame.handled, *frame.stack, *frame.slots]


def make_native_resume(function: types.FunctionType, layout: FrameLayout) -> types.FunctionType:
    """A function that goes on with `function` from `layout` to its end: gives its result or raises.

    It takes one list, [exception being handled, *stack, *slots] as the machine keeps them (anything in empty
    and unbound places), and empties it, so that objects die as early as in the original. It serves every
    function with the same code and globals, as cells are taken from the slots. Raises Unsupported where it
    cannot be done soundly; the function raises TypeError for values that cannot be a frame of this layout.
    """
    code = function.__code__
    if sys.version_info[:2] not in VERSIONS:
        raise refuse(f"the bytecode of Python {sys.version.split()[0]} is not known")
    if code.co_flags & CO_SUSPENDS:
        raise refuse("a generator or coroutine is resumed by its owner")
    if not code.co_argcount and "__class__" in code.co_freevars and "super" in code.co_names:
        raise refuse("super() counts the arguments of the function it is called in")
    decoded, all_places = analyze(code)
    position = find_entry(decoded, layout.position)
    places = all_places[layout.position]
    if places is None:
        raise refuse("no path leads to the instruction")
    check_layout(decoded, layout, places)
    bound = frozenset(slot for slot, is_bound in enumerate(layout.bound) if is_bound)
    cells = find_needed_cells(decoded, all_places, layout.position, bound)
    made = build_code(decoded, position, places, layout, cells)
    resume = types.FunctionType(made, function.__globals__, function.__name__, None, function.__closure__)
    resume.__qualname__ = function.__qualname__
    return resume


@functools.lru_cache(maxsize=64)
def analyze(code: types.CodeType) -> tuple[DecodedCode, list[Places | None]]:
    """A code object decoded, and what lies on its stack before each instruction."""
    decoded = decode(code, {})
    return decoded, find_places(decoded)


def find_entry(decoded: DecodedCode, position: int) -> int:
    """Where to jump in: an instruction's prefixes, which the machine has stepped over, run with it again."""
    instructions = decoded.instructions
    while position and instructions[position - 1].name in ("EXTENDED_ARG", "KW_NAMES", "PRECALL"):
        position -= 1
    return position


def check_layout(decoded: DecodedCode, layout: FrameLayout, places: Places) -> None:
    if len(layout.empty) != len(places) or len(layout.bound) != len(decoded.slot_names):
        raise refuse("the frame has another number of stack slots or locals than its code says")
    for is_empty, place in zip(layout.empty, places, strict=True):
        allowed = (Place.EMPTY, Place.MAYBE_EMPTY) if is_empty else tuple(set(Place) - {Place.EMPTY})
        if place not in allowed:
            raise refuse(f"the frame's stack has {'NULL' if is_empty else 'an object'} for {place.value}")


def build_code(
    decoded: DecodedCode, position: int, places: Places, layout: FrameLayout, cells: Slots
) -> types.CodeType:
    """The code of the resume function."""
    code = decoded.code
    # Without locals there is no slot for the argument: a new first one moves the cells by one.
    shift = 0 if code.co_nlocals else 1
    offsets = [item.offset for item in dis.get_instructions(code)]
    prologue = Prologue(code)
    prologue.begin(len(code.co_consts))
    prologue.push_stack(places, layout.empty)
    prologue.store_slots(layout.bound, len(places), shift)
    prologue.emit_jump(offsets[position])
    start = len(prologue.code)
    checks = Checks(
        count=1 + len(places) + len(layout.bound),
        cells=tuple(1 + len(places) + slot for slot in sorted(cells)),
        numbers=tuple(1 + index for index, place in enumerate(places) if place is Place.INSTRUCTION),
        errors=tuple(find_handled(places)),
        # The interpreter counts code units from the start of the code.
        units=tuple((start + offset) // INSTRUCTION_BYTES for offset in offsets),
    )
    flags = code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS)
    return code.replace(
        co_code=bytes(prologue.code) + (move_slots(decoded, offsets) if shift else code.co_code),
        co_consts=(*code.co_consts, make_preparation(checks), *prologue.indices),
        co_varnames=code.co_varnames or (CARRIER,),
        co_nlocals=code.co_nlocals + shift,
        co_argcount=1,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=flags,
        # Above the stack: the slot's tuple and an index, or the callable, NULL and argument of the check.
        co_stacksize=code.co_stacksize + 4,
        co_exceptiontable=move_exception_table(code, start),
        co_linetable=bytes(describe_no_lines(start // INSTRUCTION_BYTES)) + code.co_linetable,
    )


def append_instruction(code: bytearray, name: str, arg: int = 0) -> None:
    """One instruction with its prefixes and its caches."""
    for shift in (24, 16, 8):
        if arg >> shift:
            code += bytes((dis.opmap["EXTENDED_ARG"], arg >> shift & 255))
    code += bytes((dis.opmap[name], arg & 255))
    code += bytes(INSTRUCTION_BYTES * count_caches(name))


def append_plain_call(code: bytearray, constant: int, *slots: int) -> None:
    """Push what calling a constant with these local variables gives."""
    if sys.version_info < (3, 13):
        append_instruction(code, "PUSH_NULL")
    append_instruction(code, "LOAD_CONST", constant)
    if sys.version_info >= (3, 13):
        append_instruction(code, "PUSH_NULL")
    for slot in slots:
        append_instruction(code, "LOAD_FAST", slot)
    if sys.version_info < (3, 12):
        append_instruction(code, "PRECALL", len(slots))
    append_instruction(code, "CALL", len(slots))


class Prologue:
    """The bytes that build the frame. While they run, slot 0 holds the values."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = bytearray()
        self.first_index = len(code.co_consts) + 1
        self.indices: list[int] = []

    def emit(self, name: str, arg: int = 0) -> None:
        append_instruction(self.code, name, arg)

    def begin(self, preparation: int) -> None:
        """Slot 0 = preparation(slot 0)."""
        self.emit("RESUME")
        append_plain_call(self.code, preparation, 0)
        self.emit("STORE_FAST", 0)

    def push_value(self, index: int) -> None:
        self.emit("LOAD_FAST", 0)
        self.emit("LOAD_CONST", self.first_index + len(self.indices))
        self.indices.append(index)
        self.emit("BINARY_SUBSCR")

    def push_stack(self, places: Places, empty: tuple[bool, ...]) -> None:
        """The value stack, and with it the exceptions being handled."""
        handled = find_handled(places)
        saved = 0
        for depth, (place, is_empty) in enumerate(zip(places, empty, strict=True)):
            if is_empty:
                self.emit("PUSH_NULL")
            elif place is Place.SAVED:
                # What lies here is the interpreter's own; the exception itself follows if it is still there.
                self.push_value(next(handled))
                self.emit("PUSH_EXC_INFO")
                self.emit("POP_TOP")
                saved = depth
            elif place is Place.SAVED_COPY:
                self.emit("COPY", depth - saved)
            else:
                self.push_value(1 + depth)

    def store_slots(self, bound: tuple[bool, ...], depth: int, shift: int) -> None:
        """The bound slots, the one that holds the values last."""
        stored = [slot for slot, is_bound in enumerate(bound) if is_bound]
        for slot in sorted(stored, key=lambda slot: slot + shift == 0):
            self.push_value(1 + depth + slot)
            self.emit("STORE_FAST", slot + shift)
        if shift or not bound[0]:
            self.emit("DELETE_FAST", 0)

    def emit_jump(self, offset: int) -> None:
        if offset:
            self.emit("JUMP_FORWARD", offset // INSTRUCTION_BYTES)


def find_handled(places: Places) -> Iterator[int]:
    """For each SAVED place, the index in the values of the exception whose handler it belongs to.

    The machine keeps in such a place what was handled before: the next one has the exception, the frame
    that of the innermost.
    """
    saved = [depth for depth, place in enumerate(places) if place is Place.SAVED]
    yield from (1 + depth for depth in saved[1:])
    if saved:
        yield 0


@dataclass(frozen=True, slots=True)
class Checks:
    """What the values must be, by index: of how many, cells, instruction numbers, exceptions."""

    count: int
    cells: tuple[int, ...]
    numbers: tuple[int, ...]
    errors: tuple[int, ...]
    units: tuple[int, ...]


def make_preparation(checks: Checks) -> Callable[[list[Value]], tuple[Value, ...]]:
    """The function that the prologue calls: checks the values, takes them out of the list."""

    def prepare(values: list[Value]) -> tuple[Value, ...]:
        if len(values) != checks.count:
            raise TypeError(f"a frame of {checks.count} values was given {len(values)}")
        check_kind(values, checks.cells, types.CellType)
        check_kind(values, checks.errors, BaseException)
        taken = list(values)
        for index in checks.numbers:
            taken[index] = checks.units[taken[index]]
        values.clear()
        return tuple(taken)

    return prepare


def check_kind(values: Sequence[Value], indices: tuple[int, ...], kind: type) -> None:
    for index in indices:
        if not isinstance(values[index], kind):
            raise TypeError(
                f"the frame's value {index} is no {kind.__name__}: {type(values[index]).__name__}"
            )


def count_caches(name: str) -> int:
    """How many cache entries follow an instruction."""
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        return int(entries.get(name, 0))
    return int(entries[dis.opmap[name]])


def move_slots(decoded: DecodedCode, offsets: list[int]) -> bytes:
    """The code's bytes with every slot's number one higher."""
    moved = bytearray(decoded.code.co_code)
    for instruction, offset in zip(decoded.instructions, offsets, strict=True):
        if not names_slot(instruction):
            continue
        if instruction.arg >= 255 or instruction.name.count("_FAST") > 1:
            raise refuse(f"a slot's number in {instruction.name} cannot be changed in place")
        moved[offset + 1] += 1
    return bytes(moved)


def names_slot(instruction: Instruction) -> bool:
    number = dis.opmap[instruction.name]
    return number in dis.haslocal or (number in dis.hasfree and instruction.name != "COPY_FREE_VARS")


def move_exception_table(code: types.CodeType, distance: int) -> bytes:
    """The exception table of the code when it starts `distance` bytes later."""
    table = bytearray()
    for start, end, target, depth, lasti in parse_exception_table(code):
        first = len(table)
        for number in (start + distance, end - start, target + distance):
            write_number(table, number // INSTRUCTION_BYTES)
        write_number(table, depth << 1 | lasti)
        # The first byte of an entry is marked, for the interpreter's binary search.
        table[first] |= 128
    return bytes(table)


def write_number(table: bytearray, number: int) -> None:
    """Append a big-endian base-64 number; bit 6 says that more follows."""
    for shift in (24, 18, 12, 6):
        if number >> shift:
            table.append(64 | number >> shift & 63)
    table.append(number & 63)


def describe_no_lines(units: int) -> Iterator[int]:
    """Line table entries (at most 8 code units each) for instructions without a source line."""
    while units:
        covered = min(units, 8)
        yield 128 | 15 << 3 | covered - 1
        units -= covered
