"""Guards on classes: what a program does with an object depends on names that its class does *not* have.

    bool(o), o == p, o.v, o.v = 1       mean something else with __bool__, __eq__, a property v, __setattr__

So each class of the user's that a program met keeps its bases and its names. What a name stands for is
guarded where it was read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import partial

from lamina.capture.generated import Writer
from lamina.capture.guards import OBJECTS, GuardSet
from lamina.capture.sources import Fixed
from lamina.capture.values.attributes import IMMUTABLE_TYPE
from lamina.capture.values.object_records import ObjectState
from lamina.capture.values.trust import is_trusted_module


def guard_objects(guards: GuardSet, states: Iterable[ObjectState]) -> None:
    """Objects that are the same in every call keep their class, where Python lets them have another one."""
    for state in states:
        if isinstance(state.source, Fixed) and not type(state.owner).__flags__ & IMMUTABLE_TYPE:
            guards.kind(state.source, type(state.owner))


def guard_classes(guards: GuardSet, met: Iterable[type], made_here: Container[int]) -> None:
    """Guard classes that a program met, their bases and metaclasses; not those it made (by identity)."""
    names: dict[int, tuple[type, list[str]]] = {}
    for kind in {id(each): each for one in met for each in (one, type(one))}.values():
        if not is_changeable(kind) or id(kind) in made_here:
            continue
        bases = type.__dict__["__mro__"].__get__(kind)
        guards.add(OBJECTS, f"{kind.__qualname__}.__mro__", "the same", partial(write_bases, kind, bases))
        for base in bases:
            if is_changeable(base) and id(base) not in made_here:
                names[id(base)] = base, list(base.__dict__)
    if names:
        known = list(names.values())
        guards.add(
            OBJECTS, "classes", "the same names", partial(write_names, known), partial(write_change, known)
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
