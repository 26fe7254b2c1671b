"""What `sys._getframe()` gives: a read-only face of a frame of the machine."""

from __future__ import annotations

import types
from collections.abc import Callable

from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import Value, stop


class FrameView:
    """A frame as the program sees it."""

    __slots__ = ("_frame", "_load_cell")
    __machine_native__ = True

    def __init__(self, frame: Frame, load_cell: Callable[[types.CellType], Value]) -> None:
        self._frame = frame
        self._load_cell = load_cell

    @property
    def f_globals(self) -> dict[str, Value]:
        return self._frame.global_names

    @property
    def f_builtins(self) -> dict[str, Value]:
        return self._frame.builtins

    @property
    def f_locals(self) -> dict[str, Value]:
        return self._frame.read_locals(self._load_cell) if self._frame.names is None else self._frame.names

    @property
    def f_code(self) -> types.CodeType:
        return self._frame.code

    @property
    def f_lineno(self) -> int:
        return self._frame.line

    @property
    def f_back(self) -> FrameView:
        return view_frame(self._frame, 1, self._load_cell)


def view_frame(frame: Frame, depth: int, load_cell: Callable[[types.CellType], Value]) -> FrameView:
    """The frame `depth` calls above. What called the machine is not known to it."""
    found: Frame | None = frame
    for _ in range(depth):
        found = None if found is None else found.back
    if found is None:
        stop("caller-frame", "the frame that called the program is looked at")
    return FrameView(found, load_cell)
