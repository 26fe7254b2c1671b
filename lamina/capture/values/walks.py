"""Native iterators from outside that a trace walks from where they stand, over copies of what they walk over.

    for x in xs:         paused at a break in round 3, the frame holds the iterator of xs
        ...              the rest of the loop is traced on an iterator over the copy of xs; `finish` then
                         advances the real one, which others may hold, as often

Where the walk does not come to its end in one trace, the iterator is better left alone: each round takes one
break and all rounds share their graphs. Only iterators whose state is known exactly, and whose steps run no
code of the program's, are walked.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from lamina.capture.generated import Writer
from lamina.capture.sources import Source

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
    parts: tuple[Any, ...] = iterator.__reduce__()[1]
    return parts[:1] if type(iterator) is enumerate else parts


def read_position(iterator: Any) -> Any:
    """Where an iterator stands, apart from what it walks over."""
    kind = type(iterator)
    if kind in DICT_ITERATORS:
        return len(find_dict(iterator)) - iterator.__length_hint__()
    reduced = iterator.__reduce__()
    return reduced[1][1] if kind is enumerate else reduced[2:]


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
    steps: int = 0

    def __next__(self) -> Any:
        self.steps += 1
        return next(self.inner)


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
        walk = self.started[id(value)] = Walk(inner, source, over)
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
        if kind is enumerate or kind is zip:
            return self._copy_joined(value, source, over)
        if kind not in SEQUENCE_ITERATORS and kind not in DICT_ITERATORS:
            return None
        position = read_position(value)
        self._guard_position(source, position)
        (real,) = read_parts(value)
        brought = self.importer.bring(real, Part(source, 0))
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

    def _copy_joined(self, value: Any, source: Source, over: list[Any]) -> Iterator[Any] | None:
        self.importer.guards.kind(source, type(value))
        position = read_position(value)
        self._guard_position(source, position)
        inner = []
        for index, each in enumerate(read_parts(value)):
            if id(each) in self.importer.opaque or id(each) in self.inside:
                return None
            part = Part(source, index)
            self.importer.guards.kind(part, type(each))
            self.inside.add(id(each))
            copied = self._copy(each, part, over)
            if copied is None:
                return None
            inner.append(copied)
        if type(value) is enumerate:
            return enumerate(inner[0], position)
        return zip(*inner, strict=bool(position))

    def _guard_position(self, source: Source, position: Any) -> None:
        self.importer.guards.on_value(
            source, "position", f"at {position!r}", partial(write_position, position)
        )


def write_position(position: Any, writer: Writer, name: str) -> str:
    return f"{writer.constant(read_position)}({name}) == {writer.constant(position)}"
