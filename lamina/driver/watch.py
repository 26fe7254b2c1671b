"""What is counted and timed while compiling: counters, seconds by stage, progress after a second."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lamina.driver.collector import paused_collector, tidy
from lamina.options import Options

if TYPE_CHECKING:
    from rich.status import Status

PATIENCE_SECONDS = 1.0
"""A compile that takes longer shows what it is doing."""


@dataclass(slots=True)
class Counters:
    """What happened since the last `lamina.reset()`.

    kernels, externs: of the programs made; kernel_compilations: kernels built by LLVM (equal ones once);
    cache_hits: programs and kernels found on disk; packed_bytes: of the copies of weights that the programs
    keep in the order that their products want.
    """

    graphs: int = 0
    recompiles: int = 0
    breaks: int = 0
    kernels: int = 0
    externs: int = 0
    kernel_compilations: int = 0
    cache_hits: int = 0
    packed_bytes: int = 0

    def as_dict(self) -> dict[str, int]:
        return dataclasses.asdict(self)

    def reset(self) -> None:
        for each in dataclasses.fields(self):
            setattr(self, each.name, 0)


counters = Counters()


@dataclass(slots=True)
class Watch:
    """Seconds by stage of one compile, and the line that shows the current stage."""

    show: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = "starting"
    _status: Status | None = None
    _timer: threading.Timer | None = None

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; the same name adds up."""
        self.current = name
        if self._status is not None:
            self._status.update(f"lamina: {name}")
        started = time.perf_counter()
        try:
            yield
        finally:
            tidy()
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def start(self) -> None:
        if not self.show or sys.stderr is None or not sys.stderr.isatty():
            return

        def begin() -> None:
            from rich.console import Console
            from rich.status import Status

            console = Console(stderr=True)
            self._status = Status(f"lamina: {self.current}", console=console)
            self._status.start()

        self._timer = threading.Timer(PATIENCE_SECONDS, begin)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._status is not None:
            self._status.stop()


@contextlib.contextmanager
def watch(options: Options) -> Iterator[Watch]:
    """A watch over one compile; shows progress on a terminal if the options want it."""
    watching = Watch(options.progress)
    watching.start()
    try:
        with paused_collector():
            yield watching
    finally:
        watching.stop()
