"""Locals, globals, cells, class-body names and imports."""

from __future__ import annotations

import types
from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import MISSING, NULL, UNBOUND, Value
from lamina.capture.values.operators import step_through


def raise_unbound(frame: Frame, slot: int) -> None:
    name = frame.decoded.slot_names[slot]
    raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")


def load_fast(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    value = frame.slots[instruction.arg]
    if value is UNBOUND:
        raise_unbound(frame, instruction.arg)
    frame.stack.append(value)
    return None


def load_fast_and_clear(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(frame.slots[instruction.arg])
    frame.slots[instruction.arg] = UNBOUND
    return None


def store_fast(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.slots[instruction.arg] = frame.stack.pop()
    return None


def delete_fast(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if frame.slots[instruction.arg] is UNBOUND:
        raise_unbound(frame, instruction.arg)
    frame.slots[instruction.arg] = UNBOUND
    return None


def load_fast_load_fast(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    for slot in (instruction.arg >> 4, instruction.arg & 15):
        if frame.slots[slot] is UNBOUND:
            raise_unbound(frame, slot)
        frame.stack.append(frame.slots[slot])
    return None


def store_fast_load_fast(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.slots[instruction.arg >> 4] = frame.stack.pop()
    frame.stack.append(frame.slots[instruction.arg & 15])
    return None


def store_fast_store_fast(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.slots[instruction.arg >> 4] = frame.stack.pop()
    frame.slots[instruction.arg & 15] = frame.stack.pop()
    return None


def load_const(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(instruction.argval)
    return None


def load_global_null_first(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if instruction.arg & 1:
        frame.stack.append(NULL)
    frame.stack.append(machine.world.load_global(frame, instruction.argval))
    return None


def load_global_null_last(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(machine.world.load_global(frame, instruction.argval))
    if instruction.arg & 1:
        frame.stack.append(NULL)
    return None


def store_global(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    machine.world.store_global(frame, instruction.argval, frame.stack.pop())
    return None


def delete_global(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    machine.world.delete_global(frame, instruction.argval)
    return None


def make_cell(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    initial = frame.slots[instruction.arg]
    cell = types.CellType() if initial is UNBOUND else types.CellType(initial)
    machine.world.note_cell(cell)
    frame.slots[instruction.arg] = cell
    return None


def copy_free_vars(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    cells = frame.function.__closure__ or ()
    frame.slots[len(frame.slots) - instruction.arg :] = cells
    return None


def load_closure(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(frame.slots[instruction.arg])
    return None


def read_cell(machine: Any, frame: Frame, instruction: Instruction) -> Value:
    value = machine.world.load_cell(frame.slots[instruction.arg])
    if value is not UNBOUND:
        return value
    name = instruction.argval
    if name in frame.code.co_cellvars:
        raise_unbound(frame, instruction.arg)
    raise NameError(
        f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
    )


def load_deref(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(read_cell(machine, frame, instruction))
    return None


def store_deref(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    machine.world.store_cell(frame.slots[instruction.arg], frame.stack.pop())
    return None


def delete_deref(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    read_cell(machine, frame, instruction)
    machine.world.delete_cell(frame.slots[instruction.arg])
    return None


def load_classderef(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    found = machine.world.find_name(frame.names, instruction.argval)
    frame.stack.append(read_cell(machine, frame, instruction) if found is MISSING else found)
    return None


def load_from_dict_or_deref(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    found = machine.world.find_name(frame.stack.pop(), instruction.argval)
    frame.stack.append(read_cell(machine, frame, instruction) if found is MISSING else found)
    return None


def load_from_dict_or_globals(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    found = machine.world.find_name(frame.stack.pop(), instruction.argval)
    if found is MISSING:
        found = machine.world.load_global(frame, instruction.argval)
    frame.stack.append(found)
    return None


def load_locals(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(frame.names)
    return None


def load_name(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    found = MISSING if frame.names is None else machine.world.find_name(frame.names, instruction.argval)
    if found is MISSING:
        found = machine.world.load_global(frame, instruction.argval)
    frame.stack.append(found)
    return None


def keep_name(machine: Any, frame: Frame, name: str, value: Value) -> None:
    """Set a name of a class body or of code that `exec` runs; without a namespace of its own, a global."""
    if frame.names is None:
        machine.world.store_global(frame, name, value)
    else:
        machine.world.set_item(frame.names, name, value)


def store_name(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    keep_name(machine, frame, instruction.argval, frame.stack.pop())
    return None


def delete_name(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    name = instruction.argval
    if frame.names is None:
        machine.world.delete_global(frame, name)
        return None
    try:
        machine.world.delete_item(frame.names, name)
    except KeyError as error:
        machine.world.check_origin(error)
        raise NameError(f"name {name!r} is not defined", name=name) from None
    return None


def setup_annotations(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    names = frame.names
    if names is not None and machine.world.find_name(names, "__annotations__") is MISSING:
        machine.world.set_item(names, "__annotations__", {})
    return None


def import_name(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    names = frame.stack.pop()
    level = frame.stack.pop()
    frame.stack.append(machine.world.import_module(instruction.argval, names, level, frame))
    return None


def import_from(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    module = frame.stack[-1]
    try:
        value = machine.world.load_attribute(module, instruction.argval)
    except AttributeError as error:
        machine.world.check_origin(error)
        name = getattr(module, "__name__", "<unknown module name>")
        raise ImportError(f"cannot import name {instruction.argval!r} from {name!r}", name=name) from None
    frame.stack.append(value)
    return None


def import_all(machine: Any, frame: Frame, module: Value) -> None:
    """`from module import *`: the names in `__all__`, or those without a leading underscore."""
    world = machine.world
    try:
        names = list(step_through(world, world.iterate(world.load_attribute(module, "__all__"))))
    except AttributeError as error:
        world.check_origin(error)
        names = [name for name in world.load_attribute(module, "__dict__") if not name.startswith("_")]
    for name in names:
        keep_name(machine, frame, name, world.load_attribute(module, name))


def import_star(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    import_all(machine, frame, frame.stack.pop())
    return None


HANDLERS: dict[str, Handler] = {
    "LOAD_FAST": load_fast,
    "LOAD_FAST_CHECK": load_fast,
    "LOAD_FAST_AND_CLEAR": load_fast_and_clear,
    "STORE_FAST": store_fast,
    "STORE_FAST_MAYBE_NULL": store_fast,
    "DELETE_FAST": delete_fast,
    "LOAD_FAST_LOAD_FAST": load_fast_load_fast,
    "STORE_FAST_LOAD_FAST": store_fast_load_fast,
    "STORE_FAST_STORE_FAST": store_fast_store_fast,
    "LOAD_CONST": load_const,
    "STORE_GLOBAL": store_global,
    "DELETE_GLOBAL": delete_global,
    "MAKE_CELL": make_cell,
    "COPY_FREE_VARS": copy_free_vars,
    "LOAD_CLOSURE": load_closure,
    "LOAD_DEREF": load_deref,
    "STORE_DEREF": store_deref,
    "DELETE_DEREF": delete_deref,
    "LOAD_CLASSDEREF": load_classderef,
    "LOAD_FROM_DICT_OR_DEREF": load_from_dict_or_deref,
    "LOAD_FROM_DICT_OR_GLOBALS": load_from_dict_or_globals,
    "LOAD_LOCALS": load_locals,
    "LOAD_NAME": load_name,
    "STORE_NAME": store_name,
    "DELETE_NAME": delete_name,
    "SETUP_ANNOTATIONS": setup_annotations,
    "IMPORT_NAME": import_name,
    "IMPORT_FROM": import_from,
    "IMPORT_STAR": import_star,
}
HANDLERS_BEFORE_313: dict[str, Handler] = {"LOAD_GLOBAL": load_global_null_first}
HANDLERS_FROM_313: dict[str, Handler] = {"LOAD_GLOBAL": load_global_null_last}
