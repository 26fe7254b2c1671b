"""What the code from an instruction on needs of the frame's slots: which must be bound, which must be cells.

From 3.12 on LOAD_FAST does not check: on an unbound slot it crashes the interpreter, as reading a cell out
of something else does on every version.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from lamina.capture.machine.code import DecodedCode, Instruction
from lamina.capture.machine.stack_places import Place, Places, find_steps, refuse

Slots = frozenset[int]
CHECKS_LOADS = sys.version_info < (3, 12)
READS_CELL = frozenset(
    {
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_CLASSDEREF",
        "LOAD_FROM_DICT_OR_DEREF",
        "LOAD_CLOSURE",
    }
)


@dataclass(frozen=True, slots=True)
class SlotState:
    """`bound`: surely hold something; `entered`: may still hold what they held at the start."""

    bound: Slots
    entered: Slots

    def merge(self, other: SlotState) -> SlotState:
        return SlotState(self.bound & other.bound, self.entered | other.entered)

    def store(self, slot: int) -> SlotState:
        return SlotState(self.bound | {slot}, self.entered - {slot})

    def clear(self, slot: int) -> SlotState:
        return SlotState(self.bound - {slot}, self.entered - {slot})


def find_needed_cells(
    decoded: DecodedCode, places: list[Places | None], position: int, bound: Slots
) -> Slots:
    """Slots that must hold a cell when execution starts at `position` with `bound` slots bound.

    Raises Unsupported where the code could read an unbound slot without a check.
    """
    cells: set[int] = set()
    always = find_lasting_cells(decoded)
    found: dict[int, SlotState] = {}
    pending = [(position, SlotState(bound, bound))]
    while pending:
        index, state = pending.pop()
        known = found.get(index)
        merged = state if known is None else known.merge(state)
        if merged == known:
            continue
        found[index] = merged
        before = places[index]
        assert before is not None, "a path leads here"
        instruction = decoded.instructions[index]
        check_reads(decoded, instruction, merged, cells)
        after = apply_to_slots(decoded, instruction, before, merged, always)
        entry = decoded.find_range(index)
        for following, _ in find_steps(decoded, index, before):
            # What raises has not changed a slot.
            is_handler = entry is not None and following == entry.target
            pending.append((following, merged if is_handler else after))
    return frozenset(cells)


def find_lasting_cells(decoded: DecodedCode) -> Slots:
    """Slots that are cells from the function's start on: its cell variables and its free variables."""
    first_free = len(decoded.slot_names) - len(decoded.code.co_freevars)
    found = set(range(first_free, len(decoded.slot_names)))
    for instruction in decoded.instructions:
        if instruction.name == "RESUME":
            break
        if instruction.name == "MAKE_CELL":
            found.add(instruction.arg)
    return frozenset(found)


def read_slots(instruction: Instruction) -> tuple[int, ...]:
    """Slots read without a check of their being bound."""
    name, arg = instruction.name, instruction.arg
    if name in READS_CELL:
        return (arg,)
    if CHECKS_LOADS:
        return ()
    if name == "LOAD_FAST":
        return (arg,)
    if name == "LOAD_FAST_LOAD_FAST":
        return arg >> 4, arg & 15
    return ()


def check_reads(decoded: DecodedCode, instruction: Instruction, state: SlotState, cells: set[int]) -> None:
    read = read_slots(instruction)
    if instruction.name == "STORE_FAST_LOAD_FAST" and instruction.arg >> 4 != instruction.arg & 15:
        read = (instruction.arg & 15,)
    for slot in read:
        if slot not in state.bound:
            raise refuse(
                f"the code reads {decoded.slot_names[slot]!r}, which may be unbound, without a check"
            )
        if instruction.name in READS_CELL and slot in state.entered:
            cells.add(slot)


def apply_to_slots(
    decoded: DecodedCode, instruction: Instruction, places: Places, state: SlotState, always: Slots
) -> SlotState:
    """The slots after an instruction."""
    name, arg = instruction.name, instruction.arg
    if name == "STORE_FAST":
        return store_top(state, places, arg, always, 1)
    if name in ("MAKE_CELL", "LOAD_FAST_CHECK"):
        return state.store(arg) if name == "MAKE_CELL" else SlotState(state.bound | {arg}, state.entered)
    if name in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
        return state.clear(arg)
    if name == "STORE_FAST_LOAD_FAST":
        return store_top(state, places, arg >> 4, always, 1)
    if name == "STORE_FAST_STORE_FAST":
        return store_top(store_top(state, places, arg >> 4, always, 1), places, arg & 15, always, 2)
    if name == "COPY_FREE_VARS":
        for slot in range(len(decoded.slot_names) - arg, len(decoded.slot_names)):
            state = state.store(slot)
    return state


def store_top(state: SlotState, places: Places, slot: int, always: Slots, depth: int) -> SlotState:
    # What an inlined comprehension saved comes back here: maybe nothing, but of a lasting cell the cell.
    if places[-depth] in (Place.EMPTY, Place.MAYBE_EMPTY) and slot not in always:
        return state.clear(slot)
    return state.store(slot)
