"""Iterators: of Python-level classes, of the old sequence protocol, and their face towards C code."""

from __future__ import annotations

import collections
import itertools
import operator
import types
import weakref
from collections.abc import Iterator
from typing import Any

from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.origins import call_natively, step_natively
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.values.attributes import (
    IMMUTABLE_TYPE,
    call_method,
    find_in_type,
    is_native_type,
    is_python_method,
)
from lamina.capture.values.stand_ins import answer


def refuse_copies(value: Value, protocol: int = 0) -> Any:
    """`__reduce_ex__` of the machine's own values: a copy of them is not what the program expects."""
    stop("machine-value", f"a {type(value).__name__} of the machine is copied or pickled")


class MachineIterator:
    """A Python-level iterator as C code may step it: each step runs in the machine."""

    __slots__ = ("iterable", "iterator", "world")
    __machine_native__ = True
    __reduce_ex__ = refuse_copies  # type: ignore[assignment]

    def __init__(self, world: Any, iterator: Value, iterable: Value) -> None:
        self.world = world
        self.iterator = iterator
        self.iterable = iterable

    def __iter__(self) -> MachineIterator:
        return self

    def __next__(self) -> Value:
        return self.world.advance(self.iterator)

    def __length_hint__(self) -> int:
        # C code asks the iterable itself, for which this stands.
        return length_hint(self.world, self.iterable, 0)


class MachineIterable:
    """A Python-level iterable as C code may iterate it later."""

    __slots__ = ("iterable", "world")
    __machine_native__ = True
    __reduce_ex__ = refuse_copies  # type: ignore[assignment]

    def __init__(self, world: Any, iterable: Value) -> None:
        self.world = world
        self.iterable = iterable

    def __iter__(self) -> Iterator[Value]:
        made: Iterator[Value] = call_natively(iter, as_native_iterable(self.world, self.iterable))
        return made


def as_lazy_iterable(world: Any, iterable: Value) -> Value:
    """Like `as_native_iterable`, for C code that asks for the iterator only when it comes to it."""
    return iterable if is_native_type(type(iterable)) else MachineIterable(world, iterable)


def length_hint(world: Any, value: Value, default: int) -> int:
    """`operator.length_hint(value, default)`."""
    for name, ask in (("__len__", len), ("__length_hint__", operator.length_hint)):
        method = find_in_type(type(value), name)
        if method is MISSING:
            continue
        if not is_python_method(method):
            return int(call_natively(operator.length_hint, value, default))
        try:
            given = call_method(world, method, value)
        except TypeError as error:
            world.check_origin(error)
            continue
        if given is not NotImplemented:
            return int(call_natively(ask, answer(name, given)))
    return default


class MachineCallable:
    """A callable of the program as C code may call it: the call runs in the machine."""

    __slots__ = ("function", "world")
    __machine_native__ = True
    __reduce_ex__ = refuse_copies  # type: ignore[assignment]

    def __init__(self, world: Any, function: Value) -> None:
        self.world = world
        self.function = function

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        return self.world.call(self.function, arguments, keywords)


class SequenceIterator:
    """The iterator of an object that has only `__getitem__`."""

    __slots__ = ("index", "sequence", "world")
    __machine_native__ = True
    __reduce_ex__ = refuse_copies  # type: ignore[assignment]

    def __init__(self, world: Any, sequence: Value) -> None:
        self.world = world
        self.sequence = sequence
        self.index = 0

    def __iter__(self) -> SequenceIterator:
        return self

    def __next__(self) -> Value:
        if self.sequence is None:
            raise StopIteration
        try:
            value = self.world.get_item(self.sequence, self.index)
        except (IndexError, StopIteration) as error:
            self.world.check_origin(error)
            self.sequence = None
            raise StopIteration from None
        self.index += 1
        return value

    def __length_hint__(self) -> int:
        if self.sequence is None:
            return 0
        return max(length_hint(self.world, self.sequence, 0) - self.index, 0)


class ReversedSequence:
    """What `reversed` gives of an object that has only `__len__` and `__getitem__`."""

    __slots__ = ("index", "sequence", "world")
    __machine_native__ = True
    __reduce_ex__ = refuse_copies  # type: ignore[assignment]

    def __init__(self, world: Any, sequence: Value, length: int) -> None:
        self.world = world
        self.sequence = sequence
        self.index = length - 1

    def __iter__(self) -> ReversedSequence:
        return self

    def __next__(self) -> Value:
        if self.index < 0:
            self.sequence = None
            raise StopIteration
        try:
            value = self.world.get_item(self.sequence, self.index)
        except (IndexError, StopIteration) as error:
            self.world.check_origin(error)
            self.index, self.sequence = -1, None
            raise StopIteration from None
        self.index -= 1
        return value

    def __length_hint__(self) -> int:
        if self.sequence is None:
            return 0
        left = self.index + 1
        return 0 if self.world.call(len, (self.sequence,), {}) < left else left


def iterate(world: Any, iterable: Value) -> Value:
    """`iter(iterable)`."""
    kind = type(iterable)
    if kind is GeneratorValue or is_native_type(kind):
        return world.apply_native(iter, iterable)
    method = find_in_type(kind, "__iter__")
    if is_python_method(method):
        return call_natively(iter, answer("__iter__", call_method(world, method, iterable)))
    if method is MISSING and is_python_method(find_in_type(kind, "__getitem__")):
        return SequenceIterator(world, iterable)
    return world.apply_native(iter, iterable)


def advance(world: Any, iterator: Value) -> Value:
    """`next(iterator)`."""
    method = find_in_type(type(iterator), "__next__")
    if is_python_method(method) and not is_native_type(type(iterator)):
        return call_method(world, method, iterator)
    return call_natively(next, iterator)


def as_native_iterable(world: Any, iterable: Value) -> Value:
    """`iterable` in a form that C code can iterate without leaving the machine."""
    kind = type(iterable)
    if kind is GeneratorValue or is_native_type(kind):
        return iterable
    method = find_in_type(kind, "__iter__")
    is_old_sequence = method is MISSING and is_python_method(find_in_type(kind, "__getitem__"))
    if not is_python_method(method) and not is_old_sequence:
        return iterable
    iterator = iterate(world, iterable)
    has_length = any(find_in_type(kind, name) is not MISSING for name in ("__len__", "__length_hint__"))
    is_proxy = type(iterator) in weakref.ProxyTypes  # C code would ask what it stands for
    if is_native_type(type(iterator)) and not has_length and not is_proxy:
        return iterator
    return MachineIterator(world, iterator, iterable)


def take_all(world: Any, iterable: Value) -> list[Value]:
    """All that an iterable gives, whose length is not asked for: `list` would run its `__len__`."""
    taken: list[Value] = []
    for item in step_natively(as_native_iterable(world, iterable)):
        taken.append(item)
    return taken


PYTHON_CALLABLES = (types.FunctionType, types.MethodType, types.GenericAlias, staticmethod)
"""Callables of C-level classes that run the program's code."""


def as_native_callable(world: Any, function: Value) -> Value:
    """`function` in a form that C code can call without leaving the machine."""
    kind = type(function)
    if kind is MachineCallable or not callable(function):
        return function
    if kind.__flags__ & IMMUTABLE_TYPE and not isinstance(function, PYTHON_CALLABLES):
        is_plain = getattr(function, "__module__", None) in ("builtins", "_operator", "math")
        if is_plain and world.find_model(function) is None:
            return function
    return MachineCallable(world, function)


CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)


def walk_entries(container: Any) -> Iterator[Value]:
    """What lies in a container, its keys too, without running methods of its class."""
    if isinstance(container, dict):
        return itertools.chain(dict.keys(container), dict.values(container))
    base: Any = next(each for each in CONTAINERS if isinstance(container, each))
    entries: Iterator[Value] = base.__iter__(container)
    return entries


def is_iterable(value: Value) -> bool:
    """Whether `iter` would try."""
    kind = type(value)
    return any(find_in_type(kind, name) is not MISSING for name in ("__iter__", "__getitem__"))


def unpack(world: Any, iterable: Value) -> list[Value]:
    """All items of `iterable`."""
    kind = type(iterable)
    if kind in (list, tuple):
        return list(iterable)
    source: Iterator[Value] = as_native_iterable(world, iterable)
    return list(call_natively(list, source))
