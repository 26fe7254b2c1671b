"""Structural pattern matching."""

from __future__ import annotations

import collections.abc
from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import MISSING, Value

MAPPING_FLAG = 1 << 6
SEQUENCE_FLAG = 1 << 5
SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def get_len(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(machine.world.call(len, (frame.stack[-1],), {}))
    return None


def match_mapping(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    subject = frame.stack[-1]
    frame.stack.append(
        bool(type(subject).__flags__ & MAPPING_FLAG) or isinstance(subject, collections.abc.Mapping)
    )
    return None


def match_sequence(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(bool(type(frame.stack[-1]).__flags__ & SEQUENCE_FLAG))
    return None


def match_keys(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    subject, keys = frame.stack[-2], frame.stack[-1]
    getter = machine.world.load_attribute(subject, "get")
    values = []
    for key in keys:
        value = machine.world.call(getter, (key, MISSING), {})
        if value is MISSING:
            frame.stack.append(None)
            return None
        values.append(value)
    frame.stack.append(tuple(values))
    return None


def match_class(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    names = frame.stack.pop()
    kind = frame.stack.pop()
    subject = frame.stack.pop()
    frame.stack.append(match_attributes(machine, subject, kind, instruction.arg, names))
    return None


def match_attributes(
    machine: Any, subject: Value, kind: Value, positional: int, names: tuple[str, ...]
) -> tuple[Value, ...] | None:
    """The attribute values a class pattern takes out of `subject`, or None when it does not match."""
    if not isinstance(kind, type):
        raise TypeError("called match pattern must be a type")
    world = machine.world
    if not world.truth(world.call(isinstance, (subject, kind), {})):
        return None
    values: list[Value] = []
    if positional:
        allowed = world.call(getattr, (kind, "__match_args__", ()), {})
        if positional == 1 and not allowed and issubclass(kind, SELF_MATCHING):
            values.append(subject)
        else:
            if len(allowed) < positional:
                plural = "" if len(allowed) == 1 else "s"
                raise TypeError(
                    f"{kind.__name__}() accepts {len(allowed)} positional sub-pattern{plural} "
                    f"({positional} given)"
                )
            names = (*allowed[:positional], *names)
    for name in names:
        try:
            values.append(world.load_attribute(subject, name))
        except AttributeError:
            return None
    return tuple(values)


HANDLERS: dict[str, Handler] = {
    "GET_LEN": get_len,
    "MATCH_MAPPING": match_mapping,
    "MATCH_SEQUENCE": match_sequence,
    "MATCH_KEYS": match_keys,
    "MATCH_CLASS": match_class,
}
