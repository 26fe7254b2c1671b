"""What a traced program changed outside: found by comparing what it works on with what was read."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.sources import Source
from lamina.capture.values.modes import Switch
from lamina.capture.values.object_records import ObjectState, read_dict
from lamina.capture.values.open_containers import OpenContainer
from lamina.capture.values.outside import ContainerCopy, dict_base
from lamina.capture.values.walks import Walk


@dataclass(frozen=True, slots=True)
class ContainerWrite:
    """A list, dict, set or deque from outside gets the contents of its copy."""

    record: ContainerCopy


@dataclass(frozen=True, slots=True)
class AttributeWrite:
    """An attribute of an outside object is set, or deleted when `value` is MISSING."""

    source: Source
    name: str
    value: Value
    in_dict: bool


@dataclass(slots=True)
class SideEffects:
    """Everything to do to the outside after the graph has run."""

    containers: list[ContainerWrite] = field(default_factory=list)
    attributes: list[AttributeWrite] = field(default_factory=list)
    globals: list[tuple[dict[str, Value], str, Value]] = field(default_factory=list)
    cells: list[tuple[types.CellType, Value]] = field(default_factory=list)
    calls: list[tuple[Any, tuple[Value, ...], dict[str, Value]]] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    walks: list[Walk] = field(default_factory=list)
    open_containers: list[OpenContainer] = field(default_factory=list)

    @property
    def count(self) -> int:
        groups = (
            self.containers,
            self.attributes,
            self.globals,
            self.cells,
            self.calls,
            self.open_containers,
        )
        return sum(len(group) for group in groups) + len(self.switches) + len(self.walks)


def is_changed(record: ContainerCopy) -> bool:
    """Whether the program changed its copy of a container."""
    copy, first = record.copy, record.first
    if isinstance(copy, dict):
        now, then = list(dict_base(copy).items(copy)), list(first.items())
        return len(now) != len(then) or any(
            a is not c or b is not d for (a, b), (c, d) in zip(now, then, strict=True)
        )
    if isinstance(copy, (set, frozenset)):
        return bool(copy != first)
    items = list(list.__iter__(copy)) if isinstance(copy, list) else list(copy)
    return len(items) != len(first) or any(a is not b for a, b in zip(items, first, strict=True))


def changed_attributes(state: ObjectState) -> list[AttributeWrite]:
    """Attributes of an outside object that the program set or deleted."""
    has_dict = read_dict(state.owner) is not None
    writes = []
    for name, value in state.known.items():
        if name in state.read and state.read[name] is value:
            continue
        in_dict = has_dict and not isinstance(
            getattr(type(state.owner), name, None), types.MemberDescriptorType
        )
        writes.append(AttributeWrite(state.source, name, value, in_dict))
    for name, value in state.read.items():
        if name not in state.known and value is not MISSING:
            writes.append(AttributeWrite(state.source, name, MISSING, has_dict))
    return writes


def collect_side_effects(world: Any) -> SideEffects:
    """All changes of one trace."""
    effects = SideEffects(calls=list(world.effects))
    for record in world.importer.copies.values():
        if is_changed(record):
            effects.containers.append(ContainerWrite(record))
    effects.open_containers = [
        each for each in world.importer.open_containers.known.values() if each.is_changed
    ]
    for state in world.importer.states.values():
        effects.attributes += changed_attributes(state)
    for tensor in world.dropped_gradients.values():
        effects.attributes.append(AttributeWrite(tensor.source, "grad", None, in_dict=False))
    for entries, names in world.globals_written.values():
        effects.globals += [(entries, name, value) for name, value in names.items()]
    effects.cells = list(world.cell_writes.values())
    walked = [walk for walk in world.importer.walks.started.values() if walk.steps]
    effects.walks = [walk for walk in walked if not walk.applies]
    for walk in walked:
        copies = [world.importer.copy_ids.get(id(each)) for each in walk.over]
        if any(record is not None and is_changed(record) for record in copies):
            stop("iterator-argument", "what an iterator from outside walks over is changed")
    return effects
