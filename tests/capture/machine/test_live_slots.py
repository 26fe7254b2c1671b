"""Live slots: what the rest of a function reads, by hand-worked examples and by erasing what is dead."""

from __future__ import annotations

import pytest

from lamina.capture.machine.code import decode
from lamina.capture.machine.live_slots import find_live_slots
from lamina.capture.machine.loop import Machine
from lamina.capture.machine.signals import RETURNED, UNBOUND
from lamina.capture.opcodes.table import all_handlers
from lamina.capture.values.world import World


def straight(a, b):
    x = a + 1
    y = x * b
    return -y


def looping(n, step):
    total = 0
    for index in range(n):
        if index % 2:
            continue
        total += index * step
    return total


def handling(a, b):
    x = a
    try:
        x = a // b
        y = x + 1
    except ZeroDivisionError as error:
        y = (x, str(error))
    finally:
        b = [x]
    return y, b


def looks_at_locals(a, b):
    c = a
    return sorted(locals()), c


def live_names(function, position):
    decoded = decode(function.__code__, all_handlers())
    return {decoded.slot_names[slot] for slot in find_live_slots(decoded, position)}


def test_straight_line():
    decoded = decode(straight.__code__, all_handlers())
    stores = [index for index, each in enumerate(decoded.instructions) if each.name.startswith("STORE_FAST")]
    assert live_names(straight, 0) == {"a", "b"}
    assert live_names(straight, stores[0]) == {"b"}
    assert live_names(straight, len(decoded.instructions) - 1) == set()


def test_locals_needs_all():
    assert live_names(looks_at_locals, 0) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (straight, (2, 3)),
        (looping, (7, 3)),
        (handling, (7, 2)),
        (handling, (7, 0)),
        (looks_at_locals, (1, 2)),
    ],
)
def test_the_dead_can_be_erased(function, args):
    """Erasing what is dead before each instruction changes no result; something is dead somewhere."""
    machine = Machine(all_handlers(), World())
    frame = machine.make_frame(function, args, {})
    machine.frame = frame
    erased = 0
    outcome = None
    while outcome is None:
        live = find_live_slots(frame.decoded, frame.position)
        for slot, value in enumerate(frame.slots):
            if slot not in live and value is not UNBOUND:
                frame.slots[slot] = UNBOUND
                erased += 1
        instruction = frame.decoded.instructions[frame.position]
        frame.position += 1
        try:
            outcome = instruction.handler(machine, frame, instruction)
        except ArithmeticError as error:
            machine.unwind(frame, error)
    assert outcome == RETURNED and frame.value == function(*args)
    assert erased > 0 or function is looks_at_locals
