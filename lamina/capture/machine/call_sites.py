"""Calls made later, from frames that look like the program's: warnings and log records say who made them."""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

from lamina.capture.machine.frame import Frame
from lamina.capture.machine.origins import PACKAGE

GENERATED = "<lamina "

Step = Callable[[tuple[Any, ...], Any, tuple[Any, ...], dict[str, Any]], Any]

# One line, so that each of its instructions lies on the line that a copy of its code is said to begin at.
_STEP: Any = lambda steps, function, args, kwargs: steps[0](steps[1:], function, args, kwargs) if steps else function(*args, **kwargs)  # fmt: skip # noqa: E501, E731


def call_later(function: Any, frame: Frame | None) -> Any:
    """`function`, called as if from `frame`: file, line, name, globals, and so for the frames above it."""
    steps = []
    while frame is not None:
        steps.append(copy_step(frame))
        frame = frame.back
    return functools.partial(call_from, tuple(reversed(steps)), function)


def copy_step(frame: Frame) -> Step:
    code = _STEP.__code__.replace(
        co_filename=frame.code.co_filename,
        co_name=frame.code.co_name,
        co_qualname=frame.code.co_qualname,
        co_firstlineno=frame.line,
    )
    return types.FunctionType(code, frame.global_names)


def call_from(steps: tuple[Step, ...], function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `function` from the last of `steps`, which the one before it calls, and so on."""
    if function is warnings.warn:
        args, kwargs = reach_callers(len(steps), args, kwargs)
    return steps[0](steps[1:], function, args, kwargs) if steps else function(*args, **kwargs)


def reach_callers(
    depth: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a warning; a stack level beyond the program's frames passes over Lamina's own."""
    level = args[2] if len(args) > 2 else kwargs.get("stacklevel", 1)
    if level <= depth:
        return args, kwargs
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, GENERATED)):
        level += 1
        frame = frame.f_back
    if len(args) > 2:
        return (*args[:2], level, *args[3:]), kwargs
    return args, {**kwargs, "stacklevel": level}
