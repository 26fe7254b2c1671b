"""Unary and binary operators, comparisons, subscripts, slices and formatting."""

from __future__ import annotations

import opcode
import sys
from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.opcodes.control import decide
from lamina.capture.values import operators

BINARY_SYMBOLS: tuple[str, ...] = tuple(symbol for _, symbol in opcode._nb_ops)  # type: ignore[attr-defined]
CONVERSIONS = {1: "text", 2: "repr", 3: "ascii"}
COMPARE_AS_BOOL_FLAG = 16


def binary_op(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    right = frame.stack.pop()
    left = frame.stack[-1]
    frame.stack[-1] = machine.world.binary(BINARY_SYMBOLS[instruction.arg], left, right)
    return None


def unary(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = operators.apply_unary(machine.world, instruction.name, frame.stack[-1])
    return None


def unary_not(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = not machine.world.truth(frame.stack[-1])
    return None


def to_bool(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    # The jump behind it decides by this.
    frame.stack[-1] = decide(machine, frame, frame.position, frame.stack[-1])
    return None


def compare_op(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    right = frame.stack.pop()
    as_bool = sys.version_info >= (3, 13) and instruction.arg & COMPARE_AS_BOOL_FLAG
    result = machine.world.compare(instruction.argval, frame.stack[-1], right)
    frame.stack[-1] = decide(machine, frame, frame.position, result) if as_bool else result
    return None


def is_op(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    right = frame.stack.pop()
    same = machine.world.is_same(frame.stack[-1], right)
    frame.stack[-1] = same != bool(instruction.arg)
    return None


def contains_op(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    container = frame.stack.pop()
    found = machine.world.contains(container, frame.stack[-1])
    frame.stack[-1] = found != bool(instruction.arg)
    return None


def binary_subscr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    key = frame.stack.pop()
    frame.stack[-1] = machine.world.get_item(frame.stack[-1], key)
    return None


def binary_slice(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    end = frame.stack.pop()
    start = frame.stack.pop()
    frame.stack[-1] = machine.world.get_item(frame.stack[-1], slice(start, end))
    return None


def store_slice(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    end = frame.stack.pop()
    start = frame.stack.pop()
    container = frame.stack.pop()
    machine.world.set_item(container, slice(start, end), frame.stack.pop())
    return None


def store_subscr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    key = frame.stack.pop()
    container = frame.stack.pop()
    machine.world.set_item(container, key, frame.stack.pop())
    return None


def delete_subscr(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    key = frame.stack.pop()
    machine.world.delete_item(frame.stack.pop(), key)
    return None


def build_slice(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    step = frame.stack.pop() if instruction.arg == 3 else None
    end = frame.stack.pop()
    start = frame.stack.pop()
    frame.stack.append(slice(start, end, step))
    return None


def convert(machine: Any, value: Any, conversion: int) -> Any:
    """What `!s`, `!r` or `!a` makes of a value; 0: nothing."""
    if conversion == 0:
        return value
    if conversion == 1:
        return machine.world.to_text(value)
    text = machine.world.to_repr(value)
    return text.encode("ascii", "backslashreplace").decode() if conversion == 3 else text


def format_value(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    specification = frame.stack.pop() if instruction.arg & 4 else ""
    value = convert(machine, frame.stack.pop(), instruction.arg & 3)
    frame.stack.append(machine.world.format_value(value, specification))
    return None


def convert_value(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = convert(machine, frame.stack[-1], instruction.arg)
    return None


def format_simple(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = machine.world.format_value(frame.stack[-1], "")
    return None


def format_with_spec(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    specification = frame.stack.pop()
    frame.stack[-1] = machine.world.format_value(frame.stack[-1], specification)
    return None


HANDLERS: dict[str, Handler] = {
    "BINARY_OP": binary_op,
    "UNARY_NEGATIVE": unary,
    "UNARY_POSITIVE": unary,
    "UNARY_INVERT": unary,
    "UNARY_NOT": unary_not,
    "TO_BOOL": to_bool,
    "COMPARE_OP": compare_op,
    "IS_OP": is_op,
    "CONTAINS_OP": contains_op,
    "BINARY_SUBSCR": binary_subscr,
    "BINARY_SLICE": binary_slice,
    "STORE_SLICE": store_slice,
    "STORE_SUBSCR": store_subscr,
    "DELETE_SUBSCR": delete_subscr,
    "BUILD_SLICE": build_slice,
    "FORMAT_VALUE": format_value,
    "CONVERT_VALUE": convert_value,
    "FORMAT_SIMPLE": format_simple,
    "FORMAT_WITH_SPEC": format_with_spec,
}
