"""Stack shuffling and instructions without effect."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import NULL


def do_nothing(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    return None


def pop_top(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.pop()
    return None


def push_null(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(NULL)
    return None


def copy(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(frame.stack[-instruction.arg])
    return None


def swap(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    stack, depth = frame.stack, instruction.arg
    stack[-1], stack[-depth] = stack[-depth], stack[-1]
    return None


HANDLERS: dict[str, Handler] = {
    "CACHE": do_nothing,
    "EXTENDED_ARG": do_nothing,
    "NOP": do_nothing,
    "RESUME": do_nothing,
    "PRECALL": do_nothing,
    "POP_TOP": pop_top,
    "PUSH_NULL": push_null,
    "COPY": copy,
    "SWAP": swap,
}
