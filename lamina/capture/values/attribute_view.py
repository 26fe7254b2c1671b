"""`obj.__dict__` of an object from outside: reads are guarded name by name, writes are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina.capture.machine.signals import Value
from lamina.capture.values.named_entries import NamedEntries


class AttributeView(NamedEntries):
    """Behaves as the dict it stands for; listing its names reads all of them."""

    __slots__ = ("importer", "state")
    __machine_native__ = True

    def __init__(self, importer: Any, state: Any) -> None:
        self.importer = importer
        self.state = state

    def _all(self) -> dict[str, Value]:
        known: dict[str, Value] = self.importer.complete(self.state)
        return known

    def _read(self, name: str) -> Value:
        return self.importer.read_attribute(self.state, name)

    def _write(self, name: str, value: Value) -> None:
        self.state.known[name] = value

    def _erase(self, name: str) -> None:
        self.importer.erase_attribute(self.state, name)

    def copy(self) -> dict[str, Value]:
        return dict(self._all())

    def keys(self) -> Any:
        return self._all().keys()

    def values(self) -> Any:
        return self._all().values()

    def items(self) -> Any:
        return self._all().items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    def __or__(self, other: dict[str, Value]) -> dict[str, Value]:
        return self._all() | other

    __hash__ = None  # type: ignore[assignment]
