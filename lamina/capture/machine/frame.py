"""One activation of a code object: slots, value stack, position and the exception it is handling."""

from __future__ import annotations

import types

from lamina.capture.machine.code import DecodedCode
from lamina.capture.machine.signals import UNBOUND, Value


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
        "stack",
        "value",
    )

    def __init__(
        self, decoded: DecodedCode, function: types.FunctionType, names: dict[str, Value] | None = None
    ) -> None:
        self.decoded = decoded
        self.function = function
        self.global_names: dict[str, Value] = function.__globals__
        self.builtins: dict[str, Value] = function.__builtins__  # type: ignore[attr-defined]
        self.names = names
        self.position = 0
        self.slots: list[Value] = [UNBOUND] * len(decoded.slot_names)
        self.stack: list[Value] = []
        self.keyword_names: tuple[str, ...] = ()
        self.handled: BaseException | None = None
        self.value: Value = None
        self.back: Frame | None = None

    @property
    def code(self) -> types.CodeType:
        return self.decoded.code

    @property
    def line(self) -> int:
        """The source line of the instruction being run."""
        return self.decoded.instructions[max(self.position - 1, 0)].line

    def read_locals(self) -> dict[str, Value]:
        """What `locals()` gives: cells opened, unbound names left out."""
        found = {}
        for name, value in zip(self.decoded.slot_names, self.slots, strict=True):
            if isinstance(value, types.CellType) and name in self.code.co_cellvars + self.code.co_freevars:
                try:
                    value = value.cell_contents
                except ValueError:
                    continue
            if value is not UNBOUND:
                found[name] = value
        return found
