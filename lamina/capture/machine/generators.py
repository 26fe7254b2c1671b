"""Generators: a suspended frame that the machine resumes, usable by C code through `__next__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import RETURNED, TracingStopped, Value, stop

if TYPE_CHECKING:
    from lamina.capture.machine.loop import Machine


class GeneratorValue:
    """A generator whose frame belongs to the machine; stepped lazily, as CPython's is."""

    __slots__ = ("__weakref__", "finished", "frame", "machine", "running", "started")
    __machine_native__ = True

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self.machine = machine
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False

    def __iter__(self) -> GeneratorValue:
        return self

    def __next__(self) -> Value:
        return self.send(None)

    def send(self, value: Value) -> Value:
        """Resume with `value`; raises StopIteration at the end."""
        if self.running:
            raise ValueError("generator already executing")
        if self.finished:
            raise StopIteration
        if not self.started and value is not None:
            raise TypeError("can't send non-None value to a just-started generator")
        if self.started:
            self.frame.stack.append(value)
        self.started = True
        return self._resume()

    def _resume(self) -> Value:
        self.running = True
        try:
            outcome = self.machine.run(self.frame)
        except StopIteration as error:
            self.finished = True
            cause = error
        except BaseException:
            self.finished = True
            raise
        else:
            if outcome != RETURNED:
                return self.frame.value
            self.finished = True
            if self.frame.value is None:
                raise StopIteration
            raise StopIteration(self.frame.value)
        finally:
            self.running = False
        raise RuntimeError("generator raised StopIteration") from cause

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Value:
        """Raise an exception where the generator is suspended."""
        error = make_exception(kind, value)
        if self.running:
            raise ValueError("generator already executing")
        if self.finished or not self.started:
            self.finished = True
            raise error
        delegate = self._find_delegate()
        if delegate is not None:
            return self._throw_into(delegate, error)
        return self._raise_inside(error)

    def _raise_inside(self, error: BaseException) -> Value:
        frame = self.frame
        frame.back, self.machine.frame = self.machine.frame, frame
        try:
            self.machine.unwind(frame, error)
        except BaseException:
            self.finished = True
            raise
        finally:
            self.machine.frame = frame.back
        return self._resume()

    def _find_delegate(self) -> Any:
        """The iterator of the `yield from` the generator is suspended in, or None."""
        position = self.frame.position - 1
        instructions = self.frame.decoded.instructions
        if position >= 1 and instructions[position - 1].name == "SEND":
            return self.frame.stack[-1]
        return None

    def _throw_into(self, delegate: Any, error: BaseException) -> Value:
        if isinstance(error, GeneratorExit):
            close = getattr(delegate, "close", None)
            if close is not None:
                close()
            return self._raise_inside(error)
        throw = getattr(delegate, "throw", None)
        if throw is None:
            return self._raise_inside(error)
        self.running = True
        try:
            return throw(error)
        except StopIteration as stopped:
            result = stopped.value
        except TracingStopped:
            raise
        except BaseException as raised:
            failure = raised
            self.running = False
            return self._raise_inside(failure)
        finally:
            self.running = False
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

    def close(self) -> None:
        """End the generator: GeneratorExit is raised where it is suspended."""
        if self.finished:
            return
        if not self.started:
            self.finished = True
            return
        try:
            self.throw(GeneratorExit())
        except (GeneratorExit, StopIteration):
            return
        raise RuntimeError("generator ignored GeneratorExit")


def make_exception(kind: Any, value: Any = None) -> BaseException:
    """The exception that `raise kind` or `throw(kind, value)` means."""
    if isinstance(kind, BaseException):
        return kind
    if isinstance(kind, type) and issubclass(kind, BaseException):
        if isinstance(value, kind):
            return value
        if kind.__module__ != "builtins" and "__init__" in kind.__dict__ and value is None:
            stop(
                "raise-class", f"raising the class {kind.__qualname__} runs its __init__ outside the machine"
            )
        made = kind() if value is None else kind(*value) if isinstance(value, tuple) else kind(value)
        assert isinstance(made, BaseException)
        return made
    raise TypeError("exceptions must derive from BaseException")
