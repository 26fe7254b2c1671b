"""Whose error it is: the program's, or a failure of the code that stands for the program.

Models raise what CPython's C code would raise, and call native code that raises by itself. Both are plain
Python exceptions, as a misspelt attribute in a model is. An error is the program's where its traceback ends

    in a `raise` statement of the machine, of a bytecode or of a model, or
    in `call_natively`, `call_with` or `step_natively`, which only run native code on the program's values

and ours everywhere else.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lamina.capture.machine.signals import TracingFailed, Value

PACKAGE = str(Path(__file__).parents[2])
"""Where the code of this package lies."""
MODELS = str(Path(__file__).parents[1] / "values")
SPEAKING = (*(str(Path(__file__).parents[1] / part) for part in ("machine", "opcodes")), MODELS)
"""Where a `raise` statement speaks for CPython, or passes on what the program raised."""
RAISES = tuple(dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE"))
NEVER_RAISED = (AssertionError, NotImplementedError)
"""What models raise about themselves."""
FROM_ANYWHERE = (RecursionError, MemoryError, Warning)
"""Errors of the process's state and the user's filters: they come where they come."""


def call_natively(function: Callable[..., Value], /, *arguments: Value, **keywords: Value) -> Value:
    """Call native code for the program: what it raises is the program's."""
    return function(*arguments, **keywords)


def call_with(
    function: Callable[..., Value], arguments: tuple[Value, ...], keywords: dict[str, Value]
) -> Value:
    """The same with arguments as they are: a function may give back the very tuple that it was given."""
    return function(*arguments, **keywords)


def step_natively(iterable: Iterable[Value]) -> Iterator[Value]:
    """Iterate natively for the program: what that raises is the program's."""
    # `yield from` would close what is iterated when this generator is closed.
    for item in iterable:  # noqa: UP028
        yield item


NATIVE = (call_natively.__code__, call_with.__code__, step_natively.__code__)


def check_origin(error: BaseException) -> None:
    """Raise TracingFailed if `error` is a failure of a model, not an error of the program."""
    if is_failure(error):
        raise TracingFailed(error) from error


def is_failure(error: BaseException) -> bool:
    """Whether neither the program nor native code that it called raised `error`."""
    if not isinstance(error, Exception) or isinstance(error, FROM_ANYWHERE):
        return False
    place = find_place(error)
    if place is None or place.tb_frame.f_code in NATIVE:
        return False
    code = place.tb_frame.f_code
    is_raised = code.co_code[place.tb_lasti] in RAISES and code.co_filename.startswith(SPEAKING)
    return not is_raised or (isinstance(error, NEVER_RAISED) and code.co_filename.startswith(MODELS))


def find_place(error: BaseException) -> types.TracebackType | None:
    """The innermost entry of the traceback that is in code of this package."""
    found, entry = None, error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename.startswith(PACKAGE):
            found = entry
        entry = entry.tb_next
    return found
