"""Which way of a jump raises for certain: `assert`, `if ...: raise`."""

from __future__ import annotations

from lamina.capture.machine.code import DecodedCode, Instruction

LONGEST = 200
"""Instructions that are looked at."""
ENDS = ("RETURN", "YIELD", "SEND", "GET_AWAITABLE")
RAISES = ("RAISE_VARARGS", "RERAISE")


def find_way_around(decoded: DecodedCode, index: int) -> bool | None:
    """What the condition of the jump at `index` is where the program goes on: the other way raises.

    None where neither or both do, or where the code around catches it.
    """
    instruction = decoded.instructions[index]
    if not is_decision(instruction) or decoded.find_range(index) is not None:
        return None
    jumps_if = "IF_TRUE" in instruction.name
    raises = [always_raises(decoded, instruction.target), always_raises(decoded, index + 1)]
    return None if raises[0] == raises[1] else jumps_if is not raises[0]


def is_decision(instruction: Instruction) -> bool:
    """Whether an instruction takes a condition from the stack and jumps by it."""
    return instruction.name.startswith("POP_JUMP") and instruction.name.endswith(("IF_TRUE", "IF_FALSE"))


def always_raises(decoded: DecodedCode, start: int) -> bool:
    """Whether all ways from the instruction at `start` end in a `raise`."""
    pending, seen = [start], set[int]()
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        instruction = decoded.instructions[index]
        if len(seen) > LONGEST or instruction.name.startswith(ENDS):
            return False
        if instruction.name in RAISES:
            continue
        if instruction.target >= 0:
            pending.append(instruction.target)
        if instruction.target < 0 or "IF_" in instruction.name or instruction.name == "FOR_ITER":
            pending.append(index + 1)
    return True
