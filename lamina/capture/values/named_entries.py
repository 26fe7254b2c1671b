"""What stands for a dict from outside whose entries have names, each read and written by itself."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.signals import MISSING, Value


class NamedEntries:
    """Behaves as a dict as far as single names go; the rest is up to the class."""

    __slots__ = ()
    __machine_native__ = True

    def _read(self, name: str) -> Value:
        """What lies under a name, or MISSING."""
        raise NotImplementedError

    def _write(self, name: str, value: Value) -> None:
        raise NotImplementedError

    def _erase(self, name: str) -> None:
        """Delete a name that is there."""
        raise NotImplementedError

    def get(self, name: str, default: Value = None) -> Value:
        value = self._read(name)
        return default if value is MISSING else value

    def __getitem__(self, name: str) -> Value:
        value = self._read(name)
        if value is MISSING:
            raise KeyError(name)
        return value

    def __contains__(self, name: str) -> bool:
        return self._read(name) is not MISSING

    def __setitem__(self, name: str, value: Value) -> None:
        self._write(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        self._erase(name)

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
