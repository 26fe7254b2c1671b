"""The world of a program run alone: nothing is outside, nothing guarded. Tracing overrides what differs."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from lamina.capture.machine.generators import SuspendedFrame
from lamina.capture.machine.loop import Machine
from lamina.capture.machine.origins import call_natively, call_with, check_origin
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.values import attributes, calls, conversions, iteration, operators, texts
from lamina.capture.values.builtins import METHOD_MODELS, MODELS, NATIVE_FACES, fits
from lamina.capture.values.conversions import Model
from lamina.capture.values.functional import MethodModel


class World:
    """How the machine reads, writes, calls and compares. Every method is Python's own meaning."""

    machine: Machine

    # names

    def read_defaults(self, function: types.FunctionType) -> tuple[tuple[Value, ...], dict[str, Value]]:
        return function.__defaults__ or (), function.__kwdefaults__ or {}

    def note_entered(self, function: types.FunctionType) -> None:
        """A frame is made for `function`: its code is what runs."""

    def check_asynchronous(self, function: types.FunctionType) -> None:
        """Stop if coroutines must not be made."""

    def is_user_file(self, name: str) -> bool:
        return True

    def read_globals(self, frame: Any) -> dict[str, Value]:
        return frame.global_names  # type: ignore[no-any-return]

    def find_name(self, names: Any, name: str) -> Value:
        return find_name(self, names, name)

    def load_global(self, frame: Any, name: str) -> Value:
        value = find_name(self, frame.global_names, name)
        if value is MISSING:
            value = find_name(self, frame.builtins, name)
        if value is MISSING:
            raise NameError(f"name {name!r} is not defined", name=name)
        return value

    def store_global(self, frame: Any, name: str, value: Value) -> None:
        frame.global_names[name] = value

    def delete_global(self, frame: Any, name: str) -> None:
        if name not in frame.global_names:
            raise NameError(f"name {name!r} is not defined", name=name)
        del frame.global_names[name]

    def note_cell(self, cell: types.CellType) -> None:
        """A cell made inside the program."""

    def note_function(self, function: types.FunctionType) -> None:
        """A function made inside the program."""

    def note_class(self, kind: type) -> None:
        """A class made inside the program."""

    def load_cell(self, cell: types.CellType) -> Value:
        try:
            return cell.cell_contents
        except ValueError:
            return UNBOUND

    def store_cell(self, cell: types.CellType, value: Value) -> None:
        cell.cell_contents = value

    def delete_cell(self, cell: types.CellType) -> None:
        del cell.cell_contents

    def import_module(self, name: str, names: Value, level: int, frame: Any) -> Value:
        return call_natively(__import__, name, frame.global_names, None, names, level)

    # attributes

    def load_attribute(self, owner: Value, name: str) -> Value:
        return attributes.load_attribute(self, owner, name)

    def store_attribute(self, owner: Value, name: str, value: Value) -> None:
        attributes.store_attribute(self, owner, name, value)

    def delete_attribute(self, owner: Value, name: str) -> None:
        attributes.delete_attribute(self, owner, name)

    def load_native_attribute(self, owner: Value, name: str) -> Value:
        """An attribute of an object whose class reads attributes in C."""
        kind = type(owner)
        if kind is types.TracebackType or kind is types.FrameType:
            stop("frames", f"{name} of a {kind.__name__} is read")
        if kind is types.MethodType and type(owner.__self__) in NATIVE_FACES and name != "__self__":
            stop("machine-value", f"{name} of a method of a generator or iterator is read")
        face = NATIVE_FACES.get(kind)
        if face is None:
            return call_natively(getattr, owner, name)
        if name == "__class__":
            return face
        found = getattr(owner, name, MISSING)
        if found is MISSING and hasattr(face, name):
            stop("machine-value", f"{name} of a {face.__name__} is not modelled")
        return call_natively(getattr, owner, name) if found is MISSING else found

    def bind_descriptor(self, raw: Value, holder: type, name: str, owner: Value, kind: type) -> Value:
        return attributes.bind_descriptor(self, raw, holder, name, owner, kind)

    def read_instance(self, owner: Value, name: str) -> Value:
        """What the instance's own dictionary holds under `name`, or MISSING."""
        try:
            entries = object.__getattribute__(owner, "__dict__")
        except AttributeError:
            return MISSING
        return entries.get(name, MISSING)

    def note_shadowed(self, holder: type, name: str, raw: Value) -> None:
        """An instance's own attribute wins over its class's entry, which is no data descriptor."""

    def read_class_value(self, holder: type, name: str, raw: Value) -> Value:
        return raw

    def write_instance(self, owner: Value, name: str, value: Value) -> None:
        if issubclass(type(owner), SuspendedFrame):
            owner.write_attribute(name, value)
        elif issubclass(type(owner), type):
            call_natively(type.__setattr__, owner, name, value)
        else:
            call_natively(attributes.find_native(type(owner), "__setattr__"), owner, name, value)

    def erase_instance(self, owner: Value, name: str) -> None:
        if issubclass(type(owner), SuspendedFrame):
            owner.write_attribute(name, MISSING)
        elif issubclass(type(owner), type):
            call_natively(type.__delattr__, owner, name)
        else:
            call_natively(attributes.find_native(type(owner), "__delattr__"), owner, name)

    # operators

    def as_native_iterable(self, iterable: Value) -> Value:
        return iteration.as_native_iterable(self, iterable)

    def as_printed(self, template: Value, values: Value) -> Value:
        return texts.printf(self, template, values)

    def show_value(self, value: Value) -> None:
        """What an interactive expression statement does."""
        self.call(sys.displayhook, (texts.as_printable(self, value),), {})

    def check_text(self, name: str) -> None:
        """Stop if code given as text must not be run."""

    def check_class_hooks(self, arguments: tuple[Value, ...]) -> None:
        """Stop if making a class would run hooks outside the machine."""

    def check_made(self, kind: type) -> None:
        """Stop if an object of this class would run a method outside the machine when it goes."""

    def check_key(self, container: Value, key: Value) -> None:
        """Stop if looking up `key` would run Python code outside the machine."""

    def apply_native(self, native: Any, *operands: Value) -> Value:
        return call_natively(native, *operands)

    def binary(self, symbol: str, left: Value, right: Value) -> Value:
        return operators.apply_binary(self, symbol, left, right)

    def compare(self, symbol: str, left: Value, right: Value) -> Value:
        return operators.compare(self, symbol, left, right)

    def is_same(self, left: Value, right: Value) -> bool:
        return left is right

    def contains(self, container: Value, item: Value) -> bool:
        return operators.contains(self, container, item)

    def truth(self, value: Value) -> bool:
        return operators.truth(self, value)

    def is_open(self, condition: Value) -> bool:
        """Whether only a run of the program knows if `condition` is true."""
        return False

    def require_outcome(self, condition: Value, outcome: bool) -> None:
        """Have the run check that an open condition is `outcome`."""
        raise NotImplementedError

    def get_item(self, container: Value, key: Value) -> Value:
        return operators.get_item(self, container, key)

    def set_item(self, container: Value, key: Value, value: Value) -> None:
        operators.set_item(self, container, key, value)

    def delete_item(self, container: Value, key: Value) -> None:
        operators.delete_item(self, container, key)

    def iterate(self, iterable: Value) -> Value:
        return iteration.iterate(self, iterable)

    def advance(self, iterator: Value) -> Value:
        return iteration.advance(self, iterator)

    def to_text(self, value: Value) -> str:
        return conversions.to_text(self, value)

    def to_repr(self, value: Value) -> str:
        return conversions.to_repr(self, value)

    def format_value(self, value: Value, specification: str) -> str:
        return conversions.format_value(self, value, specification)

    def note_ignored(self, error: BaseException) -> None:
        """Closing a generator that goes unfinished raised: nobody is there to catch it."""
        raise error

    def check_origin(self, error: BaseException) -> None:
        """Raise TracingFailed if `error` is a failure of the machine's own code."""
        check_origin(error)

    def check_raised(self, error: BaseException) -> None:
        """An exception is about to be raised, which changes it."""

    # types

    def type_of(self, value: Value) -> type:
        kind = type(value)
        return NATIVE_FACES.get(kind, kind)

    def is_trusted_check(self, kind: Value) -> bool:
        """Whether the Python-level `__instancecheck__` of `kind` may run natively."""
        return getattr(type(kind), "__module__", "") in ("abc", "typing", "enum")

    def is_instance(self, value: Value, kind: Value) -> bool:
        face = NATIVE_FACES.get(type(value))
        if face is not None and isinstance(kind, type):
            return issubclass(face, kind)
        return bool(call_natively(isinstance, value, kind))

    # calls

    def find_model(self, callee: Value) -> Model | None:
        owner = None if isinstance(callee, type) else getattr(callee, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            if type(callee) is types.MethodWrapperType:
                slot = getattr(callee.__objclass__, callee.__name__, None)
                model = MODELS.get(slot)
                return None if model is None else functools.partial(call_slot, model, slot, callee)
            if not isinstance(owner, type):
                method = find_method_model(callee, owner)
                return None if method is None else functools.partial(call_with_owner, method, callee, owner)
        if isinstance(callee, type) and not callee.__flags__ & attributes.IMMUTABLE_TYPE:
            return None
        model = MODELS.get(callee)
        return None if model is None else functools.partial(call_if_it_fits, model, callee)

    def call(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        return calls.call(self, callee, arguments, keywords)

    def call_python(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        return self.machine.call_function(function, arguments, keywords)

    def call_native(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        return call_with(callee, arguments, keywords)

    def call_native_method(
        self, owner: Value, name: str, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        return self.call_native(call_natively(getattr, owner, name), arguments, keywords)


def find_name(world: World, names: Any, name: str) -> Value:
    """A name's value in a namespace, which may be any mapping, or MISSING."""
    if type(names) is dict:
        return names.get(name, MISSING)
    try:
        return world.get_item(names, name)
    except KeyError as error:
        world.check_origin(error)
        return MISSING


def find_method_model(callee: Any, owner: Value) -> MethodModel | None:
    """The model of a bound method of a builtin type."""
    name = callee.__name__
    for kind in type(owner).__mro__:
        if kind.__flags__ & attributes.IMMUTABLE_TYPE and name in kind.__dict__:
            return METHOD_MODELS.get((kind, name))
    return None


def call_with_owner(
    method: MethodModel,
    callee: Value,
    owner: Value,
    world: World,
    arguments: tuple[Value, ...],
    keywords: dict[str, Value],
) -> Value:
    return method(world, callee, owner, arguments, keywords)


def call_slot(
    model: Model,
    slot: Value,
    callee: Any,
    world: World,
    arguments: tuple[Value, ...],
    keywords: dict[str, Value],
) -> Value:
    """`super().__setattr__` and its like: a slot bound to an object."""
    if fits(slot, (callee.__self__, *arguments), keywords):
        return model(world, (callee.__self__, *arguments), keywords)
    return world.call_native(callee, arguments, keywords)


def call_if_it_fits(
    model: Model, callee: Value, world: World, arguments: tuple[Value, ...], keywords: dict[str, Value]
) -> Value:
    """A model's call; what the signature does not allow is CPython's to refuse."""
    if fits(callee, arguments, keywords):
        return model(world, arguments, keywords)
    return world.call_native(callee, arguments, keywords)
