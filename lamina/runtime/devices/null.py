"""The device that runs nothing and records what it was asked to do: tests of programs need no hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: its name, the address of its table of pointers, the number of threads."""

    kernel: str
    table: int
    threads: int


@dataclass(slots=True)
class NullLibrary:
    """Takes the place of a loaded library: each function only appends to `launches`."""

    symbols: tuple[str, ...]
    launches: list[Launch] = field(default_factory=list)

    @staticmethod
    def of(symbols: Iterable[str]) -> NullLibrary:
        return NullLibrary(tuple(symbols))

    def function(self, name: str) -> Callable[[int, int], None]:
        """A kernel that records its launches; KeyError when the library has none of that name."""
        if name not in self.symbols:
            raise KeyError(name)

        def launch(table: int, threads: int) -> None:
            self.launches.append(Launch(name, table, threads))

        return launch
