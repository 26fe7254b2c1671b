"""The world of a program run alone: nothing is outside, nothing guarded. Tracing overrides what differs."""

from __future__ import annotations

import types
from typing import Any

from lamina.capture.machine.loop import Machine
from lamina.capture.machine.signals import MISSING, UNBOUND, Value
from lamina.capture.values import attributes, builtins, calls, iteration, operators
from lamina.capture.values.builtins import METHOD_MODELS, MODELS, NATIVE_FACES, Model


class World:
    """How the machine reads, writes, calls and compares. Every method is Python's own meaning."""

    machine: Machine

    # names

    def read_defaults(self, function: types.FunctionType) -> tuple[tuple[Value, ...], dict[str, Value]]:
        return function.__defaults__ or (), function.__kwdefaults__ or {}

    def is_user_file(self, name: str) -> bool:
        return True

    def read_globals(self, frame: Any) -> dict[str, Value]:
        return frame.global_names  # type: ignore[no-any-return]

    def load_global(self, frame: Any, name: str) -> Value:
        value = frame.global_names.get(name, MISSING)
        if value is MISSING:
            value = frame.builtins.get(name, MISSING)
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
        return __import__(name, frame.global_names, None, names, level)

    # attributes

    def load_attribute(self, owner: Value, name: str) -> Value:
        return attributes.load_attribute(self, owner, name)

    def store_attribute(self, owner: Value, name: str, value: Value) -> None:
        attributes.store_attribute(self, owner, name, value)

    def delete_attribute(self, owner: Value, name: str) -> None:
        attributes.delete_attribute(self, owner, name)

    def bind_descriptor(self, raw: Value, holder: type, name: str, owner: Value, kind: type) -> Value:
        return attributes.bind_descriptor(self, raw, holder, name, owner, kind)

    def read_instance(self, owner: Value, name: str) -> Value:
        """What the instance's own dictionary holds under `name`, or MISSING."""
        try:
            entries = object.__getattribute__(owner, "__dict__")
        except AttributeError:
            return MISSING
        return entries.get(name, MISSING)

    def read_class_value(self, holder: type, name: str, raw: Value) -> Value:
        return raw

    def write_instance(self, owner: Value, name: str, value: Value) -> None:
        if issubclass(type(owner), type):
            type.__setattr__(owner, name, value)
        else:
            attributes.find_native(type(owner), "__setattr__")(owner, name, value)

    def erase_instance(self, owner: Value, name: str) -> None:
        if issubclass(type(owner), type):
            type.__delattr__(owner, name)
        else:
            attributes.find_native(type(owner), "__delattr__")(owner, name)

    # operators

    def apply_native(self, native: Any, *operands: Value) -> Value:
        return native(*operands)

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
        return builtins.to_text(self, value)

    def to_repr(self, value: Value) -> str:
        return builtins.to_repr(self, value)

    def format_value(self, value: Value, specification: str) -> str:
        return builtins.format_value(self, value, specification)

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
        return isinstance(value, kind)

    # calls

    def find_model(self, callee: Value) -> Model | None:
        owner = getattr(callee, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            method = METHOD_MODELS.get((type(owner), callee.__name__))
            if method is not None:
                return lambda world, arguments, keywords: method(world, owner, arguments, keywords)
            if isinstance(callee, types.MethodWrapperType):
                return self._find_slot_model(callee)
            if not isinstance(callee, type):
                return None
        return MODELS.get(callee)

    def _find_slot_model(self, callee: Any) -> Model | None:
        """`super().__setattr__` and its like: the slot of `object` bound to an instance."""
        owner = callee.__self__
        slot = (
            getattr(callee.__objclass__, callee.__name__, None) if hasattr(callee, "__objclass__") else None
        )
        model = MODELS.get(slot)
        if model is None:
            return None
        return lambda world, arguments, keywords: model(world, (owner, *arguments), keywords)

    def call(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        return calls.call(self, callee, arguments, keywords)

    def call_python(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        return self.machine.call_function(function, arguments, keywords)

    def call_native(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        return callee(*arguments, **keywords)

    def call_native_method(
        self, owner: Value, name: str, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        return self.call_native(getattr(owner, name), arguments, keywords)
