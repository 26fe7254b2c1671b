"""The machine: runs frames instruction by instruction, unwinds exceptions, enters calls.

What differs between running a program alone and tracing it (globals, cells, attributes, native calls) is
asked of a `World`; everything here is plain Python semantics.
"""

from __future__ import annotations

import types
from typing import Any

from lamina.capture.machine.binding import bind_arguments
from lamina.capture.machine.code import DecodedCode, Handler, decode
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.signals import RETURNED, TracingStopped, Value, stop

CO_GENERATOR = 0x20
CO_ASYNC = 0x80 | 0x100 | 0x200

_decoded: dict[int, DecodedCode] = {}


def decode_cached(code: types.CodeType, handlers: dict[str, Handler]) -> DecodedCode:
    """Decoded code by identity; the entry keeps the code object alive, so an identity is never reused."""
    found = _decoded.get(id(code))
    if found is None:
        found = _decoded[id(code)] = decode(code, handlers)
    return found


class Machine:
    """Runs Python functions on real objects. `world` decides what lies outside the program."""

    def __init__(self, handlers: dict[str, Handler], world: Any) -> None:
        self.handlers = handlers
        self.world = world
        self.frame: Frame | None = None
        world.machine = self

    def call_function(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        """Call a Python function with a frame of the machine's own."""
        frame = self.make_frame(function, arguments, keywords)
        flags = function.__code__.co_flags
        if flags & CO_ASYNC:
            stop("async", f"{function.__qualname__} is a coroutine or an asynchronous generator")
        if flags & CO_GENERATOR:
            return GeneratorValue(self, frame)
        self.run(frame)
        return frame.value

    def make_frame(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Frame:
        """A frame ready to run, its arguments bound."""
        defaults, keyword_defaults = self.world.read_defaults(function)
        frame = Frame(decode_cached(function.__code__, self.handlers), function)
        bind_arguments(function, arguments, keywords, defaults, keyword_defaults, frame.slots)
        return frame

    def run(self, frame: Frame) -> int:
        """Run `frame` until it returns or yields; the value is in `frame.value`."""
        frame.back = self.frame
        self.frame = frame
        try:
            while True:
                try:
                    return self._step_until_signal(frame)
                except TracingStopped as stopped:
                    self._place(stopped)
                    raise
                except BaseException as error:
                    raised = error
                # Outside the handler: what runs next must not get our error as its implicit context.
                self.unwind(frame, raised)
        finally:
            self.frame = frame.back

    def _step_until_signal(self, frame: Frame) -> int:
        instructions = frame.decoded.instructions
        while True:
            instruction = instructions[frame.position]
            frame.position += 1
            outcome = instruction.handler(self, frame, instruction)
            if outcome is not None:
                return outcome

    def unwind(self, frame: Frame, error: BaseException) -> None:
        """Continue at the handler of `error` in `frame`, or raise it further."""
        self._set_context(error)
        index = frame.position - 1
        entry = frame.decoded.find_range(index)
        if entry is None:
            raise error
        del frame.stack[entry.depth :]
        if entry.lasti:
            frame.stack.append(index)
        frame.stack.append(error)
        frame.position = entry.target

    def handled_exception(self) -> BaseException | None:
        """What `sys.exc_info()` speaks of: the innermost exception being handled."""
        frame = self.frame
        while frame is not None:
            if frame.handled is not None:
                return frame.handled
            frame = frame.back
        return None

    def _set_context(self, error: BaseException) -> None:
        handled = self.handled_exception()
        if handled is None or handled is error or error.__context__ is not None:
            return
        # Setting a context that leads back to the error itself would close a ring.
        link: BaseException | None = handled
        while link is not None:
            if link.__context__ is error:
                link.__context__ = None
                break
            link = link.__context__
        error.__context__ = handled

    def location(self) -> tuple[str, int] | None:
        """File and line of the innermost frame of the user's own code."""
        frame = self.frame
        innermost = (frame.code.co_filename, frame.line) if frame is not None else None
        while frame is not None:
            if self.world.is_user_file(frame.code.co_filename):
                return frame.code.co_filename, frame.line
            frame = frame.back
        return innermost

    def _place(self, stopped: TracingStopped) -> None:
        if stopped.error.location is None:
            stopped.error.location = self.location()

    def run_class_body(self, function: types.FunctionType, names: dict[str, Value]) -> Value:
        """Run a class body with `names` as its namespace; gives the `__class__` cell or None."""
        frame = Frame(decode_cached(function.__code__, self.handlers), function, names)
        assert self.run(frame) == RETURNED
        return frame.value
