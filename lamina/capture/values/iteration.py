"""Iterators: of Python-level classes, of the old sequence protocol, and their face towards C code."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import find_in_type, is_native_type
from lamina.capture.values.operators import call_method, is_python_method


class MachineIterator:
    """A Python-level iterator as C code may step it: each step runs in the machine."""

    __slots__ = ("iterator", "world")
    __machine_native__ = True

    def __init__(self, world: Any, iterator: Value) -> None:
        self.world = world
        self.iterator = iterator

    def __iter__(self) -> MachineIterator:
        return self

    def __next__(self) -> Value:
        return self.world.advance(self.iterator)


class SequenceIterator:
    """The iterator of an object that has only `__getitem__`."""

    __slots__ = ("index", "sequence", "world")
    __machine_native__ = True

    def __init__(self, world: Any, sequence: Value) -> None:
        self.world = world
        self.sequence = sequence
        self.index = 0

    def __iter__(self) -> SequenceIterator:
        return self

    def __next__(self) -> Value:
        try:
            value = self.world.get_item(self.sequence, self.index)
        except IndexError:
            raise StopIteration from None
        self.index += 1
        return value


def iterate(world: Any, iterable: Value) -> Value:
    """`iter(iterable)`."""
    kind = type(iterable)
    if kind is GeneratorValue or is_native_type(kind):
        return world.apply_native(iter, iterable)
    method = find_in_type(kind, "__iter__")
    if is_python_method(method):
        iterator = call_method(world, method, iterable)
        if find_in_type(type(iterator), "__next__") is MISSING:
            raise TypeError(f"iter() returned non-iterator of type {type(iterator).__name__!r}")
        return iterator
    if method is MISSING and is_python_method(find_in_type(kind, "__getitem__")):
        return SequenceIterator(world, iterable)
    return world.apply_native(iter, iterable)


def advance(world: Any, iterator: Value) -> Value:
    """`next(iterator)`."""
    method = find_in_type(type(iterator), "__next__")
    if is_python_method(method) and not is_native_type(type(iterator)):
        if type(iterator) is GeneratorValue:
            return iterator.send(None)
        return call_method(world, method, iterator)
    return next(iterator)


def as_native_iterable(world: Any, iterable: Value) -> Value:
    """`iterable` in a form that C code can iterate without leaving the machine."""
    kind = type(iterable)
    if kind is GeneratorValue or is_native_type(kind):
        return iterable
    if not is_python_method(find_in_type(kind, "__iter__")):
        if find_in_type(kind, "__iter__") is not MISSING:
            return iterable
        if not is_python_method(find_in_type(kind, "__getitem__")):
            return iterable
    iterator = iterate(world, iterable)
    if is_native_type(type(iterator)) or type(iterator) is GeneratorValue:
        return iterator
    return MachineIterator(world, iterator)


def as_native_callable(world: Any, function: Value) -> Value:
    """`function` in a form that C code can call without leaving the machine."""
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        return function

    def enter_machine(*arguments: Value, **keywords: Value) -> Value:
        return world.call(function, arguments, keywords)

    return enter_machine


def unpack(world: Any, iterable: Value) -> list[Value]:
    """All items of `iterable`."""
    kind = type(iterable)
    if kind in (list, tuple):
        return list(iterable)
    source: Iterator[Value] = as_native_iterable(world, iterable)
    return list(source)
