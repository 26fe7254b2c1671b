"""Guards on classes: what a program does with an object depends on names that its class does *not* have.

    bool(o), o == p, o.v, o.v = 1       mean something else with __bool__, __eq__, a property v, __setattr__

So each class of the user's that a program met keeps its bases and its names. What a name stands for is
guarded where it was read. Objects keep their class and their dict, modules their tables of hooks.
"""

from __future__ import annotations

import types
from collections.abc import Container, Iterable, Sequence
from functools import partial
from typing import Any

from lamina.capture.generated import Writer
from lamina.capture.guards import FLAGS, OBJECTS, GuardSet
from lamina.capture.identities import DICTS, Identity, row_of_version
from lamina.capture.machine.signals import Value, stop
from lamina.capture.sources import Fixed
from lamina.capture.values.attributes import IMMUTABLE_TYPE, find_in_type, is_python_method
from lamina.capture.values.object_records import ObjectState, read_dict
from lamina.capture.values.trust import is_trusted_module

HookTable = tuple[dict[str, Any] | None, str, Any]
"""A module's own dict (None for the tables of all modules), the name of a table of hooks, and the table."""


def guard_objects(guards: GuardSet, states: Iterable[ObjectState]) -> None:
    """Objects that are the same in every call keep what Python lets one replace: their class, their dict."""
    for state in states:
        if isinstance(state.source, Fixed):
            if not type(state.owner).__flags__ & IMMUTABLE_TYPE:
                guards.kind(state.source, type(state.owner))
            guard_own_dict(guards, state.source)


def guard_own_dict(guards: GuardSet, source: Fixed) -> None:
    """The object keeps the dict that its attributes are read from, if it has one."""
    owner = source.value
    entries = read_dict(owner)
    if entries is None or isinstance(owner, types.ModuleType):
        return
    kind = type(owner)
    is_plain = not is_python_method(find_in_type(kind, "__getattribute__")) and isinstance(
        find_in_type(kind, "__dict__"), types.GetSetDescriptorType
    )

    def condition(writer: Writer) -> str:
        name = writer.constant(owner)
        found = f"{name}.__dict__" if is_plain else f"{writer.constant(read_dict)}({name})"
        return f"{found} is {writer.constant(entries)}"

    if guards.is_new("own dict", source.key):
        rows = (("dict", owner, None, entries),)
        guards.add(OBJECTS, source.describe(), "its dict of attributes", condition, rows=rows)


def guard_hooks(guards: GuardSet, places: Sequence[HookTable]) -> None:
    """Modules keep their tables of hooks, and these are empty."""
    rows: list[Identity] = [("empty", table, None, None) for _, _, table in places]
    rows += [("entry", entries, name, table) for entries, name, table in places if entries is not None]
    guards.add(
        FLAGS,
        "module hooks",
        "no hooks",
        lambda writer: f"{writer.constant(are_unhooked)}({writer.constant(tuple(places))})",
        rows=tuple(rows) if all(type(table) in DICTS for _, _, table in places) else (),
    )


def are_unhooked(places: Sequence[HookTable]) -> bool:
    return not any(
        table or (entries is not None and entries[name] is not table) for entries, name, table in places
    )


def guard_classes(guards: GuardSet, met: Iterable[type], made_here: Container[int]) -> None:
    """Guard classes that a program met, their bases and metaclasses; not those it made (by identity)."""
    names: dict[int, tuple[type, list[str]]] = {}
    for kind in {id(each): each for one in met for each in (one, type(one))}.values():
        if not is_changeable(kind) or id(kind) in made_here:
            continue
        bases = type.__dict__["__mro__"].__get__(kind)
        write = partial(write_bases, kind, bases)
        guards.add(OBJECTS, f"{kind.__qualname__}.__mro__", "the same", write, rows=(row_of_version(kind),))
        for base in bases:
            if is_changeable(base) and id(base) not in made_here:
                names[id(base)] = base, list(base.__dict__)
    if names:
        known = list(names.values())
        write, show = partial(write_names, known), partial(write_change, known)
        rows = tuple(row_of_version(kind) for kind, _ in known)
        guards.add(OBJECTS, "classes", "the same names", write, show, rows)


def guard_subclasses(guards: GuardSet, kind: type) -> None:
    """The program asked for the classes derived from `kind`."""
    found: list[type] = kind.__subclasses__()
    guards.on_value(
        Fixed(kind, kind.__qualname__),
        "subclasses",
        f"{len(found)} subclasses",
        lambda writer, name: f"{name}.__subclasses__() == {writer.constant(found)}",
    )


def check_hooks(meta: Value, name: Value, bases: Value, entries: Value) -> None:
    """Stop where `type.__new__` would run methods of the user's: they would run outside of the machine."""
    hooks = [find_in_type(type(value), "__set_name__") for value in entries.values()]
    hooks += [find_in_type(base, "__init_subclass__") for base in bases]
    for hook in hooks:
        function = getattr(hook, "__func__", hook)
        if is_python_method(function) and not is_trusted_module(getattr(function, "__module__", None)):
            stop(
                "native-callback",
                f"the making of the class {name} would call {function.__qualname__} from C code",
            )


def is_changeable(kind: type) -> bool:
    """Whether a class is the user's and made by a class statement."""
    return not kind.__flags__ & IMMUTABLE_TYPE and not is_trusted_module(kind.__module__)


def write_bases(kind: type, bases: tuple[type, ...], writer: Writer) -> str:
    return f"{writer.constant(kind)}.__mro__ is {writer.constant(bases)}"


def write_names(known: list[tuple[type, list[str]]], writer: Writer) -> str:
    """One comparison for all classes, with a number between one class's names and the next one's."""
    together = [name for _, names in known for name in (*names, 0)]
    found = ", ".join(f"*{writer.constant(kind.__dict__)}, 0" for kind, _ in known)
    return f"[{found}] == {writer.constant(together)}"


def write_change(known: list[tuple[type, list[str]]], writer: Writer) -> str:
    return f"{writer.constant(partial(find_change, known))}()"


def find_change(known: list[tuple[type, list[str]]]) -> str:
    """Which class has other names now, for messages."""
    for kind, names in known:
        changed = sorted(set(names) ^ set(kind.__dict__))
        if changed or names != list(kind.__dict__):
            return f"{kind.__qualname__} with a change of {', '.join(changed) or 'order'}"
    return "no change"
