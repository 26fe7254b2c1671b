"""Marks and messages that the machine's parts pass among themselves."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from lamina.errors import Unsupported

Value = Any
"""Whatever a Python program can hold; the machine runs on real objects, traced tensors are `TensorValue`s."""


class Mark:
    """A unique, printable sentinel."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


NULL: Final = Mark("NULL")
"""The empty slot that calls leave under a callable that is not a method."""
UNBOUND: Final = Mark("UNBOUND")
"""A local without a value."""
MISSING: Final = Mark("MISSING")
"""The answer of a look-up that found nothing."""

RETURNED: Final = 1
YIELDED: Final = 2


class TracingStopped(BaseException):
    """Carries an `Unsupported` through traced code; not an Exception: no traced handler swallows it."""

    def __init__(self, error: Unsupported) -> None:
        super().__init__(error.message)
        self.error = error


class TracingFailed(TracingStopped):
    """A failure of our own while a program was traced: no error of the program, and no break.

    failure: what was raised.
    """

    def __init__(self, failure: BaseException) -> None:
        super().__init__(Unsupported("failure", f"{type(failure).__name__}: {failure}"))
        self.failure = failure


class TracingPaused(BaseException):
    """The root frame has reached the instruction at which its capture is to end."""


def stop(code: str, message: str, hint: str = "") -> NoReturn:
    """Give up tracing; the machine adds the user's source line on the way out."""
    raise TracingStopped(Unsupported(code, message, None, hint))
