"""What a trace knows of objects from outside: attributes read, with guards, and attributes written."""

from __future__ import annotations

from typing import Any

from lamina.capture.guards import GuardSet
from lamina.capture.identities import rows_of_absence
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.sources import Attribute, Fixed, Item, Source


class ObjectState:
    """An object from outside: the attributes the program knows, and which of them it changed."""

    __slots__ = ("is_complete", "known", "owner", "read", "source")

    def __init__(self, owner: Any, source: Source) -> None:
        self.owner = owner
        self.source = source
        self.known: dict[str, Value] = {}
        self.read: dict[str, Value] = {}
        self.is_complete = False


class ObjectRecords:
    """Reads attributes of outside objects. What is read is brought into the program by the heir."""

    def __init__(self, guards: GuardSet) -> None:
        self.guards = guards
        self.copy_ids: dict[int, Any] = {}
        """Copies of containers from outside, by their own identities."""

    def bring(self, value: Value, source: Source, is_trusted: bool = False) -> Value:
        """`value`, read at `source`, as the program sees it."""
        raise NotImplementedError

    def read_attribute(self, state: ObjectState, name: str) -> Value:
        """The entry `name` of an outside object's own dictionary, or MISSING."""
        found = state.known.get(name, MISSING)
        if found is not MISSING:
            return found
        if state.is_complete or name in state.read:
            return MISSING
        entries = read_dict(state.owner)
        raw = entries.get(name, MISSING) if entries is not None else MISSING
        if raw is MISSING:
            if entries is not None:
                self.guard_absent(state, name)
            return MISSING
        value = self.bring(raw, Attribute(state.source, name))
        state.known[name] = state.read[name] = value
        return value

    def erase_attribute(self, state: ObjectState, name: str) -> None:
        """Forget an attribute that was read before: it is deleted after the call."""
        state.known.pop(name)
        state.read.setdefault(name, MISSING)

    def guard_absent(self, state: ObjectState, name: str) -> None:
        """The object has no own attribute of that name."""
        source = state.source
        place = Attribute(source, name)
        if isinstance(source, Fixed):
            entries = source.value.__dict__
            self._add_absent(place, lambda writer: writer.constant(entries), name)
        else:
            self._add_absent(place, lambda writer: writer.read(f"{source.expression(writer)}.__dict__"), name)

    def guard_absent_of_copy(self, copy: Any, name: str) -> None:
        """A container of a class of the user's, of which the program has a copy, lacks the attribute."""
        record = self.copy_ids.get(id(copy))
        if record is None:
            return
        entries = read_dict(record.original)
        if entries is not None and name not in entries:
            self.guard_absent(ObjectState(record.original, record.source), name)

    def guard_no_attribute(self, source: Source, name: str) -> None:
        """The object at `source` finds no attribute of that name, be it its own or its class's."""
        self.guards.on_value(
            source, f"no {name}", f"{name} unset", lambda _, text: f"not hasattr({text}, {name!r})"
        )

    def guard_absent_key(self, source: Source, key: Any) -> None:
        self._add_absent(Item(source, key), source.expression, key)

    def guard_present_key(self, source: Source, key: Any) -> None:
        self.guards.on_value(
            source, f"has {key!r}", f"has {key!r}", lambda writer, name: f"{writer.constant(key)} in {name}"
        )

    def _add_absent(self, place: Source, entries: Any, name: Any) -> None:
        if self.guards.is_new("absent", place.key):
            self.guards.add(
                3 if place.is_fixed else 0,
                place.describe(),
                "absent",
                lambda writer: f"{writer.constant(name)} not in {entries(writer)}",
                rows=rows_of_absence(place),
            )

    def complete(self, state: ObjectState) -> dict[str, Value]:
        """All attributes of an outside object, as the dict that its `__dict__` is in the program."""
        if not state.is_complete:
            entries = read_dict(state.owner) or {}
            deleted = [name for name in state.read if name not in state.known]
            written = dict(state.known)
            state.known.clear()
            self.guards.on_value(
                state.source,
                "attributes",
                f"attributes {tuple(entries)!r}",
                lambda writer, name: f"tuple({name}.__dict__) == {writer.constant(tuple(entries))}",
            )
            for name, raw in list(entries.items()):
                if name in deleted:
                    continue
                if name in state.read:
                    state.known[name] = written.pop(name)
                    continue
                if name in written:
                    state.known[name] = written.pop(name)
                    continue
                value = self.bring(raw, Attribute(state.source, name))
                state.known[name] = state.read[name] = value
            state.known.update(written)
            state.is_complete = True
        return state.known


def read_dict(owner: Any) -> dict[str, Any] | None:
    """An object's own dictionary without running its code."""
    try:
        entries: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return entries
