"""The three kinds of failure, each drawn at the user's source line: UserError, Unsupported, CompilerBug.

`UserError` is the caller's to fix and says what is allowed. `Unsupported` is a known limit of ours and says
what to do instead; under `lamina.compile` it becomes an eager call and a remark. `CompilerBug` is ours and
names the folder that replays it.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's program; `column` counts from 1 and is 0 when unknown."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


Place = SourceLocation | tuple[str, int] | None
"""What the error classes take as a place: graph nodes carry plain (file, line) pairs."""


def draw_source(place: Place) -> list[str]:
    """The lines that show `place` in its file, or only its name where the file cannot be read."""
    if place is None:
        return []
    location = place if isinstance(place, SourceLocation) else SourceLocation(*place)
    lines = [f"  --> {location}"]
    text = linecache.getline(location.file, location.line).rstrip("\n")
    if not text.strip():
        return lines
    number = str(location.line)
    margin = " " * len(number)
    lines += [f" {margin} |", f" {number} | {text}"]
    # Without a column the whole statement is underlined; a tab counts as one sign, as in the line above.
    start = location.column - 1 if location.column else len(text) - len(text.lstrip())
    marks = "^" if location.column else "^" * (len(text) - start)
    lines.append(f" {margin} | {' ' * start}{marks}")
    return lines


class LaminaError(Exception):
    """Base of all of lamina's own errors.

    message: one sentence; location: where in the user's program; operation: the op concerned, as the IR
    prints it; hint: what to do next.
    """

    kind = "error"

    def __init__(self, message: str, *, location: Place = None, operation: str = "", hint: str = "") -> None:
        self.message = message
        self.location = location
        self.operation = operation
        self.hint = hint
        super().__init__(message)

    def notes(self) -> list[tuple[str, str]]:
        """The labelled lines under the drawing, empty ones left out."""
        return [(label, text) for label, text in (("op", self.operation), ("help", self.hint)) if text]

    def draw(self) -> str:
        """The whole message: what, where, which op, what to do next."""
        lines = [f"{self.kind}: {self.message}", *draw_source(self.location)]
        lines += [f"  = {label}: {text}" for label, text in self.notes()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.draw()

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions with keyword arguments do not pickle by themselves: an unpicklable one hangs a process
        # pool.
        return (_rebuild, (type(self), self.args, self.__dict__))


class UserError(LaminaError):
    """The caller's mistake: the message says what is wrong and the hint what is allowed."""

    kind = "user error"


class Unsupported(LaminaError):  # noqa: N818  (often only a remark, hence the name)
    """Something that lamina knows it cannot compile.

    code: a stable, kebab-case name of the limit, for counting and for documentation.
    """

    def __init__(
        self, code: str, message: str, location: Place = None, hint: str = "", *, operation: str = ""
    ) -> None:
        super().__init__(message, location=location, operation=operation, hint=hint)
        self.code = code

    @property
    def kind(self) -> str:  # type: ignore[override]  # the code is part of the heading
        return f"unsupported[{self.code}]"


class CompilerBug(LaminaError):  # noqa: N818
    """A failure inside lamina itself.

    stage: the pass or stage that failed; replay_folder: holds the IR before it, the options and the command
    that replays it.
    """

    kind = "compiler bug"

    def __init__(
        self,
        message: str,
        *,
        location: Place = None,
        operation: str = "",
        stage: str = "",
        replay_folder: str = "",
        replay_command: str = "",
    ) -> None:
        super().__init__(message, location=location, operation=operation)
        self.stage = stage
        self.replay_folder = replay_folder
        self.replay_command = replay_command

    def notes(self) -> list[tuple[str, str]]:
        own = (("stage", self.stage), ("replay folder", self.replay_folder), ("replay", self.replay_command))
        return super().notes() + [(label, text) for label, text in own if text]


def _rebuild(kind: type[LaminaError], args: tuple[Any, ...], state: dict[str, Any]) -> LaminaError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
