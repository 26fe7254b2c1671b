"""A dictionary of global names as a value: `globals()`, a module's `__dict__`, a function's `__globals__`."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop


class Namespace:
    """Behaves as the dict it stands for; what is read and written name by name is a global."""

    __slots__ = ("entries", "world")
    __machine_native__ = True

    def __init__(self, world: Any, entries: dict[str, Any]) -> None:
        self.world = world
        self.entries = entries

    def get(self, name: str, default: Value = None) -> Value:
        value = self.world.read_name(self.entries, name)
        return default if value is MISSING else value

    def __getitem__(self, name: str) -> Value:
        value = self.world.read_name(self.entries, name)
        if value is MISSING:
            raise KeyError(name)
        return value

    def __contains__(self, name: str) -> bool:
        return self.world.read_name(self.entries, name) is not MISSING

    def __setitem__(self, name: str, value: Value) -> None:
        if type(name) is not str:
            self._stop("a key that is no name")
        self.world.write_name(self.entries, name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        self.world.write_name(self.entries, name, UNBOUND)

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

    def __iter__(self) -> Any:
        self._stop("iteration")

    def __len__(self) -> Any:
        self._stop("its length")

    def __eq__(self, other: object) -> Any:
        return self is other or self._stop("a comparison")

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        self._stop(name)

    def _stop(self, use: str) -> Any:
        stop("globals", f"the globals of {self.entries.get('__name__')} are used as a whole ({use})")
