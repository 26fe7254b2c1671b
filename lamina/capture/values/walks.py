"""Native iterators from outside that a trace walks from where they stand, over copies of what they walk over.

    for x in xs:         paused at a break in round 3, the frame holds the iterator of xs
        ...              the rest of the loop is traced on an iterator over the copy of xs; `finish` then
                         advances the real one, which others may hold, as often

Where the walk does not come to its end in one trace, the iterator is better left alone: each round takes one
break and all rounds share their graphs. Only iterators whose state is known exactly are walked. To advance a
`map` or `filter` would call its function once more: it has no state of its own, and what it takes from is
advanced instead.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from lamina.capture.generated import Writer
from lamina.capture.machine.origins import call_natively
from lamina.capture.sources import Source
from lamina.capture.values.iterator_states import KNOWN, read_state, remake

MOST_WALKED = 4
"""Captures of one place that walk an iterator, each from another position, before it is left alone."""
SEQUENCE_ITERATORS: tuple[type, ...] = (
    type(iter([])),
    type(iter(())),
    type(iter(range(0))),
    type(iter("")),
    type(reversed([])),
)
"""Iterators over sequences: what they walk over, and a position that can be set."""
DICT_ITERATORS: dict[type, str] = {
    type(iter({})): "keys",
    type(iter({}.values())): "values",
    type(iter({}.items())): "items",
}
"""Iterators over dicts, and the method that makes each."""
APPLYING: tuple[type, ...] = (map, filter)
"""Iterators that call a function on what they take from others."""
JOINING: tuple[type, ...] = (enumerate, zip)
"""Iterators that take from others and run no code of the program's."""


def list_held(iterator: Any) -> list[Any]:
    """What an iterator of itertools holds, in the order in which CPython's collector meets it."""
    return [each for each in gc.get_referents(iterator) if each is not type(iterator)]


def is_order_known() -> bool:
    """Whether that is what it takes from, and then a function, or what a chain is at."""
    inner = iter([0])
    chain = itertools.chain(inner, inner)
    next(chain)
    kinds: tuple[Any, ...] = (itertools.starmap, itertools.filterfalse)
    return list_held(chain)[1:] == [inner] and all(
        list_held(kind(len, inner)) == [inner, len] for kind in kinds
    )


HELD: tuple[type, ...] = ()
"""Iterators whose state is what they hold."""
if is_order_known():
    HELD = (itertools.chain, itertools.starmap, itertools.filterfalse)
    APPLYING += HELD[1:]
    JOINING += HELD[:1]
CONTAINERS = (list, tuple, range, str)
"""What a chain may come to."""


@dataclass(frozen=True, slots=True)
class Part(Source):
    """What an iterator walks over: a sequence, a dict, or other iterators."""

    base: Source
    index: int

    @property
    def is_fixed(self) -> bool:
        return False

    def expression(self, writer: Writer) -> str:
        parts = writer.read(f"{writer.constant(read_parts)}({self.base.expression(writer)})")
        return writer.read(f"{parts}[{self.index}]")

    def describe(self) -> str:
        return f"what {self.base.describe()} walks over"

    @property
    def key(self) -> Any:
        return ("part", self.base.key, self.index)


def read_parts(iterator: Any) -> tuple[Any, ...]:
    """What an iterator walks over; of an exhausted one, something empty."""
    if type(iterator) in DICT_ITERATORS:
        return (find_dict(iterator),)
    return take_apart(iterator)[0]


def read_position(iterator: Any) -> Any:
    """Where an iterator stands, apart from what it walks over."""
    if type(iterator) in DICT_ITERATORS:
        return len(find_dict(iterator)) - iterator.__length_hint__()
    return take_apart(iterator)[1]


def take_apart(iterator: Any) -> tuple[tuple[Any, ...], Any]:
    """What an iterator walks over, and where it stands."""
    kind = type(iterator)
    if kind in KNOWN:
        found = read_state(iterator)
        return ((), None) if found is None else ((*found.iterators, *found.values), found.position)
    if kind in HELD:
        held = list_held(iterator)
        if kind is not itertools.chain:
            return (held[1], held[0]), ()
        waiting, *active = held or ((),)
        return (*active, *list_waiting(waiting)), None
    _, arguments, *state = iterator.__reduce__()
    if kind is enumerate:
        return arguments[:1], arguments[1]
    return arguments, tuple(state)


def list_waiting(iterator: Any) -> tuple[Any, ...]:
    """What a chain has not come to yet, if it was given one by one; else the iterator that gives it."""
    if type(iterator) is not type(iter(())):
        return () if iterator == () else (Waiting(iterator),)
    reduced: Any = iterator.__reduce__()
    _, (given,), *position = reduced
    return tuple(given[position[0] if position else 0 :])


@dataclass(frozen=True, slots=True)
class Waiting:
    """Iterables that a chain asks for when it comes to them, and what else is not to be looked into."""

    iterator: Any


def describe_iterator(iterator: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """A callable and arguments that make an iterator like this one, and the state to set it to, or None.

    One of the arguments is a `Waiting` where it cannot be made.
    """
    kind = type(iterator)
    if kind in KNOWN:
        state = read_state(iterator)
        if state is None:
            return kind, (Waiting(iterator),), None
        return remake, (kind, state.iterators, state.values, state.position), None
    if kind in HELD:
        return kind, read_parts(iterator), None
    maker, arguments, *states = iterator.__reduce__()
    return maker, arguments, states[0] if states else None


def find_dict(iterator: Any) -> dict[Any, Any]:
    """The dict that an iterator walks over; an empty one when it has let go of it."""
    return next((each for each in gc.get_referents(iterator) if isinstance(each, dict)), {})


def advance(iterator: Iterator[Any], steps: int) -> None:
    """Ask an iterator so many times."""
    for _ in range(steps):
        next(iterator, None)


@dataclass(slots=True)
class Walk:
    """One iterator of the program. source: the real one; over: copies of what it walks over."""

    inner: Iterator[Any]
    source: Source
    over: list[Any]
    applies: bool
    """Whether what it takes from is advanced in its place."""
    steps: int = 0

    def __next__(self) -> Any:
        self.steps += 1
        return call_natively(next, self.inner)


@dataclass(slots=True)
class Walks:
    """The walks of one trace. alone: keys of iterators that are not to be walked."""

    importer: Any
    alone: frozenset[Any] = frozenset()
    started: dict[int, Walk] = field(default_factory=dict)
    """By the identity of the real iterator."""
    inside: set[int] = field(default_factory=set)
    """Iterators that another one advances."""

    def start(self, value: Any, source: Source) -> Walk | None:
        """A walk of an iterator from where it stands; None where there cannot be one."""
        history = self.importer.world.history
        is_varied = history is not None and history.walked.get(source.key, 0) >= MOST_WALKED
        if is_varied or source.key in self.alone or id(value) in self.inside:
            return None
        over: list[Any] = []
        inner = self._copy(value, source, over)
        if inner is None:
            return None
        walk = self.started[id(value)] = Walk(inner, source, over, type(value) in APPLYING)
        return walk

    def walked(self) -> frozenset[Any]:
        """Keys of the iterators that were advanced."""
        return frozenset(walk.source.key for walk in self.started.values() if walk.steps)

    def remember(self) -> None:
        """The capture is made: a further one at this place will find the iterators at other positions."""
        history = self.importer.world.history
        for key in self.walked() if history is not None else ():
            history.walked[key] = history.walked.get(key, 0) + 1

    def _copy(self, value: Any, source: Source, over: list[Any]) -> Iterator[Any] | None:
        kind = type(value)
        if kind in APPLYING:
            return self._copy_applied(value, source)
        if kind in JOINING:
            return self._copy_joined(value, source, over)
        if kind in KNOWN:
            return self._copy_known(value, source, over)
        if kind not in SEQUENCE_ITERATORS and kind not in DICT_ITERATORS:
            return None
        position = read_position(value)
        self._guard_position(source, position)
        (real,) = read_parts(value)
        brought = self.importer.open_containers.bring_whole(real, Part(source, 0))
        if type(brought) is not type(real):
            return None
        over.append(brought)
        if kind in DICT_ITERATORS:
            made: Iterator[Any] = iter(getattr(brought, DICT_ITERATORS[kind])())
            advance(made, position)
            return made
        walked: Any = value.__reduce__()[0](brought)
        if position and position[0] is not None:
            walked.__setstate__(position[0])
        return cast(Iterator[Any], walked)

    def _copy_applied(self, value: Any, source: Source) -> Iterator[Any]:
        """The function in the machine, over iterators that are walked by themselves."""
        parts = read_parts(value)
        self._guard_count(source, len(parts))
        brought = [self.importer.bring(each, Part(source, index)) for index, each in enumerate(parts)]
        made: Iterator[Any] = self.importer.world.call(type(value), tuple(brought), {})
        return made

    def _copy_joined(self, value: Any, source: Source, over: list[Any]) -> Iterator[Any] | None:
        self.importer.guards.kind(source, type(value))
        position = read_position(value)
        self._guard_position(source, position)
        parts = read_parts(value)
        self._guard_count(source, len(parts))
        inner = []
        for index, each in enumerate(parts):
            copied = self._copy_part(each, Part(source, index), over)
            if copied is None:
                return None
            inner.append(copied)
        if type(value) is enumerate:
            return enumerate(inner[0], position)
        if type(value) is itertools.chain:
            return itertools.chain(*inner)
        return zip(*inner, strict=bool(position))

    def _copy_known(self, value: Any, source: Source, over: list[Any]) -> Iterator[Any] | None:
        """One of itertools' iterators, over copies of what it takes from and of what it holds."""
        state = read_state(value)
        if state is None:
            return None
        self.importer.guards.kind(source, type(value))
        self._guard_position(source, state.position)
        self._guard_count(source, len(state.iterators) + len(state.values))
        inner = []
        for index, each in enumerate(state.iterators):
            copied = self._copy_part(each, Part(source, index), over)
            if copied is None:
                return None
            inner.append(copied)
        held = enumerate(state.values, len(inner))
        values = [self.importer.bring(each, Part(source, index)) for index, each in held]
        return remake(type(value), tuple(inner), tuple(values), state.position)

    def _copy_part(self, each: Any, part: Source, over: list[Any]) -> Any:
        """What an iterator takes from: another one, or a container that a chain has not come to."""
        if id(each) in self.importer.opaque or id(each) in self.inside:
            return None
        if type(each) in CONTAINERS:
            brought = self.importer.open_containers.bring_whole(each, part)
            over.append(brought)
            return brought
        self.importer.guards.kind(part, type(each))
        self.inside.add(id(each))
        return None if type(each) in APPLYING else self._copy(each, part, over)

    def _guard_count(self, source: Source, count: int) -> None:
        self.importer.guards.on_value(source, "parts", f"over {count}", partial(write_count, count))

    def _guard_position(self, source: Source, position: Any) -> None:
        self.importer.guards.on_value(
            source, "position", f"at {position!r}", partial(write_position, position)
        )


def write_count(count: int, writer: Writer, name: str) -> str:
    return f"len({writer.constant(read_parts)}({name})) == {count}"


def write_position(position: Any, writer: Writer, name: str) -> str:
    return f"{writer.constant(read_position)}({name}) == {writer.constant(position)}"
