"""Raising, handling, `with` and assertions."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.code import Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.values.attributes import find_in_type, load_special


def make_raised(machine: Any, value: Value) -> BaseException:
    """The exception that `raise value` raises."""
    if isinstance(value, type) and issubclass(value, BaseException):
        made = machine.world.call(value, (), {})
        if not isinstance(made, BaseException):
            text, kind = machine.world.to_repr(value), machine.world.to_repr(type(made))
            raise TypeError(f"calling {text} should have returned an instance of BaseException, not {kind}")
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
        machine.settle(handled, passes_frame=False)
        raise handled
    cause = frame.stack.pop() if instruction.arg == 2 else MISSING
    error = make_raised(machine, frame.stack.pop())
    machine.world.check_raised(error)
    if cause is not MISSING:
        if cause is not None and not isinstance(cause, (type, BaseException)):
            raise TypeError("exception causes must derive from BaseException")
        error.__cause__ = None if cause is None else make_raised(machine, cause)
    machine.set_context(error, is_raised=True)
    machine.settle(error)
    raise error


def push_exc_info(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    error = frame.stack.pop()
    frame.stack += (frame.handled, error)
    machine.settled = None
    frame.handled = error
    return None


def pop_except(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.handled = frame.stack.pop()
    machine.settled = None
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
    machine.settle(error, passes_frame=False)
    raise error


def load_assertion_error(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack.append(AssertionError)
    return None


def before_with(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    return enter_with(machine, frame, "__enter__", "__exit__", "context manager")


def enter_with(machine: Any, frame: Frame, entering: str, leaving: str, protocol: str) -> int | None:
    """Leave the bound method that ends the `with` statement and what entering gave on the stack."""
    manager = frame.stack.pop()
    kind = type(manager)
    for name in (entering, leaving):
        if find_in_type(kind, name) is MISSING:
            hint = f" (missed {leaving} method)" if name == leaving else ""
            raise TypeError(f"{kind.__name__!r} object does not support the {protocol} protocol{hint}")
    world = machine.world
    enter = load_special(world, manager, entering)
    leave = load_special(world, manager, leaving)
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
    kinds = frame.stack.pop()
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        if issubclass(kind, BaseExceptionGroup):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    matched, rest = split_group(machine, frame.stack[-1], kinds)
    if matched is not None:
        frame.stack[-1] = rest
        frame.handled = matched
    frame.stack.append(matched)
    return None


def split_group(machine: Any, error: Value, kinds: Value) -> tuple[Value, Value]:
    """The parts of an exception, or of a group, that an `except*` clause takes and leaves."""
    if error is None:
        return None, None
    if isinstance(error, kinds):
        if isinstance(error, BaseExceptionGroup):
            return error, None
        group = BaseExceptionGroup("", (error,))
        group.__traceback__ = error.__traceback__
        return group, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    parts = machine.world.call(machine.world.load_attribute(error, "split"), (kinds,), {})
    if not isinstance(parts, tuple):
        kind = type(error).__name__
        raise TypeError(f"{kind}.split must return a tuple, not {type(parts).__name__}")
    if len(parts) < 2:
        kind = type(error).__name__
        raise TypeError(f"{kind}.split must return a 2-tuple, got tuple of size {len(parts)}")
    return parts[0], parts[1]


def join_raised(caught: BaseException, errors: list[Value]) -> Value:
    """What is raised behind the `except*` clauses: what they raised, and what nobody took."""
    given = [error for error in errors if error is not None]
    if not isinstance(caught, BaseExceptionGroup) or not given:
        return given[0] if given else None
    again = [error for error in given if is_part(error, caught)]
    raised = [error for error in given if not is_part(error, caught)]
    leaves = {id(leaf) for error in again for leaf in list_leaves(error)}
    kept = caught.subgroup(lambda error: id(error) in leaves) if leaves else None
    if not raised:
        return kept
    if len(raised) == 1 and kept is None:
        return raised[0]
    return BaseExceptionGroup("", raised if kept is None else [*raised, kept])


def is_part(error: BaseException, whole: BaseException) -> bool:
    """Whether `error` was split from `whole` and only raised again."""
    if not isinstance(error, BaseExceptionGroup):
        return False
    names = ("__notes__", "__traceback__", "__cause__", "__context__")
    return all(getattr(error, name, None) is getattr(whole, name, None) for name in names)


def list_leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for part in error.exceptions for leaf in list_leaves(part)]


def prepare_reraise(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    errors = frame.stack.pop()
    frame.stack[-1] = join_raised(frame.stack[-1], errors)
    return None


def call_intrinsic_2(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if instruction.arg != INTRINSIC_PREP_RERAISE_STAR:
        stop("bytecode", f"the intrinsic {instruction.arg} of two operands is not modelled")
    return prepare_reraise(machine, frame, instruction)


INTRINSIC_PREP_RERAISE_STAR = 1

HANDLERS: dict[str, Handler] = {
    "RAISE_VARARGS": raise_varargs,
    "PUSH_EXC_INFO": push_exc_info,
    "POP_EXCEPT": pop_except,
    "CHECK_EXC_MATCH": check_exc_match,
    "CHECK_EG_MATCH": check_eg_match,
    "PREP_RERAISE_STAR": prepare_reraise,
    "CALL_INTRINSIC_2": call_intrinsic_2,
    "RERAISE": reraise,
    "LOAD_ASSERTION_ERROR": load_assertion_error,
    "BEFORE_WITH": before_with,
    "WITH_EXCEPT_START": with_except_start,
}
