"""Lists and dicts from outside whose length varied between captures: not copied, no guard on their length.

    for x in xs:                 each round finds `out` one longer
        y = program(x)           broken
        out.append(y)            noted; `finish` appends to the real list

What a program does to a container that grows is modelled: to append, to take the last item off, to look at
single items, to ask how long a list is, which is a number that varies. Any other use ends the capture, which
is made again with a copy, as of other containers.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from lamina.capture.generated import Writer
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.sources import Item, Source
from lamina.capture.values.opaque import OpaqueValue
from lamina.capture.values.sizes import NumberValue

KEYS: tuple[type, ...] = (int, str, bool, bytes, type(None))
"""Classes of constants that are looked up in open dicts."""


@dataclass(frozen=True, slots=True)
class Length(Source):
    """How many items a container has."""

    base: Source

    @property
    def is_fixed(self) -> bool:
        return self.base.is_fixed

    def expression(self, writer: Writer) -> str:
        return writer.read(f"len({self.base.expression(writer)})")

    def describe(self) -> str:
        return f"len({self.base.describe()})"

    @property
    def key(self) -> Any:
        return ("length", self.base.key)


class OpenContainer(OpaqueValue):
    """Stands for `original`. methods: what it has of the container's."""

    __slots__ = ("importer",)
    __machine_native__ = True
    methods: ClassVar[frozenset[str]]

    def __init__(self, importer: Any, original: Any, source: Source) -> None:
        super().__init__(original, source, importer.walks)
        self.importer = importer

    @property
    def is_changed(self) -> bool:
        raise NotImplementedError

    def list_writes(self, target: str, express: Callable[[Value], str]) -> list[str]:
        """Statements that do to the container `target` what the program did."""
        raise NotImplementedError

    def list_parts(self) -> tuple[Value, ...]:
        """Other objects for each other state."""
        raise NotImplementedError

    def end_capture(self) -> NoReturn:
        self.importer.open_containers.close(self.source)
        stop("outside", "a container whose length varies is used as a whole")

    def load(self, name: str) -> Callable[..., Value]:
        """A method of the container."""
        if name not in self.methods:
            self.end_capture()
        method: Callable[..., Value] = getattr(self, name)
        return method

    def holds_more_than(self, length: int) -> bool:
        """Whether the container outside does; guarded."""
        if len(self.original) <= length:
            return False
        expected = f"longer than {length}"
        self.importer.guards.on_value(
            self.source, expected, expected, lambda _, name: f"len({name}) > {length}"
        )
        return True


class OpenList(OpenContainer):
    """A list or deque: to the program the original without its last `popped` items, and then `tail`."""

    __slots__ = ("popped", "tail")
    __machine_native__ = True
    methods = frozenset({"append", "extend", "pop"})

    def __init__(self, importer: Any, original: Any, source: Source) -> None:
        super().__init__(importer, original, source)
        self.popped = 0
        self.tail: list[Value] = []

    @property
    def is_changed(self) -> bool:
        return bool(self.popped or self.tail)

    def list_writes(self, target: str, express: Callable[[Value], str]) -> list[str]:
        items = ", ".join(express(item) for item in self.tail)
        return [f"{target}.pop()"] * self.popped + [f"{target}.extend([{items}])"]

    def list_parts(self) -> tuple[Value, ...]:
        return (self.popped, *self.tail)

    def append(self, value: Value) -> None:
        self.tail.append(value)

    def extend(self, iterable: Value) -> None:
        self.tail.extend(self.importer.world.as_native_iterable(iterable))

    def __iadd__(self, iterable: Value) -> OpenList:
        self.extend(iterable)
        return self

    def pop(self, index: Value = -1) -> Value:
        if type(index) is not int or index != -1:
            self.end_capture()
        if self.tail:
            return self.tail.pop()
        value = self[-1]
        self.popped += 1
        return value

    def read_length(self) -> Value:
        """A number that varies."""
        length = self.importer.open_containers.bring_length(self.original, self.source)
        return length - self.popped + len(self.tail)

    def __bool__(self) -> bool:  # type: ignore[override]
        if self.tail or self.holds_more_than(self.popped):
            return True
        self.importer.guards.length(self.source, self.popped)
        return False

    def __getitem__(self, index: Value) -> Value:
        if type(index) is not int:
            self.end_capture()
        if -len(self.tail) <= index < 0:
            return self.tail[index]
        place = index if index >= 0 else index + len(self.tail) - self.popped
        if not self.holds_more_than(place + self.popped if place >= 0 else -place - 1):
            self.end_capture()
        return self.importer.bring(self.original[place], Item(self.source, place))


class OpenDict(OpenContainer):
    """A dict, with what the program has set in it since."""

    __slots__ = ("written",)
    __machine_native__ = True
    methods = frozenset({"get"})

    def __init__(self, importer: Any, original: Any, source: Source) -> None:
        super().__init__(importer, original, source)
        self.written: list[tuple[Value, Value]] = []

    @property
    def is_changed(self) -> bool:
        return bool(self.written)

    def list_writes(self, target: str, express: Callable[[Value], str]) -> list[str]:
        return [f"{target}[{express(key)}] = {express(value)}" for key, value in self.written]

    def list_parts(self) -> tuple[Value, ...]:
        return tuple(part for pair in self.written for part in pair)

    def __bool__(self) -> bool:  # type: ignore[override]
        if self.written or self.holds_more_than(0):
            return True
        self.importer.guards.length(self.source, 0)
        return False

    def __setitem__(self, key: Value, value: Value) -> None:  # type: ignore[override]
        if type(key) not in (*KEYS, NumberValue):
            self.end_capture()
        self.written.append((key, value))

    def get(self, key: Value, default: Value = None) -> Value:
        if any(type(each) not in KEYS for each in (key, *(known for known, _ in self.written))):
            self.end_capture()
        for known, value in reversed(self.written):
            if known == key:
                return value
        if key in self.original:
            self.importer.guard_present_key(self.source, key)
            return self.importer.bring(self.original[key], Item(self.source, key))
        self.importer.guard_absent_key(self.source, key)
        return default

    def __contains__(self, key: Value) -> bool:  # type: ignore[override]
        return self.get(key, MISSING) is not MISSING

    def __getitem__(self, key: Value) -> Value:
        found = self.get(key, MISSING)
        if found is MISSING:
            raise KeyError(key)
        return found


OPEN_KINDS: dict[type, type[OpenContainer]] = {list: OpenList, collections.deque: OpenList, dict: OpenDict}
"""What stands for containers of these very classes."""


class OpenContainers:
    """Those of one capture. known: by the identity of the real one."""

    def __init__(self, importer: Any) -> None:
        self.importer = importer
        self.known: dict[int, OpenContainer] = {}
        self.has_closed = False
        """Whether the capture ended where the program used one as a whole."""

    def open(self, value: Any, kind: type, source: Source) -> OpenContainer | None:
        """What stands for a container whose length varied; None where it is to be copied."""
        history = self.importer.world.history
        if kind not in OPEN_KINDS or history is None or getattr(value, "maxlen", None) is not None:
            return None
        if not history.is_open_container(len(value), source):
            return None
        made = self.known[id(value)] = OPEN_KINDS[kind](self.importer, value, source)
        return made

    def bring_whole(self, value: Value, source: Source) -> Value:
        """`value` as the program sees it, a container with its items."""
        brought = self.importer.bring(value, source)
        if isinstance(brought, OpenContainer):
            brought.end_capture()
        return brought

    def close(self, source: Source) -> None:
        """The container at `source` is to be brought in with its items, in the next capture."""
        self.importer.world.history.closed_containers.add(source.key)
        self.has_closed = True

    def bring_length(self, value: Any, source: Source) -> Value:
        """How many items a container has: a number that is known to vary."""
        place = Length(source)
        self.importer.world.history.varying_numbers.add((place.key, int))
        return self.importer.bring(len(value), place)
