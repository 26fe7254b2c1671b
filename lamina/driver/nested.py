"""Which callees of a broken frame run compiled, and their states: one a module, method or function.

A comprehension or a `def` inside a function makes another function object in each call. Those of one code
share a state, whose captures take the function as an argument; when that has no room there is another.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from lamina.capture import (
    CO_SUSPENDS,
    is_disabled,
    is_library_file,
    is_made_per_call,
    read_compiled_mark,
)

LOOKS_AT_FRAMES = frozenset({"_getframe", "currentframe", "f_back"})
"""Names in the code of functions that want the user's frames above them: they are called as they are."""
VARIANT_LIMIT = 8
"""States of one code."""


Make = Callable[[Any, bool], Any]
"""Makes the state of a callee; True: of a function that each call of the state gets as its first argument."""


class Nested:
    """States of callees by identity. An entry ends with its callee."""

    __slots__ = ("_by_code", "_given", "_known")

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Any] = {}
        self._by_code: dict[types.CodeType, int] = {}
        self._given: dict[tuple[types.CodeType, int], list[Any]] = {}
        """States of functions that are made anew in each call, by code and the identity of the globals."""

    @property
    def states(self) -> list[Any]:
        return [*self._known.values(), *(state for alike in self._given.values() for state in alike)]

    def find(self, callee: Any, make: Make) -> Callable[..., Any]:
        """The callable to call in place of `callee`: itself, or its compiled version."""
        if isinstance(callee, torch.nn.Module):
            if is_compiled(type(callee)):
                return callee
            return self._find(callee, (id(callee), 0), callee, make)
        kind = type(callee)
        if kind is types.FunctionType and is_worth_compiling(callee):
            return self._find_function(callee, make)
        if kind is types.MethodType and is_worth_compiling(callee.__func__):
            owner = callee.__self__
            if isinstance(owner, torch.nn.Module):
                return self._find(callee, (id(callee.__func__), id(owner)), owner, make)
            return types.MethodType(self._find_function(callee.__func__, make), owner)
        return callee  # type: ignore[no-any-return]

    def _find_function(self, function: types.FunctionType, make: Make) -> Callable[..., Any]:
        if is_made_per_call(function):
            return self._find_given(function, make)
        key = (id(function), 0)
        if key not in self._known and self._is_made_too_often(function.__code__):
            return function
        return self._find(function, key, function, make)

    def _find(self, callee: Any, key: tuple[int, int], owner: Any, make: Make) -> Callable[..., Any]:
        state = self._known.get(key)
        if state is None:
            state = self._known[key] = make(callee, False)
            weakref.finalize(owner, self._known.pop, key, None)
        return lambda *args, **kwargs: state.call(args, kwargs)

    def _find_given(self, function: types.FunctionType, make: Make) -> Callable[..., Any]:
        states = self._given.setdefault((function.__code__, id(function.__globals__)), [])
        if not states or (states[-1].root.is_full and len(states) < VARIANT_LIMIT):
            states.append(make(function, True))

        def call(*args: Any, **kwargs: Any) -> Any:
            given = (function, *args)
            fitting = (state for state in states[:-1] if state.root.matches(given, kwargs))
            return next(fitting, states[-1]).call(given, kwargs)

        return call

    def _is_made_too_often(self, code: types.CodeType) -> bool:
        self._by_code[code] = self._by_code.get(code, 0) + 1
        return self._by_code[code] > VARIANT_LIMIT


def is_compiled(holder: Any) -> bool:
    """Whether a function or a module's class carries the state of a compiled callable."""
    return read_compiled_mark(holder) is not None


def is_worth_compiling(function: Any) -> bool:
    """Whether a function is the user's, not the standard library's or torch's, and can be a root."""
    if type(function) is not types.FunctionType or is_compiled(function):
        return False
    if is_disabled(function):
        return False
    code = function.__code__
    if code.co_flags & CO_SUSPENDS or is_library_file(code.co_filename):
        return False
    return LOOKS_AT_FRAMES.isdisjoint(code.co_names) and not {"inspect", "stack"} <= set(code.co_names)
