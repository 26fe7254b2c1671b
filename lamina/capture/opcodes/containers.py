"""Building, extending and unpacking containers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.opcodes.attributes import NULL_ABOVE_CALLABLE
from lamina.capture.values.attributes import find_in_type
from lamina.capture.values.iteration import as_native_iterable, is_iterable, iterate, take_all, unpack
from lamina.capture.values.operators import step_through


def take(frame: Frame, count: int) -> list[Value]:
    """Pop `count` values, the deepest first."""
    if not count:
        return []
    values = frame.stack[-count:]
    del frame.stack[-count:]
    return values


def build_list(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(take(frame, instruction.arg))
    return None


def build_tuple(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(tuple(take(frame, instruction.arg)))
    return None


def check_keys(machine: Any, container: Value, keys: Iterable[Value]) -> None:
    """See that the machine may look these up natively."""
    for key in keys:
        machine.world.check_key(container, key)


def build_set(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    items = take(frame, instruction.arg)
    made: set[Value] = set()
    check_keys(machine, made, items)
    call_natively(made.update, items)
    frame.stack.append(made)
    return None


def build_string(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append("".join(take(frame, instruction.arg)))
    return None


def build_map(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    values = take(frame, 2 * instruction.arg)
    made: dict[Value, Value] = {}
    check_keys(machine, made, values[::2])
    call_natively(made.update, zip(values[::2], values[1::2], strict=True))
    frame.stack.append(made)
    return None


def build_const_key_map(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    keys = frame.stack.pop()
    frame.stack.append(dict(zip(keys, take(frame, instruction.arg), strict=True)))
    return None


def list_append(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = frame.stack.pop()
    frame.stack[-instruction.arg].append(value)
    return None


def set_add(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = frame.stack.pop()
    made = frame.stack[-instruction.arg]
    machine.world.check_key(made, value)
    call_natively(made.add, value)
    return None


def map_add(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = frame.stack.pop()
    key = frame.stack.pop()
    made = frame.stack[-instruction.arg]
    machine.world.check_key(made, key)
    call_natively(dict.__setitem__, made, key, value)
    return None


def list_extend(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    iterable = frame.stack.pop()
    if not is_iterable(iterable):
        raise TypeError(f"Value after * must be an iterable, not {type(iterable).__name__}")
    call_natively(frame.stack[-instruction.arg].extend, as_native_iterable(machine.world, iterable))
    return None


def set_update(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    iterable = frame.stack.pop()
    made = frame.stack[-instruction.arg]
    items = take_all(machine.world, iterable)
    check_keys(machine, made, items)
    call_natively(made.update, items)
    return None


def name_callable(callee: Value) -> str:
    """How CPython's messages about a call name the callable."""
    name = getattr(callee, "__qualname__", None)
    if name is None:
        return str(callee)
    module = getattr(callee, "__module__", None)
    return f"{name}()" if module is None or module == "builtins" else f"{module}.{name}()"


def read_mapping(machine: Any, mapping: Value) -> list[tuple[Value, Value]]:
    """The entries of any mapping, read as `dict.update` reads it."""
    world = machine.world
    if isinstance(mapping, dict) and find_in_type(type(mapping), "__iter__") is dict.__iter__:
        return list(dict.items(mapping))
    keys = world.call(world.load_attribute(mapping, "keys"), (), {})
    return [(key, world.get_item(mapping, key)) for key in step_through(world, iterate(world, keys))]


def dict_update(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    mapping = frame.stack.pop()
    if find_in_type(type(mapping), "keys") is MISSING:
        raise TypeError(f"{type(mapping).__name__!r} object is not a mapping")
    call_natively(frame.stack[-instruction.arg].update, read_mapping(machine, mapping))
    return None


def dict_merge(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    mapping = frame.stack.pop()
    target = frame.stack[-instruction.arg]
    callee = frame.stack[-instruction.arg - (3 if NULL_ABOVE_CALLABLE else 2)]
    name = name_callable(callee)
    if find_in_type(type(mapping), "keys") is MISSING:
        raise TypeError(f"{name} argument after ** must be a mapping, not {type(mapping).__name__}")
    for key, value in read_mapping(machine, mapping):
        if key in target:
            raise TypeError(f"{name} got multiple values for keyword argument '{key}'")
        target[key] = value
    return None


def list_to_tuple(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = tuple(frame.stack[-1])
    return None


def unpack_sequence(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    iterable = frame.stack.pop()
    wanted = instruction.arg
    if type(iterable) in (list, tuple):
        items = list(iterable)
    else:
        items = take_at_most(machine, iterable, wanted + 1)
    if len(items) > wanted:
        raise ValueError(f"too many values to unpack (expected {wanted})")
    if len(items) < wanted:
        raise ValueError(f"not enough values to unpack (expected {wanted}, got {len(items)})")
    frame.stack.extend(reversed(items))
    return None


def check_unpacked(value: Value) -> None:
    if not is_iterable(value):
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object")


def take_at_most(machine: Any, iterable: Value, limit: int) -> list[Value]:
    """The first items of an iterable, stepping it no further than unpacking does."""
    check_unpacked(iterable)
    iterator = iterate(machine.world, iterable)
    items: list[Value] = []
    for item in step_through(machine.world, iterator):
        items.append(item)
        if len(items) == limit:
            break
    return items


def unpack_ex(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    before, after = instruction.arg & 255, instruction.arg >> 8
    iterable = frame.stack.pop()
    if type(iterable) in (list, tuple):
        items = list(iterable)
    else:
        check_unpacked(iterable)
        iterator = iterate(machine.world, iterable)
        items = list(itertools.islice(step_through(machine.world, iterator), before))
        if len(items) == before:
            items += unpack(machine.world, iterator)
    if len(items) < before + after:
        raise ValueError(
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    end = len(items) - after
    frame.stack.extend(reversed(items[end:]))
    frame.stack.append(items[before:end])
    frame.stack.extend(reversed(items[:before]))
    return None


HANDLERS: dict[str, Handler] = {
    "BUILD_LIST": build_list,
    "BUILD_TUPLE": build_tuple,
    "BUILD_SET": build_set,
    "BUILD_STRING": build_string,
    "BUILD_MAP": build_map,
    "BUILD_CONST_KEY_MAP": build_const_key_map,
    "LIST_APPEND": list_append,
    "SET_ADD": set_add,
    "MAP_ADD": map_add,
    "LIST_EXTEND": list_extend,
    "SET_UPDATE": set_update,
    "DICT_UPDATE": dict_update,
    "DICT_MERGE": dict_merge,
    "LIST_TO_TUPLE": list_to_tuple,
    "UNPACK_SEQUENCE": unpack_sequence,
    "UNPACK_EX": unpack_ex,
}
