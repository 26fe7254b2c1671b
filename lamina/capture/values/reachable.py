"""Whether a piece of a program leaves no trace: all that it can reach is as it was.

The program works on real objects: those made in the trace, and copies of containers from outside; what it
sets otherwise is in records. What a function and these records lead to is noted before the function runs in
the machine, and looked at again after.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Iterator
from typing import Any

import torch

from lamina.capture.machine.signals import Value, stop
from lamina.capture.side_effects import changed_attributes, is_changed
from lamina.capture.values.object_records import read_dict
from lamina.capture.values.outside import IMMUTABLE, dict_base, is_by_identity
from lamina.capture.values.sizes import NumberValue
from lamina.capture.values.subclasses import SubclassValue
from lamina.capture.values.tensor import TensorValue

LEAVES = frozenset({*IMMUTABLE, TensorValue, NumberValue})
SEQUENCES = (list, tuple, collections.deque)
SETS_GRAD = torch._C._set_grad_enabled


class Snapshot:
    """The state of what `roots` and the records of a trace lead to."""

    def __init__(self, world: Any, roots: Value) -> None:
        self.world = world
        self.records = list(self._list_records())
        self.copies = dict(world.importer.copies)
        self.steps = {key: walk.steps for key, walk in world.importer.walks.started.items()}
        self.modes = self._read_modes()
        self.switches = list(world.modes.switches)
        self.versions = {id(value): version_of(value) for value in self._list_tensors()}
        self.parts: dict[int, tuple[Value, tuple[Value, ...]]] = {}
        waiting = [roots, *(record.copy for record in self.copies.values())]
        waiting += [value for _, _, value in self.records]
        while waiting:
            value = waiting.pop()
            if type(value) not in LEAVES and id(value) not in self.parts:
                parts = tuple(self._list_parts(value))
                self.parts[id(value)] = (value, parts)
                waiting += parts

    def check(self) -> None:
        """Stop if anything has changed."""
        change = self._find_change()
        if change:
            stop(
                "control-flow",
                f"a function that becomes a graph of its own {change}",
                "let the function only compute what it gives back",
            )
        # The grad mode was switched on and off again.
        self.world.modes.switches[:] = self.switches

    def _find_change(self) -> str:
        importer = self.world.importer
        for value in self._list_tensors():
            before = self.versions.get(id(value))
            if value.is_mutated() if before is None else version_of(value) != before:
                return "writes to a tensor of its surroundings"
        if self._read_modes() != self.modes:
            return "leaves another mode than it found"
        if any(walk.steps != self.steps.get(key, 0) for key, walk in importer.walks.started.items()):
            return "advances an iterator of its surroundings"
        if any(
            key not in self.copies and is_changed(record) for key, record in importer.copies.items()
        ) or not are_same(flatten(self._list_records()), flatten(self.records)):
            return "changes something outside of the compiled function"
        for value, parts in self.parts.values():
            if not are_same(tuple(self._list_parts(value)), parts):
                return f"changes a {type(value).__qualname__} of its surroundings"
        return ""

    def _read_modes(self) -> tuple[Any, ...]:
        modes = self.world.modes
        lasting = [switch for switch in modes.switches if switch.function is not SETS_GRAD]
        return torch.is_grad_enabled(), list(modes.regions), lasting, self.world.interception_off

    def _list_tensors(self) -> list[TensorValue]:
        return [value for value in self.world.builder.list_values() if type(value) is TensorValue]

    def _list_records(self) -> Iterator[tuple[Any, Any, Value]]:
        """What the trace has noted to be done to the outside: owner, name, value."""
        world = self.world
        for effect in world.effects:
            yield None, None, effect
        for entries, names in world.globals_written.values():
            for name, value in names.items():
                yield entries, name, value
        for cell, value in world.cell_writes.values():
            yield cell, None, value
        for tensor in world.dropped_gradients.values():
            yield tensor, "grad", None
        for each in world.importer.open_containers.known.values():
            for part in each.list_parts():
                yield each, None, part
        for state in world.importer.states.values():
            for write in changed_attributes(state):
                yield state, write.name, write.value

    def _list_parts(self, value: Value) -> Iterator[Value]:
        """What an object of the program holds, in order; nothing of one from outside, which has a record."""
        world, kind = self.world, type(value)
        if (
            isinstance(value, torch.Tensor)
            or id(value) in world.importer.states
            or (is_by_identity(value) and not self._is_made_here(value))
        ):
            return
        if kind is types.CellType:
            yield from (world.load_cell(value),) if id(value) in world.cells else ()
        elif kind is types.MethodType:
            yield from (value.__func__, value.__self__)
        elif kind is functools.partial:
            yield from (value.func, value.args, value.keywords)
        elif kind is types.FunctionType:
            yield from (value.__closure__, value.__defaults__, value.__kwdefaults__)
            yield from value.__dict__.values()
        elif isinstance(value, type):
            yield from vars(value).values()
        else:
            if hasattr(kind, "__next__") or kind is bytearray or kind is SubclassValue:
                stop(
                    "control-flow", f"a function that becomes a graph of its own may change a {kind.__name__}"
                )
            if not hasattr(kind, "__machine_native__"):
                yield from list_items(value)
                yield from list_attributes(value)

    def _is_made_here(self, value: Value) -> bool:
        return id(value) in self.world.functions or id(value) in self.world.classes


def list_items(value: Value) -> Iterator[Value]:
    """What a container holds."""
    if isinstance(value, dict):
        for item in dict_base(value).items(value):
            yield from item
    elif isinstance(value, (set, frozenset)):
        yield from sorted(value, key=id)
    else:
        base: Any = next((each for each in SEQUENCES if isinstance(value, each)), None)
        yield from () if base is None else base.__iter__(value)


def list_attributes(value: Value) -> Iterator[Value]:
    """An object's own attributes, with those that lie in slots."""
    yield from list_items(read_dict(value))
    for base in type(value).__mro__:
        for name, raw in vars(base).items():
            if type(raw) is types.MemberDescriptorType:
                try:
                    yield raw.__get__(value)
                except AttributeError:
                    yield name


def flatten(records: Any) -> list[Any]:
    return [part for record in records for part in record]


def are_same(left: Any, right: Any) -> bool:
    """Whether two sequences hold the same objects."""
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def version_of(value: TensorValue) -> int:
    """Differs after each write to a tensor."""
    return -1 if value.fake.is_inference() else value.fake._version
