"""The machine: runs frames instruction by instruction, unwinds exceptions, enters calls.

What differs between running a program alone and tracing it (globals, cells, attributes, native calls) is
asked of a `World`; everything here is plain Python semantics.
"""

from __future__ import annotations

import types
from typing import Any

from lamina.capture.machine.binding import bind_arguments
from lamina.capture.machine.code import (
    CO_COROUTINE,
    CO_GENERATOR,
    CO_SUSPENDS,
    DecodedCode,
    Handler,
    decode,
)
from lamina.capture.machine.coroutines import AsyncGeneratorValue, CoroutineValue
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.generators import GeneratorValue, SuspendedFrame
from lamina.capture.machine.signals import RETURNED, TracingFailed, TracingPaused, TracingStopped, Value, stop
from lamina.capture.machine.tracebacks import extend_traceback, skip_machine

DEEPEST = 900
"""Nested frames: near the interpreter's usual limit, where a RecursionError depends on what lies above."""

_decoded: dict[int, DecodedCode] = {}


def decode_cached(code: types.CodeType, handlers: dict[str, Handler]) -> DecodedCode:
    """Decoded code by identity; the entry keeps the code object alive, so an identity is never reused."""
    found = _decoded.get(id(code))
    if found is None:
        found = _decoded[id(code)] = decode(code, handlers)
    return found


class Machine:
    """Runs Python functions on real objects. `world` decides what lies outside the program.

    A machine with a `trail` notes the position of each instruction of the first frame it runs, the root, and
    pauses (TracingPaused) when the root has run `pause_at` instructions.
    """

    def __init__(self, handlers: dict[str, Handler], world: Any, trail: list[int] | None = None) -> None:
        self.handlers = handlers
        self.world = world
        self.frame: Frame | None = None
        self.root: Frame | None = None
        self.trail = trail
        self.pause_at = -1
        self.depth = 0
        self.settled: BaseException | None = None
        self.passes_frame = True
        self.settled_traceback: types.TracebackType | None = None
        self.births: dict[int, int] = {}
        """At which step of the root a generator or class was made, by identity."""
        world.machine = self

    def call_function(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        """Call a Python function with a frame of the machine's own."""
        frame = self.make_frame(function, arguments, keywords)
        if function.__code__.co_flags & CO_SUSPENDS:
            return self.suspend(frame)
        self.run(frame)
        return frame.value

    def suspend(self, frame: Frame) -> SuspendedFrame:
        """The generator or coroutine whose frame is yet to run."""
        flags = frame.code.co_flags
        kind: type[SuspendedFrame] = GeneratorValue
        if not flags & CO_GENERATOR:
            self.world.check_asynchronous(frame.function)
            kind = CoroutineValue if flags & CO_COROUTINE else AsyncGeneratorValue
        made = kind(self, frame)
        self.note_birth(made)
        return made

    def make_frame(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Frame:
        """A frame ready to run, its arguments bound."""
        self.world.note_entered(function)
        frame = Frame(decode_cached(function.__code__, self.handlers), function)
        bind_arguments(function, arguments, keywords, self.world.read_defaults, frame.slots)
        return frame

    def run(self, frame: Frame) -> int:
        """Run `frame` until it returns or yields; the value is in `frame.value`."""
        if self.depth > DEEPEST:
            stop("recursion", f"calls are nested deeper than {DEEPEST}")
        frame.back = self.frame
        self.frame = frame
        self.depth += 1
        if self.root is None and self.trail is not None:
            self.root = frame
        advance = self._step_root if frame is self.root else self._step_until_signal
        try:
            while True:
                try:
                    outcome = advance(frame)
                    self.settled = None
                    return outcome
                except TracingPaused:
                    raise
                except TracingStopped as stopped:
                    self._place(stopped)
                    raise
                except BaseException as error:
                    raised = error
                # Outside the handler: what runs next must not get our error as its implicit context.
                try:
                    if raised is not self.settled:
                        self.world.check_origin(raised)
                    self.unwind(frame, raised)
                except TracingFailed as failed:
                    self._place(failed)
                    raise
                finally:
                    del raised
        finally:
            self.frame = frame.back
            self.depth -= 1

    def _step_until_signal(self, frame: Frame) -> int:
        instructions = frame.decoded.instructions
        while True:
            instruction = instructions[frame.position]
            frame.position += 1
            outcome = instruction.handler(self, frame, instruction)
            if outcome is not None:
                return outcome

    def _step_root(self, frame: Frame) -> int:
        instructions = frame.decoded.instructions
        trail = self.trail
        assert trail is not None
        while True:
            if len(trail) == self.pause_at:
                raise TracingPaused
            trail.append(frame.position)
            instruction = instructions[frame.position]
            frame.position += 1
            outcome = instruction.handler(self, frame, instruction)
            if outcome is not None:
                return outcome

    def release_root(self) -> None:
        """Let go of what the outermost frame holds, as CPython does at a function's end."""
        if self.root is not None:
            self.root.slots.clear()
            self.root.stack.clear()

    def note_birth(self, value: Value) -> None:
        """Remember when something was made that cannot leave the trace."""
        if self.trail:
            self.births[id(value)] = len(self.trail) - 1

    def unwind(self, frame: Frame, error: BaseException) -> None:
        """Continue at the handler of `error` in `frame`, or raise it further."""
        entries, passes = self.settled_traceback, self.passes_frame
        if error is not self.settled:
            self.set_context(error)
            entries, passes = skip_machine(error.__traceback__), True
        error.__traceback__ = extend_traceback(entries, frame) if passes else entries
        index = frame.position - 1
        entry = frame.decoded.find_range(index)
        if entry is None:
            self.settle(error)
            raise error
        self.settled = None
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

    def settle(self, error: BaseException, passes_frame: bool = True) -> None:
        """`error` is about to travel on with the context it has. passes_frame: one more traceback entry."""
        self.settled = error
        self.passes_frame = passes_frame
        self.settled_traceback = error.__traceback__

    def set_context(self, error: BaseException, is_raised: bool = False) -> None:
        """Link `error` to the exception being handled. `is_raised`: by a raise statement."""
        handled = self.handled_exception()
        if handled is None or handled is error:
            return
        if not is_raised:
            # An error of C code may carry a chain of its own: what is handled here comes behind it.
            seen = {id(error)}
            while error.__context__ is not None and id(error.__context__) not in seen:
                error = error.__context__
                seen.add(id(error))
                if error is handled:
                    return
        # Setting a context that leads back to the error itself would close a ring.
        link: BaseException | None = handled
        met: set[int] = set()
        while link is not None and id(link) not in met:
            met.add(id(link))
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

    def run_text(
        self, code: types.CodeType, global_names: dict[str, Value], names: dict[str, Value]
    ) -> Value:
        """Run a module's or an expression's code; gives its value."""
        function = types.FunctionType(code, global_names)
        return self.run_class_body(function, names)

    def run_class_body(self, function: types.FunctionType, names: dict[str, Value]) -> Value:
        """Run a class body with `names` as its namespace; gives the `__class__` cell or None."""
        frame = Frame(decode_cached(function.__code__, self.handlers), function, names)
        assert self.run(frame) == RETURNED
        return frame.value
