"""Which callees of a broken frame run compiled, and their states: one a module, method or function."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from lamina.capture import CO_SUSPENDS, is_disabled, is_library_file, read_compiled_mark

LOOKS_AT_FRAMES = frozenset({"_getframe", "currentframe", "f_back"})
"""Names in the code of functions that want the user's frames above them: they are called as they are."""
VARIANT_LIMIT = 8
"""Function objects of one code (closures made anew in each call) that are compiled."""


class Nested:
    """States of callees by identity. An entry ends with its callee."""

    __slots__ = ("_by_code", "_known")

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Any] = {}
        self._by_code: dict[types.CodeType, int] = {}

    @property
    def states(self) -> list[Any]:
        return list(self._known.values())

    def find(self, callee: Any, make: Callable[[Any], Any]) -> Callable[..., Any]:
        """The callable to call in place of `callee`: itself, or its compiled version."""
        if isinstance(callee, torch.nn.Module):
            if is_compiled(type(callee)):
                return callee
            return self._find(callee, (id(callee), 0), callee, make)
        kind = type(callee)
        if kind is types.FunctionType and is_worth_compiling(callee):
            return self._find(callee, (id(callee), 0), callee, make)
        if kind is types.MethodType and is_worth_compiling(callee.__func__):
            owner = callee.__self__
            if isinstance(owner, torch.nn.Module):
                return self._find(callee, (id(callee.__func__), id(owner)), owner, make)
            function = self._find(callee.__func__, (id(callee.__func__), 0), callee.__func__, make)
            return types.MethodType(function, owner)
        return callee  # type: ignore[no-any-return]

    def _find(
        self, callee: Any, key: tuple[int, int], owner: Any, make: Callable[[Any], Any]
    ) -> Callable[..., Any]:
        state = self._known.get(key)
        if state is None:
            if self._is_made_too_often(callee):
                return callee  # type: ignore[no-any-return]
            state = self._known[key] = make(callee)
            weakref.finalize(owner, self._known.pop, key, None)
        return lambda *args, **kwargs: state.call(args, kwargs)

    def _is_made_too_often(self, callee: Any) -> bool:
        code = getattr(callee, "__code__", None)
        if type(callee) is not types.FunctionType or code is None:
            return False
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
