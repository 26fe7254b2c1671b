"""A dictionary of global names as a value: `globals()`, a module's `__dict__`, a function's `__globals__`."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.signals import UNBOUND, Value, stop
from lamina.capture.values.named_entries import NamedEntries


class Namespace(NamedEntries):
    """Behaves as the dict it stands for; what is read and written name by name is a global."""

    __slots__ = ("entries", "world")
    __machine_native__ = True

    def __init__(self, world: Any, entries: dict[str, Any]) -> None:
        self.world = world
        self.entries = entries

    def _read(self, name: str) -> Value:
        return self.world.read_name(self.entries, name)

    def _write(self, name: str, value: Value) -> None:
        if type(name) is not str:
            self._stop("a key that is no name")
        self.world.write_name(self.entries, name, value)

    def _erase(self, name: str) -> None:
        self.world.write_name(self.entries, name, UNBOUND)

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
