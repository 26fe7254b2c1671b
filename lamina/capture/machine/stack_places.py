"""What lies on CPython's value stack before each instruction of a code object, found without running it.

Depths alone do not say it: a place may be an empty slot (NULL), the number that RERAISE reads, or what
PUSH_EXC_INFO saved. A stack that is rebuilt with a wrong kind of value at any place crashes the interpreter.
"""

from __future__ import annotations

import dis
import enum
import sys
from collections.abc import Iterator

from lamina.capture.machine.code import DecodedCode, Instruction
from lamina.errors import Unsupported


class Place(enum.Enum):
    """What one stack slot holds."""

    VALUE = "an object"
    EMPTY = "NULL"
    MAYBE_EMPTY = "NULL or an object"
    INSTRUCTION = "where an exception was raised, as handlers of `with` and `finally` keep it"
    SAVED = "the exception that was being handled when PUSH_EXC_INFO ran and whose handler is not left yet"
    SAVED_COPY = "a copy of the last SAVED, for POP_EXCEPT"


Places = tuple[Place, ...]
Step = tuple[int, Places]
"""The index of an instruction that can come next, and the stack before it."""

BEFORE_312 = sys.version_info < (3, 12)
FROM_313 = sys.version_info >= (3, 13)
ALWAYS_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"})
NULLABLE = frozenset({Place.VALUE, Place.EMPTY, Place.MAYBE_EMPTY})
CANNOT_RAISE = frozenset(
    {
        *("PUSH_EXC_INFO", "POP_EXCEPT", "COPY", "SWAP", "POP_TOP", "PUSH_NULL", "NOP", "JUMP_FORWARD"),
        *("STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST", "LOAD_FAST_AND_CLEAR"),
        # Only for want of memory, and then the interpreter's own code is not safe either.
        "MAKE_CELL",
    }
)
"""Never go to the handler of the range they lie in: before them, stack and slots may not have its shape."""
CALLS = {"CALL": 2, "CALL_KW": 3}
"""Calls by how many stack slots they take besides their arguments."""


def refuse(message: str) -> Unsupported:
    return Unsupported("native-resume", message, None, "the frame goes on in the machine")


def find_places(decoded: DecodedCode) -> list[Places | None]:
    """The stack before each instruction; None where no path leads."""
    found: list[Places | None] = [None] * len(decoded.instructions)
    pending: list[Step] = [(0, ())]
    while pending:
        index, places = pending.pop()
        known = found[index]
        merged = places if known is None else merge(known, places)
        if merged == known:
            continue
        found[index] = merged
        pending.extend(find_steps(decoded, index, merged))
    return found


def merge(left: Places, right: Places) -> Places:
    """The stack where two paths meet."""
    if len(left) != len(right):
        raise refuse("two paths meet with stacks of different depths")
    return tuple(merge_place(one, other) for one, other in zip(left, right, strict=True))


def merge_place(left: Place, right: Place) -> Place:
    if left is right:
        return left
    if left in NULLABLE and right in NULLABLE:
        return Place.MAYBE_EMPTY
    raise refuse("two paths meet with different kinds of stack slots")


def find_steps(decoded: DecodedCode, index: int, places: Places) -> Iterator[Step]:
    """Where execution can go from the instruction at `index`."""
    instruction = decoded.instructions[index]
    name = instruction.name
    if name == "FOR_ITER":
        yield index + 1, (*places, Place.VALUE)
        yield end_loop(decoded, instruction, places)
    else:
        if instruction.target >= 0:
            yield instruction.target, apply(instruction, places, jumps=True)
        if name not in ALWAYS_JUMPS and name not in ENDS:
            yield index + 1, apply(instruction, places, jumps=False)
    entry = decoded.find_range(index)
    if entry is not None and name not in CANNOT_RAISE:
        if len(places) < entry.depth:
            raise refuse("an exception range starts deeper than the stack")
        number = (Place.INSTRUCTION,) if entry.lasti else ()
        yield entry.target, (*places[: entry.depth], *number, Place.VALUE)


def end_loop(decoded: DecodedCode, instruction: Instruction, places: Places) -> Step:
    """Where FOR_ITER goes when the iterator is exhausted."""
    target = instruction.target
    if decoded.instructions[target].name == "END_FOR":
        # The interpreter jumps over it; in 3.13 a POP_TOP behind it takes the iterator.
        target += 1
    return target, places if FROM_313 else places[:-1]


def apply(instruction: Instruction, places: Places, jumps: bool) -> Places:
    """The stack after an instruction."""
    name, arg = instruction.name, instruction.arg
    if name == "COPY":
        copied = places[-arg]
        return (*places, Place.SAVED_COPY if copied is Place.SAVED else copied)
    if name == "SWAP":
        swapped = list(places)
        swapped[-1], swapped[-arg] = swapped[-arg], swapped[-1]
        return tuple(swapped)
    if name == "POP_EXCEPT":
        return leave_handler(places)
    if name == "PUSH_EXC_INFO":
        return (*places[:-1], Place.SAVED, Place.VALUE)
    called = apply_call(name, arg, places)
    if called is not None:
        return called
    return apply_effect(instruction, places, jumps)


def leave_handler(places: Places) -> Places:
    """After POP_EXCEPT; where it took a copy, the original is left behind as a value without meaning."""
    if places[-1] is Place.SAVED:
        return places[:-1]
    if places[-1] is not Place.SAVED_COPY:
        raise refuse("POP_EXCEPT takes something that PUSH_EXC_INFO did not save")
    rest = list(places[:-1])
    rest[len(rest) - 1 - rest[::-1].index(Place.SAVED)] = Place.VALUE
    return tuple(rest)


def apply_call(name: str, arg: int, places: Places) -> Places | None:
    """The stack after an instruction that has to do with empty slots; None for all others."""
    if name == "PUSH_NULL":
        return (*places, Place.EMPTY)
    if name == "LOAD_FAST_AND_CLEAR":
        return (*places, Place.MAYBE_EMPTY)
    if name == "LOAD_GLOBAL" and arg & 1:
        return (*places, *under_callable(Place.EMPTY))
    if name == "LOAD_METHOD" or (name == "LOAD_ATTR" and not BEFORE_312 and arg & 1):
        return (*places[:-1], *under_callable(Place.MAYBE_EMPTY))
    if name == "LOAD_SUPER_ATTR" and arg & 1:
        return (*places[:-3], *under_callable(Place.MAYBE_EMPTY))
    if name == "PRECALL":
        return places
    if name in CALLS:
        return (*places[: -arg - CALLS[name]], Place.VALUE)
    if name == "CALL_FUNCTION_EX":
        return (*places[: -3 - (arg & 1)], Place.VALUE)
    return None


def under_callable(empty: Place) -> Places:
    return (Place.VALUE, empty) if FROM_313 else (empty, Place.VALUE)


def apply_effect(instruction: Instruction, places: Places, jumps: bool) -> Places:
    """The stack after an instruction that handles objects only."""
    opcode = dis.opmap[instruction.name]
    arg = instruction.arg if opcode >= dis.HAVE_ARGUMENT else None
    effect = dis.stack_effect(opcode, arg, jump=jumps)
    if effect >= 0:
        return (*places, *[Place.VALUE] * effect)
    if len(places) < -effect:
        raise refuse(f"{instruction.name} takes more than the stack holds")
    if any(place in (Place.SAVED, Place.SAVED_COPY) for place in places[effect:]):
        raise refuse(f"{instruction.name} takes what only POP_EXCEPT may take")
    return places[:effect]
