"""Jumps, loops, returns and generators."""

from __future__ import annotations

import sys
import types
from typing import Any

from lamina.capture.machine.code import CO_COROUTINE, CO_ITERABLE_COROUTINE, Handler, Instruction
from lamina.capture.machine.coroutines import CoroutineValue
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.raising import find_way_around
from lamina.capture.machine.signals import MISSING, RETURNED, YIELDED, Value
from lamina.capture.values.attributes import find_in_type

KEEPS_ITERATOR = sys.version_info >= (3, 12)
"""From 3.12 on END_FOR and END_SEND pop the iterator that 3.11 pops at the jump."""


def jump(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.position = instruction.target
    return None


def decide(machine: Any, frame: Frame, index: int, condition: Value) -> bool:
    """The truth of a condition by which the instruction at `index` jumps.

    Where only a run can tell and one way raises, the other is taken, and the run checks it.
    """
    if condition is True or condition is False:
        return condition
    if machine.world.is_open(condition):
        outcome = find_way_around(frame.decoded, index)
        if outcome is not None:
            machine.world.require_outcome(condition, outcome)
            return outcome
    return machine.world.truth(condition)  # type: ignore[no-any-return]


def jump_if_false(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if not decide(machine, frame, frame.position - 1, frame.stack.pop()):
        frame.position = instruction.target
    return None


def jump_if_true(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if decide(machine, frame, frame.position - 1, frame.stack.pop()):
        frame.position = instruction.target
    return None


def jump_if_none(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if frame.stack.pop() is None:
        frame.position = instruction.target
    return None


def jump_if_not_none(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if frame.stack.pop() is not None:
        frame.position = instruction.target
    return None


def jump_if_false_or_pop(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if machine.world.truth(frame.stack[-1]):
        frame.stack.pop()
    else:
        frame.position = instruction.target
    return None


def jump_if_true_or_pop(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if machine.world.truth(frame.stack[-1]):
        frame.position = instruction.target
    else:
        frame.stack.pop()
    return None


def get_iter(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = machine.world.iterate(frame.stack[-1])
    return None


def for_iter(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    try:
        value = machine.world.advance(frame.stack[-1])
    except StopIteration:
        value = MISSING
    if value is not MISSING:
        frame.stack.append(value)
        return None
    frame.position = instruction.target
    if not KEEPS_ITERATOR:
        frame.stack.pop()
        return None
    # The target is END_FOR (with POP_TOP behind it in 3.13): both only drop what CPython put there.
    if frame.decoded.instructions[frame.position].name == "END_FOR":
        frame.position += 1
    if sys.version_info < (3, 13):
        frame.stack.pop()
    return None


def return_value(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.value = frame.stack.pop()
    return RETURNED


def return_const(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.value = instruction.argval
    return RETURNED


def return_generator(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    # The frame is made suspended, so this runs at the first step; the POP_TOP behind it takes the sent None.
    frame.stack.append(None)
    return None


def yield_value(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.value = frame.stack.pop()
    return YIELDED


def get_yield_from_iter(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if type(frame.stack[-1]) in (CoroutineValue, types.CoroutineType):
        if not frame.code.co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE):
            raise TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")
    elif type(frame.stack[-1]) is not GeneratorValue:
        frame.stack[-1] = machine.world.iterate(frame.stack[-1])
    return None


def send(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = frame.stack.pop()
    receiver = frame.stack[-1]
    try:
        if value is None and find_in_type(type(receiver), "__next__") is not MISSING:
            produced = machine.world.advance(receiver)
        else:
            produced = machine.world.call(machine.world.load_attribute(receiver, "send"), (value,), {})
    except StopIteration as error:
        produced, result = MISSING, error.value
    if produced is not MISSING:
        frame.stack.append(produced)
        return None
    if not KEEPS_ITERATOR:
        frame.stack.pop()
    frame.stack.append(result)
    frame.position = instruction.target
    return None


def end_send(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = frame.stack.pop()
    frame.stack[-1] = value
    return None


def cleanup_throw(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    error = frame.stack[-1]
    if not isinstance(error, StopIteration):
        raise error
    del frame.stack[-3:]
    frame.stack += (None, error.value)
    return None


def end_for(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.pop()
    return None


HANDLERS: dict[str, Handler] = {
    "JUMP_FORWARD": jump,
    "JUMP_BACKWARD": jump,
    "JUMP_BACKWARD_NO_INTERRUPT": jump,
    "POP_JUMP_FORWARD_IF_FALSE": jump_if_false,
    "POP_JUMP_BACKWARD_IF_FALSE": jump_if_false,
    "POP_JUMP_IF_FALSE": jump_if_false,
    "POP_JUMP_FORWARD_IF_TRUE": jump_if_true,
    "POP_JUMP_BACKWARD_IF_TRUE": jump_if_true,
    "POP_JUMP_IF_TRUE": jump_if_true,
    "POP_JUMP_FORWARD_IF_NONE": jump_if_none,
    "POP_JUMP_BACKWARD_IF_NONE": jump_if_none,
    "POP_JUMP_IF_NONE": jump_if_none,
    "POP_JUMP_FORWARD_IF_NOT_NONE": jump_if_not_none,
    "POP_JUMP_BACKWARD_IF_NOT_NONE": jump_if_not_none,
    "POP_JUMP_IF_NOT_NONE": jump_if_not_none,
    "JUMP_IF_FALSE_OR_POP": jump_if_false_or_pop,
    "JUMP_IF_TRUE_OR_POP": jump_if_true_or_pop,
    "GET_ITER": get_iter,
    "FOR_ITER": for_iter,
    "END_FOR": end_for,
    "RETURN_VALUE": return_value,
    "RETURN_CONST": return_const,
    "RETURN_GENERATOR": return_generator,
    "YIELD_VALUE": yield_value,
    "GET_YIELD_FROM_ITER": get_yield_from_iter,
    "SEND": send,
    "END_SEND": end_send,
    "CLEANUP_THROW": cleanup_throw,
}
