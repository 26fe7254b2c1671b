"""Coroutines and asynchronous generators: suspended frames that an event loop, or the program, steps."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lamina.capture.machine.frame import Frame
from lamina.capture.machine.generators import SuspendedFrame
from lamina.capture.machine.signals import TracingStopped, Value


class CoroutineValue(SuspendedFrame):
    """What the call of an `async def` function gives."""

    __slots__ = ()
    __machine_native__ = True
    KIND = "coroutine"

    def __await__(self) -> CoroutineSteps:
        return CoroutineSteps(self)

    def __del__(self) -> None:
        if not self.started and not self.finished:
            warnings.warn(f"coroutine '{self._qualname}' was never awaited", RuntimeWarning, stacklevel=2)
        super().__del__()

    def send(self, value: Value) -> Value:
        self.check_unused()
        return super().send(value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Value:
        self.check_unused()
        return super().throw(kind, value, traceback)

    def check_unused(self) -> None:
        if self.finished and not self.running:
            raise RuntimeError("cannot reuse already awaited coroutine")

    @property
    def cr_code(self) -> types.CodeType:
        return self.frame.code

    @property
    def cr_running(self) -> bool:
        return self.running

    @property
    def cr_suspended(self) -> bool:
        return self.is_suspended

    @property
    def cr_await(self) -> Value:
        return self.delegate

    @property
    def cr_origin(self) -> None:
        return None

    @property
    def cr_frame(self) -> Value:
        return self.visible_frame


class CoroutineSteps:
    """The iterator that `__await__` of a coroutine gives."""

    __slots__ = ("coroutine",)
    __machine_native__ = True

    def __init__(self, coroutine: CoroutineValue) -> None:
        self.coroutine = coroutine

    def __repr__(self) -> str:
        return f"<coroutine_wrapper object at {id(self):#x}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle 'coroutine_wrapper' object")

    def __iter__(self) -> CoroutineSteps:
        return self

    def __next__(self) -> Value:
        return self.coroutine.send(None)

    def send(self, value: Value) -> Value:
        return self.coroutine.send(value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Value:
        return self.coroutine.throw(kind, value, traceback)

    def close(self) -> Value:
        return self.coroutine.close()


@dataclass(frozen=True, slots=True)
class Yielded:
    """A value that an asynchronous generator gives its user; what it awaits passes through unwrapped."""

    value: Value


class AsyncGeneratorValue(SuspendedFrame):
    """What the call of an `async def` function with a `yield` gives."""

    __slots__ = ("ag_running", "finalizer", "is_closed", "is_hooked")
    __machine_native__ = True
    KIND = "async generator"

    def __init__(self, machine: Any, frame: Frame) -> None:
        super().__init__(machine, frame)
        self.ag_running = False
        self.is_closed = False
        self.is_hooked = False
        self.finalizer: Callable[..., Any] | None = None

    def __aiter__(self) -> AsyncGeneratorValue:
        return self

    def __anext__(self) -> AsyncSend:
        return AsyncSend(self, "anext", lambda sent: self.send(sent))

    def asend(self, value: Value) -> AsyncSend:
        return AsyncSend(self, "asend", lambda sent: self.send(value if sent is None else sent))

    def athrow(self, kind: Any, value: Any = None, traceback: Any = None) -> AsyncThrow:
        return AsyncThrow(self, "athrow", lambda sent: self.throw(kind, value, traceback))

    def aclose(self) -> AsyncThrow:
        return AsyncThrow(self, "aclose", lambda sent: self.throw(GeneratorExit()))

    def __del__(self) -> None:
        if self.is_suspended and self.finalizer is not None and not self.is_closed:
            self.finalizer(self)
        else:
            super().__del__()

    def _resume(self) -> Value:
        try:
            return super()._resume()
        except StopAsyncIteration as error:
            cause = error
        failure = RuntimeError("async generator raised StopAsyncIteration")
        failure.__context__ = cause
        raise failure from cause

    def call_hooks(self) -> None:
        """Tell the event loop of the generator, once (PEP 525)."""
        if self.is_hooked:
            return
        self.is_hooked = True
        hooks = sys.get_asyncgen_hooks()
        self.finalizer = hooks.finalizer
        if hooks.firstiter is not None:
            hooks.firstiter(self)

    @property
    def ag_code(self) -> types.CodeType:
        return self.frame.code

    @property
    def ag_suspended(self) -> bool:
        return self.is_suspended

    @property
    def ag_await(self) -> Value:
        return self.delegate

    @property
    def ag_frame(self) -> Value:
        return self.visible_frame


class AsyncStep:
    """The awaitable of one step of an asynchronous generator: ends with StopIteration and the value given."""

    __slots__ = ("begin", "generator", "is_begun", "is_over", "name")
    NAMES: str

    def __init__(self, generator: AsyncGeneratorValue, name: str, begin: Callable[[Value], Value]) -> None:
        self.generator = generator
        self.name = name
        self.begin = begin
        self.is_begun = False
        self.is_over = False
        generator.call_hooks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    @property
    def is_closing(self) -> bool:
        return self.name == "aclose"

    def __await__(self) -> AsyncStep:
        return self

    def __iter__(self) -> AsyncStep:
        return self

    def __next__(self) -> Value:
        return self.send(None)

    def send(self, value: Value) -> Value:
        """Go on with the step; `value` answers what the generator awaits."""
        self._check_open()
        if self.is_begun:
            return self._advance(lambda: self.generator.send(value))
        self._start()
        return self._advance(lambda: self.begin(value))

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Value:
        """Raise an exception where the generator waits."""
        self._check_open()
        if not self.is_begun:
            self._start()
        return self._advance(lambda: self.generator.throw(kind, value, traceback))

    def close(self) -> None:
        """Give the step up."""
        if self.is_begun and not self.is_over:
            with contextlib.suppress(StopIteration, StopAsyncIteration, GeneratorExit):
                self.throw(GeneratorExit())
                raise RuntimeError("coroutine ignored GeneratorExit")
        self.is_over = True

    def _check_open(self) -> None:
        if self.is_over:
            raise RuntimeError(f"cannot reuse already awaited {self.NAMES}")

    def _start(self) -> None:
        if self.generator.ag_running:
            self.is_over = True
            raise RuntimeError(f"{self.name}(): asynchronous generator is already running")
        self.is_begun = self.generator.ag_running = True

    def _end(self) -> None:
        self.is_over = True
        self.generator.ag_running = False

    def _advance(self, step: Callable[[], Value]) -> Value:
        try:
            given = step()
        except StopIteration:
            self._end()
            raise (StopIteration if self.is_closing else StopAsyncIteration) from None
        except GeneratorExit:
            self._end()
            if self.is_closing:
                raise StopIteration from None
            raise
        except TracingStopped:
            raise
        except BaseException:
            self._end()
            raise
        if type(given) is not Yielded:
            return given
        self._end()
        if self.is_closing:
            raise RuntimeError("async generator ignored GeneratorExit")
        raise StopIteration(given.value)


class AsyncSend(AsyncStep):
    """The step that gives the next value."""

    __slots__ = ()
    __machine_native__ = True
    NAMES = "__anext__()/asend()"


class AsyncThrow(AsyncStep):
    """The step that raises an error, or closes the generator."""

    __slots__ = ()
    __machine_native__ = True
    NAMES = "aclose()/athrow()"

    def _start(self) -> None:
        super()._start()
        if self.generator.finished or self.generator.is_closed:
            self._end()
            raise StopIteration if self.generator.finished else StopAsyncIteration
        self.generator.is_closed = self.is_closing


def find_faces() -> dict[type, type]:
    """What `type()` says of these classes: CPython's own, not all of which have a public name."""

    async def nothing() -> None:
        pass

    async def steps() -> Any:
        yield

    coroutine, generator = nothing(), steps()
    made = coroutine, coroutine.__await__(), generator, generator.__anext__(), generator.aclose()
    for each in (coroutine, *made[3:]):
        each.close()
    kinds = CoroutineValue, CoroutineSteps, AsyncGeneratorValue, AsyncSend, AsyncThrow
    return dict(zip(kinds, map(type, made), strict=True))


FACES = find_faces()
for kind, face in FACES.items():
    kind.__name__ = face.__name__  # errors of C code name the class of what they were given
