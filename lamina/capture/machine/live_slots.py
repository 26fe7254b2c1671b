"""Which local variables the code from an instruction on may still read.

    x = f(a)        live here: a, b         what is dead at a graph break is not handed on: it costs no output
    y = g(x, b)     live here: b, x         of the graph and no guard of the next segment
    return y

A backward dataflow over the bytecode (Aho, Lam, Sethi, Ullman: Compilers, 9.2.5), once a code object. Cells
and free variables always live: other functions may read them.
"""

from __future__ import annotations

from lamina.capture.machine.code import DecodedCode, Instruction
from lamina.capture.machine.stack_places import ALWAYS_JUMPS, ENDS

READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
WRITES = frozenset({"STORE_FAST", "STORE_FAST_MAYBE_NULL"})
LOOKS_AT_ALL = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Names of builtins that may read any local variable."""

Slots = frozenset[int]

_solved: dict[int, tuple[DecodedCode, list[Slots]]] = {}


def find_live_slots(decoded: DecodedCode, position: int) -> Slots:
    """Slots whose values matter when execution goes on at `position`."""
    found = _solved.get(id(decoded))
    if found is None:
        # The entry keeps the code alive, so that its identity is not given again.
        found = _solved[id(decoded)] = (decoded, solve(decoded))
    return found[1][position]


def solve(decoded: DecodedCode) -> list[Slots]:
    """Live slots before each instruction."""
    count = len(decoded.slot_names)
    code = decoded.code
    shared = {*code.co_cellvars, *code.co_freevars}
    lasting = frozenset(slot for slot, name in enumerate(decoded.slot_names) if name in shared)
    if LOOKS_AT_ALL & set(code.co_names):
        lasting = frozenset(range(count))
    live = [lasting] * (len(decoded.instructions) + 1)
    is_changed = True
    while is_changed:
        is_changed = False
        for index in range(len(decoded.instructions) - 1, -1, -1):
            after = lasting.union(*(live[target] for target in find_targets(decoded, index)))
            before = step_back(decoded.instructions[index], after) | lasting
            # A handler may be entered before the instruction has stored anything.
            entry = decoded.find_range(index)
            if entry is not None:
                before |= live[entry.target]
            if before != live[index]:
                live[index], is_changed = before, True
    return live


def find_targets(decoded: DecodedCode, index: int) -> list[int]:
    """Where execution can go from an instruction, exceptions aside."""
    instruction = decoded.instructions[index]
    targets = [instruction.target] if instruction.target >= 0 else []
    if instruction.name not in ALWAYS_JUMPS and instruction.name not in ENDS:
        targets.append(index + 1)
    return targets


def step_back(instruction: Instruction, after: Slots) -> Slots:
    """Live slots before an instruction, from those after it."""
    name, arg = instruction.name, instruction.arg
    if name in READS:
        return after | {arg}
    if name in WRITES:
        return after - {arg}
    if name == "LOAD_FAST_LOAD_FAST":
        return after | {arg >> 4, arg & 15}
    if name == "STORE_FAST_LOAD_FAST":
        return (after | {arg & 15}) - {arg >> 4} if arg >> 4 != arg & 15 else after - {arg & 15}
    if name == "STORE_FAST_STORE_FAST":
        return after - {arg >> 4, arg & 15}
    return after
