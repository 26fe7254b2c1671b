"""Structural pattern matching."""

from __future__ import annotations

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
    frame.stack.append(bool(machine.world.type_of(subject).__flags__ & MAPPING_FLAG))
    return None


def match_sequence(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    kind = machine.world.type_of(frame.stack[-1])
    frame.stack.append(bool(kind.__flags__ & SEQUENCE_FLAG))
    return None


def match_keys(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    subject, keys = frame.stack[-2], frame.stack[-1]
    getter = machine.world.load_attribute(subject, "get")
    values: list[Value] = []
    for index, key in enumerate(keys):
        if machine.world.contains(keys[:index], key):
            raise ValueError(f"mapping pattern checks duplicate key ({machine.world.to_repr(key)})")
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
        allowed = world.call(getattr, (kind, "__match_args__", MISSING), {})
        if allowed is MISSING and issubclass(kind, SELF_MATCHING):
            allowed, values, positional = (), [subject], positional - 1
        check_positional(kind, () if allowed is MISSING else allowed, positional, bool(values))
        names = (*(allowed[:positional] if positional else ()), *names)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise TypeError(f"{kind.__name__}() got multiple sub-patterns for attribute {name!r}")
        try:
            values.append(world.load_attribute(subject, name))
        except AttributeError as error:
            world.check_origin(error)
            return None
    return tuple(values)


def check_positional(kind: type, allowed: Value, positional: int, is_self: bool) -> None:
    """Refuse positional sub-patterns that `__match_args__` has no names for."""
    if not isinstance(allowed, tuple):
        raise TypeError(f"{kind.__name__}.__match_args__ must be a tuple (got {type(allowed).__name__})")
    most = 1 if is_self else len(allowed)
    given = positional + is_self
    if most < given:
        plural = "" if most == 1 else "s"
        raise TypeError(f"{kind.__name__}() accepts {most} positional sub-pattern{plural} ({given} given)")
    for name in allowed[:positional]:
        if not isinstance(name, str):
            raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")


HANDLERS: dict[str, Handler] = {
    "GET_LEN": get_len,
    "MATCH_MAPPING": match_mapping,
    "MATCH_SEQUENCE": match_sequence,
    "MATCH_KEYS": match_keys,
    "MATCH_CLASS": match_class,
}
