"""One activation of a code object: slots, value stack, position and the exception it is handling."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from lamina.capture.machine.code import DecodedCode
from lamina.capture.machine.signals import UNBOUND, Value

ONE_SNAPSHOT = sys.version_info < (3, 13)


class Frame:
    """Where a function stands. `slots` holds locals, cells and free variables in the interpreter's order."""

    __slots__ = (
        "back",
        "builtins",
        "decoded",
        "function",
        "global_names",
        "handled",
        "keyword_names",
        "names",
        "position",
        "slots",
        "snapshot",
        "stack",
        "value",
    )

    def __init__(
        self, decoded: DecodedCode, function: types.FunctionType, names: dict[str, Value] | None = None
    ) -> None:
        known: Any = function  # not every version of the type stubs knows of __builtins__
        self.decoded = decoded
        self.function = function
        self.global_names: dict[str, Value] = function.__globals__
        self.builtins: dict[str, Value] = known.__builtins__
        self.names = names
        self.position = 0
        self.slots: list[Value] = [UNBOUND] * len(decoded.slot_names)
        self.stack: list[Value] = []
        self.keyword_names: tuple[str, ...] = ()
        self.handled: BaseException | None = None
        self.value: Value = None
        self.back: Frame | None = None
        self.snapshot: dict[str, Value] = {}

    @property
    def code(self) -> types.CodeType:
        return self.decoded.code

    @property
    def line(self) -> int:
        """The source line of the instruction being run."""
        return self.decoded.instructions[max(self.position - 1, 0)].line

    def read_locals(self, load_cell: Callable[[types.CellType], Value]) -> dict[str, Value]:
        """What `locals()` gives: cells opened, unbound names left out."""
        # Until 3.12 a frame has one dictionary of its locals, brought up to date by each `locals()`.
        found = self.snapshot if ONE_SNAPSHOT else {}
        for name, value in zip(self.decoded.slot_names, self.slots, strict=True):
            if isinstance(value, types.CellType) and name in self.code.co_cellvars + self.code.co_freevars:
                value = load_cell(value)
            if value is UNBOUND:
                found.pop(name, None)
            else:
                found[name] = value
        return found
