"""`await`, `async for`, `async with` and the yields of asynchronous generators."""

from __future__ import annotations

import types
from typing import Any

from lamina.capture.machine.code import CO_ITERABLE_COROUTINE, Handler, Instruction
from lamina.capture.machine.coroutines import AsyncGeneratorValue, CoroutineValue, Yielded
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.opcodes.exceptions import enter_with, reraise
from lamina.capture.values.attributes import find_in_type, load_special

FROM_METHOD = {1: "__aenter__", 2: "__aexit__"}
"""What gave the object to be awaited, by the instruction's argument."""


def is_coroutine(value: Value) -> bool:
    """Whether `await` steps the value itself."""
    if type(value) in (GeneratorValue, types.GeneratorType):
        return bool(value.gi_code.co_flags & CO_ITERABLE_COROUTINE)
    return type(value) in (CoroutineValue, types.CoroutineType)


def find_awaited(machine: Any, awaitable: Value) -> Value:
    """The iterator that `await awaitable` steps."""
    if is_coroutine(awaitable):
        return awaitable
    if find_in_type(type(awaitable), "__await__") is MISSING:
        raise TypeError(
            f"object {machine.world.type_of(awaitable).__name__} can't be used in 'await' expression"
        )
    steps = machine.world.call(load_special(machine.world, awaitable, "__await__"), (), {})
    if type(steps) in (CoroutineValue, types.CoroutineType):
        raise TypeError("__await__() returned a coroutine")
    if find_in_type(type(steps), "__next__") is MISSING:
        raise TypeError(
            f"__await__() returned non-iterator of type '{machine.world.type_of(steps).__name__}'"
        )
    return steps


def get_awaitable(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    awaitable = frame.stack.pop()
    method = FROM_METHOD.get(instruction.arg)
    has_method = find_in_type(type(awaitable), "__await__") is not MISSING
    if method is not None and not has_method and not is_coroutine(awaitable):
        name = machine.world.type_of(awaitable).__name__
        raise TypeError(
            f"'async with' received an object from {method} that does not implement __await__: {name}"
        )
    steps = find_awaited(machine, awaitable)
    if type(steps) is CoroutineValue and steps.delegate is not None:
        raise RuntimeError("coroutine is being awaited already")
    frame.stack.append(steps)
    return None


def get_aiter(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    world, iterable = machine.world, frame.stack.pop()
    if find_in_type(type(iterable), "__aiter__") is MISSING:
        name = world.type_of(iterable).__name__
        raise TypeError(f"'async for' requires an object with __aiter__ method, got {name}")
    iterator = world.call(load_special(world, iterable, "__aiter__"), (), {})
    if find_in_type(type(iterator), "__anext__") is MISSING:
        name = world.type_of(iterator).__name__
        raise TypeError(
            f"'async for' received an object from __aiter__ that does not implement __anext__: {name}"
        )
    frame.stack.append(iterator)
    return None


def get_anext(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    world, iterator = machine.world, frame.stack[-1]
    if find_in_type(type(iterator), "__anext__") is MISSING:
        name = world.type_of(iterator).__name__
        raise TypeError(f"'async for' requires an iterator with __anext__ method, got {name}")
    given = world.call(load_special(world, iterator, "__anext__"), (), {})
    if type(iterator) is AsyncGeneratorValue:
        frame.stack.append(given)
        return None
    try:
        steps = find_awaited(machine, given)
    except Exception as error:
        machine.world.check_origin(error)
        name = world.type_of(given).__name__
        raise TypeError(f"'async for' received an invalid object from __anext__: {name}") from error
    frame.stack.append(steps)
    return None


def end_async_for(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    if not isinstance(frame.stack[-1], StopAsyncIteration):
        return reraise(machine, frame, instruction)
    del frame.stack[-2:]
    return None


def before_async_with(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    return enter_with(machine, frame, "__aenter__", "__aexit__", "asynchronous context manager")


def wrap_yielded(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.stack[-1] = Yielded(frame.stack[-1])
    return None


HANDLERS: dict[str, Handler] = {
    "ASYNC_GEN_WRAP": wrap_yielded,
    "BEFORE_ASYNC_WITH": before_async_with,
    "END_ASYNC_FOR": end_async_for,
    "GET_AITER": get_aiter,
    "GET_ANEXT": get_anext,
    "GET_AWAITABLE": get_awaitable,
}
