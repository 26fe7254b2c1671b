"""`obj.__dict__` of an object from outside: reads are guarded name by name, writes are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina.capture.machine.signals import MISSING, Value


class AttributeView:
    """Behaves as the dict it stands for; listing its names reads all of them."""

    __slots__ = ("importer", "state")
    __machine_native__ = True

    def __init__(self, importer: Any, state: Any) -> None:
        self.importer = importer
        self.state = state

    def _all(self) -> dict[str, Value]:
        known: dict[str, Value] = self.importer.complete(self.state)
        return known

    def get(self, name: str, default: Value = None) -> Value:
        value = self.importer.read_attribute(self.state, name)
        return default if value is MISSING else value

    def __getitem__(self, name: str) -> Value:
        value = self.importer.read_attribute(self.state, name)
        if value is MISSING:
            raise KeyError(name)
        return value

    def __contains__(self, name: str) -> bool:
        return self.importer.read_attribute(self.state, name) is not MISSING

    def __setitem__(self, name: str, value: Value) -> None:
        self.state.known[name] = value

    def __delitem__(self, name: str) -> None:
        self[name]
        self.importer.erase_attribute(self.state, name)

    def pop(self, name: str, *default: Value) -> Value:
        if default and name not in self:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def setdefault(self, name: str, default: Value = None) -> Value:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others: Any, **named: Value) -> None:
        for name, value in dict(*others, **named).items():
            self[name] = value

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
