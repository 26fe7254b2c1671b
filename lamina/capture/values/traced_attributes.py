"""Attributes of a traced program: outside ones are guarded when read and recorded when written."""

from __future__ import annotations

import types
from typing import Any

import torch

from lamina.capture.class_guards import guard_own_dict
from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.sources import Attribute, ClassEntry, Field, Fixed, Item, Source
from lamina.capture.values import attributes
from lamina.capture.values.attribute_view import AttributeView
from lamina.capture.values.attributes import find_in_type, is_python_method
from lamina.capture.values.opaque import OpaqueValue
from lamina.capture.values.open_containers import OpenContainer
from lamina.capture.values.outside import IMMUTABLE
from lamina.capture.values.subclasses import (
    SubclassValue,
    load_subclass_attribute,
    store_subclass_attribute,
)
from lamina.capture.values.tensor import TensorValue
from lamina.capture.values.traced_names import TracedNames
from lamina.capture.values.trust import is_trusted_module

WRITABLE_FIELDS = (
    "__defaults__",
    "__kwdefaults__",
    "__code__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__annotations__",
)
"""Attributes of each function that may be set."""
FIELDS = (types.GetSetDescriptorType, types.MemberDescriptorType)
"""C-level descriptors of what an object holds."""
MODULE_TABLES = ("_parameters", "_buffers", "_modules")


class TracedAttributes(TracedNames):
    """How a trace reads and writes attributes."""

    def load_attribute(self, owner: Value, name: str) -> Value:
        kind = type(owner)
        if kind is TensorValue:
            return self._load_tensor_attribute(owner, name)
        if kind is SubclassValue:
            return load_subclass_attribute(self, owner, name)
        if kind is OpaqueValue:
            owner.refuse()
        if issubclass(kind, OpenContainer):
            return owner.load(name)
        if kind is types.FunctionType:
            return self._load_function_attribute(owner, name)
        if kind is types.ModuleType or issubclass(kind, types.ModuleType):
            return self._load_module_attribute(owner, name)
        if issubclass(kind, torch.nn.Module):
            found = self._load_module_entry(owner, kind, name)
            if found is not MISSING:
                return found
        if kind is types.MethodType and not hasattr(types.MethodType, name):
            return self.load_attribute(owner.__func__, name)
        return attributes.load_attribute(self, owner, name)

    def _load_module_entry(self, owner: torch.nn.Module, kind: type, name: str) -> Value:
        """A parameter, buffer or submodule of a module from outside, or MISSING."""
        state = self.importer.states.get(id(owner))
        if state is None or name in state.known or name in owner.__dict__:
            return MISSING
        if find_in_type(kind, "__getattr__") is not torch.nn.Module.__getattr__:
            return MISSING
        if find_in_type(kind, name) is not MISSING:
            return MISSING
        if find_in_type(kind, "__getattribute__") is not object.__getattribute__:
            return MISSING
        for table in MODULE_TABLES:
            entries = self.read_instance_raw(owner, table)
            if entries is not MISSING and entries is not None and name in entries:
                self.importer.guard_absent(state, name)
                return self.read_entry(owner, entries, table, name)
        return MISSING

    def _load_tensor_attribute(self, owner: TensorValue, name: str) -> Value:
        if owner.real is not None and owner.source is not None:
            own = owner.real.__dict__ if hasattr(owner.real, "__dict__") else {}
            if name in own:
                return self.importer.bring(own[name], Attribute(owner.source, name))
            if name == "grad" and id(owner) in self.dropped_gradients:
                return None
            if name == "grad":
                return self.importer.bring(owner.real.grad, Field(owner.source, "grad"))
            if not hasattr(type(owner.real), name):
                self.importer.guard_no_attribute(owner.source, name)
        return owner.read_attribute(name)

    def load_native_attribute(self, owner: Value, name: str) -> Value:
        state = self.importer.states.get(id(owner))
        raw = find_in_type(type(owner), name)
        if state is not None and (raw is MISSING or type(raw) in FIELDS):
            # An object of a native class that has attributes, as types.SimpleNamespace.
            return attributes.load_instance_attribute(self, owner, name)
        return super().load_native_attribute(owner, name)

    def _load_function_attribute(self, owner: types.FunctionType, name: str) -> Value:
        found = self.importer.function_sources.get(id(owner))
        if name == "__globals__":
            if found is not None:
                self.guards.identity(Field(found, name), owner.__globals__)
            return self.read_namespace(owner.__globals__)
        if id(owner) not in self.functions and name not in owner.__dict__:
            return self._load_own_field(
                owner, Fixed(owner, owner.__qualname__) if found is None else found, name
            )
        value = call_natively(getattr, owner, name)
        if id(owner) in self.functions:
            return value
        if found is not None:
            return self.importer.bring(value, Attribute(found, name))
        is_trusted = is_trusted_module(owner.__module__)
        source = Fixed(owner, owner.__qualname__)
        if not is_trusted:
            guard_own_dict(self.guards, source)
        return self.importer.bring(value, Attribute(source, name), is_trusted)

    def _load_own_field(self, owner: types.FunctionType, source: Source, name: str) -> Value:
        """What every function has (`__defaults__`, ...), or the error that this one has no such attribute."""
        if find_in_type(types.FunctionType, name) is MISSING:
            if not is_trusted_module(owner.__module__):
                entries = Field(source, "__dict__")
                self.importer.guard_absent_key(entries, name)
            return call_natively(getattr, owner, name)
        value = call_natively(getattr, owner, name)
        if name not in WRITABLE_FIELDS or is_trusted_module(owner.__module__):
            return value
        return self.importer.bring(value, Field(source, name))

    def _load_module_attribute(self, owner: types.ModuleType, name: str) -> Value:
        entries = owner.__dict__
        raw = find_in_type(type(owner), name)
        if raw is not MISSING and is_python_method(find_in_type(type(raw), "__get__")):
            # A switch of torch's in the place of a module's entry, as `torch.backends.cudnn.enabled`.
            return attributes.load_instance_attribute(self, owner, name)
        is_trusted = is_trusted_module(owner.__name__)
        if name == "__dict__" and not (is_trusted and id(entries) not in self.globals_written):
            return self.read_namespace(entries)
        value = self.read_name(entries, name)
        if value is not MISSING:
            return value
        hook = MISSING if is_trusted or raw is not MISSING else self.read_name(entries, "__getattr__")
        if hook is not MISSING:
            return self.call(hook, (name,), {})
        if name in entries:
            raise AttributeError(f"module {owner.__name__!r} has no attribute {name!r}", name=name, obj=owner)
        value = call_natively(getattr, owner, name)
        return value if name not in entries else self.read_name(entries, name)

    def read_instance(self, owner: Value, name: str) -> Value:
        state = self.importer.states.get(id(owner))
        if state is not None:
            return self.importer.read_attribute(state, name)
        value = super().read_instance(owner, name)
        if value is MISSING:
            self.importer.guard_absent_of_copy(owner, name)
        return value

    def read_instance_raw(self, owner: Value, name: str) -> Value:
        """An own attribute without guards: for tables whose use is guarded entry by entry."""
        state = self.importer.states.get(id(owner))
        if state is None:
            return super().read_instance(owner, name)
        if name in state.known:
            return state.known[name]
        entries = object.__getattribute__(owner, "__dict__")
        value = entries.get(name, MISSING)
        copied = self.importer.copies.get(id(value))
        return value if copied is None else copied.copy

    def read_entry(self, module: Value, entries: Any, table: str, name: str) -> Value:
        """One entry of a module's table of parameters, buffers or submodules."""
        if id(module) not in self.importer.states or id(entries) in self.importer.copy_ids:
            return entries[name]
        state = self.importer.states[id(module)]
        if table in state.known:
            return entries[name]
        label = f"{state.source.describe()}.{table}"
        if isinstance(state.source, Fixed):
            self.guards.identity(Attribute(state.source, table), entries)
            return self.importer.bring(entries[name], Item(Fixed(entries, label), name))
        return self.importer.bring(entries[name], Item(Attribute(state.source, table), name))

    def note_shadowed(self, holder: type, name: str, raw: Value) -> None:
        if id(holder) not in self.classes and not is_trusted_module(holder.__module__):
            guard = self.guards.constant if type(raw) in IMMUTABLE else self.guards.identity
            guard(ClassEntry(holder, name), raw)
            # A class that gets a `__set__` makes data descriptors of its instances, which win.
            self.importer.classes.append(type(raw))

    def read_class_value(self, holder: type, name: str, raw: Value) -> Value:
        if id(holder) in self.classes:
            return raw
        return self.importer.bring(raw, ClassEntry(holder, name), is_trusted_module(holder.__module__))

    def bind_descriptor(self, raw: Value, holder: type, name: str, owner: Value, kind: type) -> Value:
        raw_kind = type(raw)
        if raw_kind in FIELDS and owner is not None:
            return self._read_native_field(raw, name, owner, kind)
        if not is_trusted_module(holder.__module__) and id(holder) not in self.classes:
            is_first = (
                raw_kind is types.FunctionType and type(kind) is type and find_in_type(kind, name) is raw
            )
            if is_first and owner is not kind:
                self.guards.identity(Field(Fixed(kind, kind.__qualname__), name), raw)
            elif raw_kind in (types.FunctionType, classmethod, staticmethod, property):
                self.guards.identity(ClassEntry(holder, name), raw)
            elif find_in_type(raw_kind, "__get__") is not MISSING:
                raw = self.read_class_value(holder, name, raw)
        return attributes.bind_descriptor(self, raw, holder, name, owner, kind)

    def _read_native_field(self, raw: Any, name: str, owner: Value, kind: type) -> Value:
        state = self.importer.states.get(id(owner))
        if state is None:
            found = call_natively(raw.__get__, owner, kind)
            is_outside = isinstance(owner, type) and not is_trusted_module(owner.__module__)
            if is_outside and id(owner) not in self.classes and type(found) in (str, tuple, type(None)):
                return self.importer.bring(found, Field(Fixed(owner, owner.__qualname__), name))
            return found
        if name == "__dict__":
            return AttributeView(self.importer, state)
        if name == "__class__":
            return type(owner)
        if name in state.known:
            return state.known[name]
        try:
            found = call_natively(raw.__get__, owner, kind)
        except AttributeError:
            self.importer.guard_no_attribute(state.source, name)
            raise
        value = self.importer.bring(found, Field(state.source, name))
        state.known[name] = state.read[name] = value
        return value

    def write_instance(self, owner: Value, name: str, value: Value) -> None:
        state = self.importer.states.get(id(owner))
        if state is not None:
            if name in ("__class__", "__dict__"):
                stop("attribute", f"{name} of an object from outside is set")
            state.known[name] = value
            return
        if type(owner) is SubclassValue:
            store_subclass_attribute(owner, name, value)
            return
        if type(owner) is TensorValue and name == "requires_grad" and value is owner.fake.requires_grad:
            return
        if type(owner) is TensorValue and name == "grad" and owner.source is not None and value is None:
            self.dropped_gradients[id(owner)] = owner
            return
        if self.is_open_module(owner):
            self.write_name(owner.__dict__, name, value)
            return
        self._refuse_shared(owner, name)
        super().write_instance(owner, name, value)

    def erase_instance(self, owner: Value, name: str) -> None:
        state = self.importer.states.get(id(owner))
        if state is None and self.is_open_module(owner):
            if self.read_name(owner.__dict__, name) is MISSING:
                raise AttributeError(
                    f"module {owner.__name__!r} has no attribute {name!r}", name=name, obj=owner
                )
            self.write_name(owner.__dict__, name, UNBOUND)
            return
        if state is None:
            self._refuse_shared(owner, name)
            super().erase_instance(owner, name)
            return
        if self.importer.read_attribute(state, name) is MISSING:
            raise AttributeError(name)
        self.importer.erase_attribute(state, name)

    def is_open_module(self, owner: Value) -> bool:
        """Whether `owner` is a module whose attributes are the global names of the user's functions."""
        return type(owner) is types.ModuleType and not is_trusted_module(owner.__name__)

    def _refuse_shared(self, owner: Value, name: str) -> None:
        """Objects that many programs share are not written while tracing."""
        kind = type(owner)
        if kind is OpaqueValue:
            owner.refuse()
        if kind is TensorValue or kind is SubclassValue:
            stop("tensor-attribute", f"the attribute {name} of a tensor is set")
        made_here = id(owner) in self.functions or id(owner) in self.classes
        if (issubclass(kind, type) or kind in (types.FunctionType, types.ModuleType)) and not made_here:
            stop("shared-object", f"the attribute {name} of {getattr(owner, '__name__', owner)} is set")
