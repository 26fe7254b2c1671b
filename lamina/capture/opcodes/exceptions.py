"""Raising, handling, `with` and assertions."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.values.attributes import find_in_type


def make_raised(machine: Any, value: Value) -> BaseException:
    """The exception that `raise value` raises."""
    if isinstance(value, type) and issubclass(value, BaseException):
        made = machine.world.call(value, (), {})
        if not isinstance(made, BaseException):
            raise TypeError(f"calling {value!r} should have returned an instance of BaseException")
        return made
    if isinstance(value, BaseException):
        return value
    raise TypeError("exceptions must derive from BaseException")


def raise_varargs(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if instruction.arg == 0:
        handled = machine.handled_exception()
        if handled is None:
            raise RuntimeError("No active exception to reraise")
        machine.world.check_raised(handled)
        raise handled
    cause = frame.stack.pop() if instruction.arg == 2 else MISSING
    error = make_raised(machine, frame.stack.pop())
    machine.world.check_raised(error)
    if cause is not MISSING:
        if cause is not None and not isinstance(cause, (type, BaseException)):
            raise TypeError("exception causes must derive from BaseException")
        error.__cause__ = None if cause is None else make_raised(machine, cause)
    raise error


def push_exc_info(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    error = frame.stack.pop()
    frame.stack += (frame.handled, error)
    frame.handled = error
    return None


def pop_except(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.handled = frame.stack.pop()
    return None


def check_exc_match(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    kinds = frame.stack.pop()
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    frame.stack.append(isinstance(frame.stack[-1], kinds))
    return None


def reraise(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    error = frame.stack.pop()
    machine.world.check_raised(error)
    raise error


def load_assertion_error(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(AssertionError)
    return None


def before_with(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    manager = frame.stack.pop()
    kind = type(manager)
    for name in ("__enter__", "__exit__"):
        if find_in_type(kind, name) is MISSING:
            hint = " (missed __exit__ method)" if name == "__exit__" else ""
            raise TypeError(f"{kind.__name__!r} object does not support the context manager protocol{hint}")
    world = machine.world
    leave = world.load_attribute(manager, "__exit__")
    enter = world.load_attribute(manager, "__enter__")
    frame.stack.append(leave)
    frame.stack.append(world.call(enter, (), {}))
    return None


def with_except_start(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    error = frame.stack[-1]
    leave = frame.stack[-4]
    arguments = (type(error), error, error.__traceback__)
    frame.stack.append(machine.world.call(leave, arguments, {}))
    return None


def check_eg_match(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    stop("exception-groups", "except* is not modelled")


HANDLERS: dict[str, Handler] = {
    "RAISE_VARARGS": raise_varargs,
    "PUSH_EXC_INFO": push_exc_info,
    "POP_EXCEPT": pop_except,
    "CHECK_EXC_MATCH": check_exc_match,
    "CHECK_EG_MATCH": check_eg_match,
    "PREP_RERAISE_STAR": check_eg_match,
    "RERAISE": reraise,
    "LOAD_ASSERTION_ERROR": load_assertion_error,
    "BEFORE_WITH": before_with,
    "WITH_EXCEPT_START": with_except_start,
}
