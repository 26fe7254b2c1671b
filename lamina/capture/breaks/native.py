"""Runs a paused frame on real objects: one instruction, or the whole rest.

The same handlers as in tracing decide what an instruction does to the frame; what it does to objects is done
by Python itself. Exceptions find their handlers in the frame's own table.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from lamina.capture.breaks.call_frame import CallerNeeded, call_from
from lamina.capture.breaks.resume_point import ResumePoint, describe_frame
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.loop import Machine
from lamina.capture.machine.native_resume import make_native_resume, read_layout, read_values
from lamina.capture.machine.signals import RETURNED, Value
from lamina.capture.opcodes.table import HANDLERS
from lamina.capture.values.operators import BINARY, COMPARE, IN_PLACE
from lamina.capture.values.world import World
from lamina.errors import Unsupported

NATIVE_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{symbol: native for symbol, (native, *_) in BINARY.items()},
    **{symbol: native for symbol, (native, *_) in IN_PLACE.items()},
}
NATIVE_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    symbol: native for symbol, (native, *_) in COMPARE.items()
}
ABOUT_THE_CALLER = frozenset({super, locals, globals, vars, sys.exc_info, sys.exception})
"""Builtins that speak of the frame that calls them: the machine answers for its own frame."""
FRAME_READERS = frozenset(
    {dir, eval, exec, breakpoint, sys._getframe, inspect.currentframe, inspect.stack, inspect.trace}
)
"""Functions that look at the caller's frame, which a paused one does not have: no break is made there."""

FindCallee = Callable[[Value], Value]
"""Gives what to call in place of a callee: itself, or its compiled version."""


class NativeWorld(World):
    """Every operation is Python's own; what is called is what `find_callee` gives."""

    def __init__(self, find_callee: FindCallee) -> None:
        self.find_callee = find_callee

    def check_origin(self, error: BaseException) -> None:
        """All that is done is the program's."""

    def load_attribute(self, owner: Value, name: str) -> Value:
        return getattr(owner, name)

    def store_attribute(self, owner: Value, name: str, value: Value) -> None:
        setattr(owner, name, value)

    def delete_attribute(self, owner: Value, name: str) -> None:
        delattr(owner, name)

    def binary(self, symbol: str, left: Value, right: Value) -> Value:
        return NATIVE_OPERATORS[symbol](left, right)

    def compare(self, symbol: str, left: Value, right: Value) -> Value:
        return NATIVE_COMPARISONS[symbol](left, right)

    def contains(self, container: Value, item: Value) -> bool:
        return item in container

    def truth(self, value: Value) -> bool:
        return bool(value)

    def get_item(self, container: Value, key: Value) -> Value:
        return container[key]

    def set_item(self, container: Value, key: Value, value: Value) -> None:
        container[key] = value

    def delete_item(self, container: Value, key: Value) -> None:
        del container[key]

    def iterate(self, iterable: Value) -> Value:
        return iter(iterable)

    def advance(self, iterator: Value) -> Value:
        return next(iterator)

    def to_text(self, value: Value) -> str:
        return str(value)

    def to_repr(self, value: Value) -> str:
        return repr(value)

    def format_value(self, value: Value, specification: str) -> str:
        return format(value, specification)

    def call(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        if is_one_of(callee, ABOUT_THE_CALLER):
            return super().call(callee, arguments, keywords)
        frame = self.machine.frame
        assert frame is not None
        try:
            return call_from(frame, self.find_callee(callee), arguments, keywords)
        except CallerNeeded:
            return call_from(frame, callee, arguments, keywords)


def is_one_of(callee: Value, known: frozenset[Any]) -> bool:
    """By identity: objects of the user's have an equality of their own."""
    return any(callee is each for each in known)


def reads_caller_frame(frame: Frame) -> bool:
    """Whether the next instruction of `frame` calls something that looks at the frame it is called from."""
    instruction = frame.decoded.instructions[frame.position]
    if not instruction.name.startswith("CALL"):
        return False
    depth = instruction.arg + 3 if instruction.name in ("CALL", "CALL_KW") else 4
    return any(is_one_of(value, FRAME_READERS) for value in frame.stack[-depth:] if callable(value))


def step(
    point: ResumePoint, values: tuple[Value, ...], find_callee: FindCallee
) -> tuple[ResumePoint | None, Any]:
    """Run one instruction. Gives the next point and its values, or None and the value the frame returned."""
    frame, machine = prepare(point, values, find_callee)
    instruction = frame.decoded.instructions[frame.position]
    frame.position += 1
    outcome = None
    try:
        outcome = under_handled_exception(
            frame.handled, lambda: instruction.handler(machine, frame, instruction)
        )
    except BaseException as error:
        unwind_or_raise(machine, frame, error)
    if outcome == RETURNED:
        return None, frame.value
    return describe_frame(frame)


def unwind_or_raise(machine: Machine, frame: Frame, error: BaseException) -> None:
    """Go on at the frame's handler of `error`; without one raise it, with the frame in its traceback."""
    line = frame.line
    try:
        machine.unwind(frame, error)
    except BaseException as uncaught:
        if uncaught is not error:
            raise
        code = compile("\n" * (line - 1) + "raise error", frame.code.co_filename, "exec")
        code = code.replace(co_name=frame.code.co_name, co_qualname=frame.code.co_qualname)
        exec(code, {"error": error, "__name__": frame.global_names.get("__name__")})


def run_rest(point: ResumePoint, values: tuple[Value, ...], find_callee: FindCallee) -> Value:
    """Run a frame to its end; gives what it returns.

    The rest runs as a real function at full speed where one can be made of it, else in the machine.
    """
    frame, machine = prepare(point, values, find_callee)
    resume = find_native_resume(point, frame)
    if resume is not None:
        return resume(read_values(frame))
    machine.frame = None
    machine.run(frame)
    return frame.value


_native_rests: dict[tuple[ResumePoint, int], Callable[[list[Value]], Value] | None] = {}


def find_native_resume(point: ResumePoint, frame: Frame) -> Callable[[list[Value]], Value] | None:
    """The function that goes on natively from `point`, made once; None where there cannot be one."""
    key = (point, id(point.function.__globals__))
    if key not in _native_rests:
        try:
            _native_rests[key] = make_native_resume(point.function, read_layout(frame))
        except Unsupported:
            _native_rests[key] = None
    return _native_rests[key]


def prepare(point: ResumePoint, values: tuple[Value, ...], find_callee: FindCallee) -> tuple[Frame, Machine]:
    machine = Machine(HANDLERS, NativeWorld(find_callee))
    frame = point.make_frame(values)
    machine.frame = frame
    return frame, machine


def under_handled_exception(handled: BaseException | None, run: Callable[[], Any]) -> Any:
    """Run with `handled` as the exception that `sys.exc_info()` speaks of."""
    if handled is None:
        return run()
    traceback = handled.__traceback__
    try:
        raise handled
    except BaseException:
        handled.__traceback__ = traceback
        return run()
