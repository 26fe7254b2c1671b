"""Suspended frames that the machine resumes; generators are usable by C code through `__next__`."""

from __future__ import annotations

import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import RETURNED, TracingStopped, Value, stop

if TYPE_CHECKING:
    from lamina.capture.machine.loop import Machine


class SuspendedFrame:
    """A frame that belongs to the machine and is left at each yield; stepped lazily, as CPython's is."""

    __slots__ = ("__weakref__", "_name", "_qualname", "finished", "frame", "machine", "running", "started")
    KIND = "generator"

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self.machine = machine
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False
        self._name = frame.function.__name__
        self._qualname = frame.function.__qualname__

    def __repr__(self) -> str:
        return f"<{self.face_name} object {self._qualname} at {id(self):#x}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{self.face_name}' object")

    def __getattr__(self, name: str) -> Value:
        if name == "__name__":
            return self._name
        if name == "__qualname__":
            return self._qualname
        raise AttributeError(f"'{self.face_name}' object has no attribute {name!r}")

    @property
    def face_name(self) -> str:
        """The name of CPython's type."""
        return self.KIND.replace(" ", "_")

    def write_attribute(self, name: str, value: Value) -> None:
        """What the program's assignment to an attribute does."""
        if name not in ("__name__", "__qualname__"):
            raise AttributeError(f"'{self.face_name}' object has no attribute {name!r}")
        if not isinstance(value, str):
            raise TypeError(f"{name} must be set to a string object")
        if name == "__name__":
            self._name = value
        else:
            self._qualname = value

    @property
    def is_suspended(self) -> bool:
        return self.started and not self.running and not self.finished

    @property
    def holds_handlers(self) -> bool:
        """Whether closing would run code of its own: the frame stands in a try or with statement."""
        return self.is_suspended and self.frame.decoded.find_range(self.frame.position - 1) is not None

    @property
    def delegate(self) -> Value:
        """What the frame awaits or yields from."""
        return self._find_delegate() if self.is_suspended else None

    @property
    def visible_frame(self) -> Value:
        if self.finished:
            return None
        return stop("frames", f"the frame of {self._qualname} is read")

    def __del__(self) -> None:
        # An unfinished generator is closed when it goes: its finally blocks run.
        if self.started and not self.finished and not self.running:
            try:
                self.close()
            except BaseException as error:
                self.machine.world.note_ignored(error)

    def send(self, value: Value) -> Value:
        """Resume with `value`; raises StopIteration at the end."""
        if self.running:
            raise ValueError(f"{self.KIND} already executing")
        if self.finished:
            raise StopIteration
        if not self.started and value is not None:
            raise TypeError(f"can't send non-None value to a just-started {self.KIND}")
        if self.started:
            self.frame.stack.append(value)
        self.started = True
        return self._resume()

    def _finish(self) -> None:
        """Let go of what the frame holds, as CPython does at a generator's end."""
        self.finished = True
        self.frame.handled = None
        self.frame.slots.clear()
        self.frame.stack.clear()

    def _resume(self) -> Value:
        self.running = True
        try:
            outcome = self.machine.run(self.frame)
        except StopIteration as error:
            self._finish()
            cause = error
        except BaseException:
            self._finish()
            raise
        else:
            if outcome != RETURNED:
                return self.frame.value
            value, self.frame.value = self.frame.value, None
            self._finish()
            raise StopIteration if value is None else StopIteration(value)
        finally:
            self.running = False
        failure = RuntimeError(f"{self.KIND} raised StopIteration")
        failure.__context__ = cause
        raise failure from cause

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Value:
        """Raise an exception where the generator is suspended."""
        if sys.version_info >= (3, 12) and (value is not None or traceback is not None):
            warnings.warn(
                "the (type, exc, tb) signature of throw() is deprecated, "
                "use the single-arg signature instead.",
                DeprecationWarning,
                stacklevel=2,
            )
        if traceback is not None and not isinstance(traceback, types.TracebackType):
            raise TypeError("throw() third argument must be a traceback object")
        error = make_exception(self.machine.world, kind, value)
        if traceback is not None:
            error.__traceback__ = traceback
        if self.running:
            raise ValueError(f"{self.KIND} already executing")
        if self.finished or not self.started:
            if not self.finished:
                self._finish()
            self.machine.settle(error)
            raise error
        delegate = self._find_delegate()
        if delegate is not None:
            return self._throw_into(delegate, error)
        return self._raise_inside(error)

    def _raise_inside(self, error: BaseException) -> Value:
        frame = self.frame
        frame.back, self.machine.frame = self.machine.frame, frame
        # The generator's own handled exception becomes the context, the caller's does not.
        if frame.handled is not None:
            self.machine.set_context(error)
        self.machine.settle(error)
        is_unhandled = True
        try:
            self.machine.unwind(frame, error)
            is_unhandled = False
        except StopIteration as raised:
            cause = raised
        finally:
            self.machine.frame = frame.back
            if is_unhandled:
                self._finish()
        if not is_unhandled:
            return self._resume()
        failure = RuntimeError(f"{self.KIND} raised StopIteration")
        failure.__context__ = cause
        raise failure from cause

    def _find_delegate(self) -> Any:
        """The iterator of the `yield from` the generator is suspended in, or None."""
        position = self.frame.position - 1
        instructions = self.frame.decoded.instructions
        if position >= 1 and instructions[position - 1].name == "SEND":
            return self.frame.stack[-1]
        return None

    def _throw_into(self, delegate: Any, error: BaseException) -> Value:
        world = self.machine.world
        name = "close" if isinstance(error, GeneratorExit) else "throw"
        method = world.call(getattr, (delegate, name, None), {})
        if method is None:
            return self._raise_inside(error)
        self.running = True
        frame, machine = self.frame, self.machine
        frame.back, machine.frame = machine.frame, frame
        try:
            is_finished, failure = False, None
            produced = world.call(method, () if name == "close" else (error,), {})
        except StopIteration as stopped:
            is_finished = True
            result = stopped.value
        except TracingStopped:
            raise
        except BaseException as raised:
            is_finished, failure = False, raised
        finally:
            machine.frame = frame.back
            self.running = False
        if failure is not None:
            return self._raise_inside(failure)
        if name == "close":
            return self._raise_inside(error)
        if not is_finished:
            return produced
        self._finish_delegate(result)
        return self._resume()

    def _finish_delegate(self, result: Value) -> None:
        """Go on behind the `yield from` with its value, whichever way this Python lays it out."""
        frame = self.frame
        send = frame.decoded.instructions[frame.position - 2]
        frame.position = send.target
        if frame.decoded.instructions[send.target].name != "END_SEND":
            frame.stack.pop()
        frame.stack.append(result)

    def close(self) -> Value:
        """End the generator: GeneratorExit is raised where it is suspended."""
        if self.running:
            raise ValueError(f"{self.KIND} already executing")
        if self.finished:
            return None
        if not self.started:
            self._finish()
            return None
        try:
            self.throw(GeneratorExit())
        except GeneratorExit:
            self.machine.settled = None
            return None
        except StopIteration as stopped:
            return stopped.value if sys.version_info >= (3, 13) else None
        raise RuntimeError(f"{self.KIND} ignored GeneratorExit")


class GeneratorValue(SuspendedFrame):
    """A generator."""

    __slots__ = ()
    __machine_native__ = True

    def __iter__(self) -> GeneratorValue:
        return self

    def __next__(self) -> Value:
        return self.send(None)

    @property
    def gi_code(self) -> types.CodeType:
        return self.frame.code

    @property
    def gi_running(self) -> bool:
        return self.running

    @property
    def gi_suspended(self) -> bool:
        return self.is_suspended

    @property
    def gi_yieldfrom(self) -> Value:
        return self.delegate

    @property
    def gi_frame(self) -> Value:
        return self.visible_frame


def make_exception(world: Any, kind: Any, value: Any = None) -> BaseException:
    """The exception that `throw(kind, value)` means."""
    if isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        return kind
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        name = type(kind).__name__
        raise TypeError(f"exceptions must be classes or instances deriving from BaseException, not {name}")
    if isinstance(value, kind):
        return value
    arguments = () if value is None else value if isinstance(value, tuple) else (value,)
    try:
        made = world.call(kind, arguments, {})
    except TracingStopped:
        raise
    except BaseException as error:
        world.check_origin(error)
        # An error of the construction is what is thrown.
        return error
    if not isinstance(made, BaseException):
        name = type(made).__name__
        text = world.to_repr(kind)
        return TypeError(f"calling {text} should have returned an instance of BaseException, not {name}")
    return made
