"""Making classes: class statements, `type(name, bases, names)` and the library's class makers."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import types
from typing import Any

from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.values import attributes
from lamina.capture.values.calls import construct_plainly
from lamina.capture.values.conversions import Arguments, Keywords, Model


def model_build_class(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """A class statement."""
    if len(arguments) < 2 or type(arguments[0]) is not types.FunctionType or type(arguments[1]) is not str:
        return world.call_native(builtins.__build_class__, arguments, keywords)
    body, name, *given = arguments
    bases = resolve_bases(world, tuple(given))
    meta, rest = find_metaclass(bases, dict(keywords))
    names = prepare_names(world, meta, name, bases, rest)
    cell = world.machine.run_class_body(body, names)
    if bases != tuple(given):
        world.set_item(names, "__orig_bases__", tuple(given))
    made = world.call(meta, (name, bases, names), rest)
    if isinstance(cell, types.CellType):
        world.note_cell(cell)
        if isinstance(made, type):
            check_cell(world, cell, made, name)
    if isinstance(made, type):
        world.note_class(made)
    return made


def resolve_bases(world: Any, given: tuple[Value, ...]) -> tuple[Value, ...]:
    """The bases, with each one that is not a class replaced by what its `__mro_entries__` gives."""
    bases: list[Value] = []
    for base in given:
        if isinstance(base, type):
            bases.append(base)
            continue
        try:
            replace = world.load_attribute(base, "__mro_entries__")
        except AttributeError as error:
            world.check_origin(error)
            bases.append(base)
            continue
        entries = world.call(replace, (given,), {})
        if not isinstance(entries, tuple):
            raise TypeError("__mro_entries__ must return a tuple")
        bases.extend(entries)
    return tuple(bases)


def find_metaclass(bases: tuple[Value, ...], keywords: Keywords) -> tuple[Value, Keywords]:
    """The metaclass of a class statement and the keywords that are left for it."""
    meta = keywords.pop("metaclass", MISSING)
    if meta is MISSING:
        meta = type(bases[0]) if bases else type
    if isinstance(meta, type):
        meta = call_natively(types._calculate_meta, meta, bases)  # type: ignore[attr-defined]
    return meta, keywords


def prepare_names(world: Any, meta: Value, name: str, bases: tuple[Value, ...], keywords: Keywords) -> Value:
    """The namespace of a class body."""
    try:
        prepare = world.load_attribute(meta, "__prepare__")
    except AttributeError as error:
        world.check_origin(error)
        return {}
    if prepare == type.__prepare__:
        return {}
    names = world.call(prepare, (name, bases), keywords)
    if not isinstance(names, collections.abc.Mapping) and not hasattr(type(names), "__getitem__"):
        title = meta.__name__ if isinstance(meta, type) else "<metaclass>"
        raise TypeError(f"{title}.__prepare__() must return a mapping, not {type(names).__name__}")
    return names


def check_cell(world: Any, cell: types.CellType, made: type, name: str) -> None:
    """The `__class__` cell must have been filled by `type.__new__`."""
    held = world.load_cell(cell)
    if held is UNBOUND:
        raise RuntimeError(
            f"__class__ not set defining {name!r} as {made!r}. Was __classcell__ propagated to type.__new__?"
        )
    if held is not made:
        raise TypeError(f"__class__ set to {held!r} defining {name!r} as {made!r}")


def model_type(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`type(value)` and `type(name, bases, names)`."""
    if len(arguments) == 1 and not keywords:
        return world.type_of(arguments[0])
    return make_type(world, (type, *arguments), keywords)


def make_type(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`type.__new__(meta, name, bases, names)`: the module is that of the machine's frame, not of ours."""
    if len(arguments) == 4 and type(arguments[3]) is dict and "__module__" not in arguments[3]:
        module = world.machine.frame.global_names.get("__name__", MISSING)
        if module is not MISSING:
            arguments = (*arguments[:3], {**arguments[3], "__module__": module})
    world.check_class_hooks(arguments)
    made = world.call_native(type.__new__, arguments, keywords)
    if isinstance(made, type):
        world.note_class(made)
    return made


def model_type_call(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`type.__call__(kind, ...)`."""
    if len(arguments) == 2 and arguments[0] is type and not keywords:
        return world.type_of(arguments[1])
    return construct_plainly(world, arguments[0], arguments[1:], keywords)


def model_type_getattribute(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    owner, name = arguments
    if not isinstance(owner, type) or not isinstance(name, str):
        return world.call_native(type.__getattribute__, arguments, keywords)
    return attributes.load_class_attribute(world, owner, name)


def model_namedtuple(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`collections.namedtuple`, which asks a frame for its module."""
    if keywords.get("module") is None:
        keywords = {**keywords, "module": world.machine.frame.global_names.get("__name__", "__main__")}
    return call_natively(collections.namedtuple, *arguments, **keywords)


def run_natively(function: Any) -> Model:
    """A Python function of the library that is right to run outside the machine."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return call_natively(function, *arguments, **keywords)

    return model


def make_function(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`types.FunctionType(...)`, which takes the builtins of the frame if the globals have none."""
    frame_builtins = world.machine.frame.builtins
    names = arguments[1] if len(arguments) > 1 else keywords.get("globals")
    if isinstance(names, dict) and "__builtins__" not in names and frame_builtins is not vars(builtins):
        stop("builtins", "a function is made where the builtins are not the usual ones")
    return world.call_native(types.FunctionType, arguments, keywords)


CLASS_MAKING: dict[Any, Model] = {
    builtins.__build_class__: model_build_class,
    type: model_type,
    types.FunctionType: make_function,
    type.__call__: model_type_call,
    type.__new__: make_type,
    type.__getattribute__: model_type_getattribute,
    # These write classes by compiling text; what they make is then run in the machine.
    dataclasses._process_class: run_natively(dataclasses._process_class),  # type: ignore[attr-defined]
    collections.namedtuple: model_namedtuple,
}
