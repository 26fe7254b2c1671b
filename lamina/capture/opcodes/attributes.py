"""Attributes, methods and `super()`."""

from __future__ import annotations

import sys
from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import NULL

METHOD_FLAG_IN_LOAD_ATTR = sys.version_info >= (3, 12)
NULL_ABOVE_CALLABLE = sys.version_info >= (3, 13)


def push_callable(frame: Frame, value: Any) -> None:
    """Push a bound callable with the empty slot where this Python expects it."""
    if NULL_ABOVE_CALLABLE:
        frame.stack += (value, NULL)
    else:
        frame.stack += (NULL, value)


def load_attr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = machine.world.load_attribute(frame.stack.pop(), instruction.argval)
    if METHOD_FLAG_IN_LOAD_ATTR and instruction.arg & 1:
        push_callable(frame, value)
    else:
        frame.stack.append(value)
    return None


def load_method(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = machine.world.load_attribute(frame.stack.pop(), instruction.argval)
    push_callable(frame, value)
    return None


def load_super_attr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    owner = frame.stack.pop()
    kind = frame.stack.pop()
    maker = frame.stack.pop()
    value = machine.world.load_attribute(machine.world.call(maker, (kind, owner), {}), instruction.argval)
    if instruction.arg & 1:
        push_callable(frame, value)
    else:
        frame.stack.append(value)
    return None


def store_attr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    owner = frame.stack.pop()
    machine.world.store_attribute(owner, instruction.argval, frame.stack.pop())
    return None


def delete_attr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    machine.world.delete_attribute(frame.stack.pop(), instruction.argval)
    return None


HANDLERS: dict[str, Handler] = {
    "LOAD_ATTR": load_attr,
    "LOAD_METHOD": load_method,
    "LOAD_SUPER_ATTR": load_super_attr,
    "STORE_ATTR": store_attr,
    "DELETE_ATTR": delete_attr,
}
