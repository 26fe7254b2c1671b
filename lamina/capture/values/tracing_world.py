"""The world of a traced program: reads are guarded, writes recorded, tensors go into the graph."""

from __future__ import annotations

import functools
import logging
import types
import weakref
from typing import Any

import torch

from lamina.capture.graph_builder import GraphBuilder
from lamina.capture.guards import FLAGS, MODES, GuardSet
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.sources import Attribute, Called, CellContents, ClassEntry, Field, Fixed, Global, Item
from lamina.capture.values import attributes, calls, natives, torch_calls
from lamina.capture.values.attribute_view import AttributeView
from lamina.capture.values.attributes import find_in_type, is_native_type
from lamina.capture.values.operators import COMPARE
from lamina.capture.values.outside import IMMUTABLE, Importer, LargeDict
from lamina.capture.values.tensor import TensorValue
from lamina.capture.values.trust import is_library_file, is_trusted_module
from lamina.capture.values.world import World

COMPARING = frozenset(native for native, *_ in COMPARE.values())
MODULE_TABLES = ("_parameters", "_buffers", "_modules")
COMPILED_MARK = "__lamina__"
"""The attribute by which a compiled function, or a compiled module's class, names its state."""
OPERATOR_KINDS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
DICT_FACES = (LargeDict, AttributeView)
HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class TracingWorld(World):
    """One trace. Holds the graph, the guards, what came from outside and what was changed there."""

    def __init__(self) -> None:
        self.guards = GuardSet()
        self.builder = GraphBuilder(self)
        self.importer = Importer(self, self.guards)
        self.effects: list[tuple[Any, tuple[Value, ...], dict[str, Value]]] = []
        self.autocasts: list[tuple[Any, Any, torch.fx.Node]] = []
        self.cells: dict[int, types.CellType] = {}
        self.cell_writes: dict[int, tuple[types.CellType, Value]] = {}
        self.functions: dict[int, types.FunctionType] = {}
        self.classes: dict[int, type] = {}
        self.globals_written: dict[int, tuple[dict[str, Value], dict[str, Value]]] = {}
        self.hook_tables: dict[int, Any] = {}
        self.defaults: dict[int, tuple[tuple[Value, ...], dict[str, Value]]] = {}

    # names

    def is_user_file(self, name: str) -> bool:
        return not is_library_file(name)

    def read_globals(self, frame: Any) -> dict[str, Value]:
        stop("globals", "globals() is used as a dict")

    def load_global(self, frame: Any, name: str) -> Value:
        entries = frame.global_names
        written = self.globals_written.get(id(entries))
        if written is not None and name in written[1]:
            value = written[1][name]
            if value is UNBOUND:
                raise NameError(f"name {name!r} is not defined", name=name)
            return value
        value = entries.get(name, MISSING)
        is_trusted = is_trusted_module(entries.get("__name__"))
        if value is not MISSING:
            return self.importer.bring(value, Global(entries, name), is_trusted)
        value = frame.builtins.get(name, MISSING)
        if value is MISSING:
            raise NameError(f"name {name!r} is not defined", name=name)
        if not is_trusted:
            self.importer.guard_absent_key(Fixed(entries, f"globals of {entries.get('__name__')}"), name)
        return value

    def store_global(self, frame: Any, name: str, value: Value) -> None:
        entries = frame.global_names
        self.globals_written.setdefault(id(entries), (entries, {}))[1][name] = value

    def delete_global(self, frame: Any, name: str) -> None:
        self.load_global(frame, name)
        self.store_global(frame, name, UNBOUND)

    def note_cell(self, cell: types.CellType) -> None:
        self.cells[id(cell)] = cell

    def note_function(self, function: types.FunctionType) -> None:
        self.functions[id(function)] = function

    def note_class(self, kind: type) -> None:
        self.classes[id(kind)] = kind

    def load_cell(self, cell: types.CellType) -> Value:
        if id(cell) in self.cells:
            return super().load_cell(cell)
        written = self.cell_writes.get(id(cell))
        if written is not None:
            return written[1]
        try:
            value = cell.cell_contents
        except ValueError:
            return UNBOUND
        return self.importer.bring(value, CellContents(cell, ""))

    def store_cell(self, cell: types.CellType, value: Value) -> None:
        if id(cell) in self.cells:
            cell.cell_contents = value
        else:
            self.cell_writes[id(cell)] = (cell, value)

    def delete_cell(self, cell: types.CellType) -> None:
        if id(cell) in self.cells:
            del cell.cell_contents
        else:
            self.cell_writes[id(cell)] = (cell, UNBOUND)

    def read_defaults(self, function: types.FunctionType) -> tuple[tuple[Value, ...], dict[str, Value]]:
        if id(function) in self.functions:
            return super().read_defaults(function)
        found = self.defaults.get(id(function))
        if found is None:
            found = self.defaults[id(function)] = self._bring_defaults(function)
        return found

    def _bring_defaults(self, function: types.FunctionType) -> tuple[tuple[Value, ...], dict[str, Value]]:
        source = Fixed(function, function.__qualname__)
        is_trusted = is_trusted_module(function.__module__)
        if not is_trusted:
            self.guards.identity(Field(source, "__code__"), function.__code__)
            self.guards.identity(Field(source, "__defaults__"), function.__defaults__)
            self.guards.identity(Field(source, "__kwdefaults__"), function.__kwdefaults__)
        positional = tuple(
            value
            if type(value) in IMMUTABLE
            else self.importer.bring(value, Item(Field(source, "__defaults__"), index))
            for index, value in enumerate(function.__defaults__ or ())
        )
        named = {
            name: self.importer.bring(value, Item(Field(source, "__kwdefaults__"), name), is_trusted)
            for name, value in (function.__kwdefaults__ or {}).items()
        }
        return positional, named

    def import_module(self, name: str, names: Value, level: int, frame: Any) -> Value:
        return __import__(name, frame.global_names, None, names, level)

    # attributes

    def load_attribute(self, owner: Value, name: str) -> Value:
        kind = type(owner)
        if kind is TensorValue:
            return self._load_tensor_attribute(owner, name)
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
        """A parameter, buffer or submodule of a module from outside, or MISSING.

        Module.__setattr__ keeps names in its tables and own attributes apart, so no guard says that the name
        is not an own attribute.
        """
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
                return self.read_entry(owner, entries, table, name)
        return MISSING

    def _load_tensor_attribute(self, owner: TensorValue, name: str) -> Value:
        if owner.real is not None and owner.source is not None:
            own = owner.real.__dict__ if hasattr(owner.real, "__dict__") else {}
            if name in own:
                return self.importer.bring(own[name], Attribute(owner.source, name))
            if name == "grad":
                return self.importer.bring(owner.real.grad, Field(owner.source, "grad"))
        return owner.read_attribute(name)

    def _load_function_attribute(self, owner: types.FunctionType, name: str) -> Value:
        value = getattr(owner, name)
        if id(owner) in self.functions or name not in owner.__dict__:
            return value
        is_trusted = is_trusted_module(owner.__module__)
        return self.importer.bring(value, Attribute(Fixed(owner, owner.__qualname__), name), is_trusted)

    def _load_module_attribute(self, owner: types.ModuleType, name: str) -> Value:
        entries = owner.__dict__
        if name not in entries:
            value = getattr(owner, name)
            if name not in entries:
                return value
        written = self.globals_written.get(id(entries))
        if written is not None and name in written[1]:
            return written[1][name]
        return self.importer.bring(entries[name], Global(entries, name), is_trusted_module(owner.__name__))

    def read_instance(self, owner: Value, name: str) -> Value:
        state = self.importer.states.get(id(owner))
        if state is not None:
            return self.importer.read_attribute(state, name)
        return super().read_instance(owner, name)

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
            return self.importer.bring(entries[name], Item(Fixed(entries, label), name))
        return self.importer.bring(entries[name], Item(Attribute(state.source, table), name))

    def read_class_value(self, holder: type, name: str, raw: Value) -> Value:
        if id(holder) in self.classes:
            return raw
        return self.importer.bring(raw, ClassEntry(holder, name), is_trusted_module(holder.__module__))

    def bind_descriptor(self, raw: Value, holder: type, name: str, owner: Value, kind: type) -> Value:
        raw_kind = type(raw)
        if raw_kind in (types.GetSetDescriptorType, types.MemberDescriptorType) and owner is not None:
            return self._read_native_field(raw, name, owner, kind)
        if not is_trusted_module(holder.__module__) and id(holder) not in self.classes:
            is_first = (
                raw_kind is types.FunctionType and type(kind) is type and find_in_type(kind, name) is raw
            )
            if is_first and owner is not kind:
                self.guards.identity(Field(Fixed(kind, kind.__qualname__), name), raw)
            elif raw_kind in (types.FunctionType, classmethod, staticmethod, property):
                self.guards.identity(ClassEntry(holder, name), raw)
        return attributes.bind_descriptor(self, raw, holder, name, owner, kind)

    def _read_native_field(self, raw: Any, name: str, owner: Value, kind: type) -> Value:
        state = self.importer.states.get(id(owner))
        if state is None:
            return raw.__get__(owner, kind)
        if name == "__dict__":
            return AttributeView(self.importer, state)
        if name == "__class__":
            return type(owner)
        if name in state.known:
            return state.known[name]
        value = self.importer.bring(raw.__get__(owner, kind), Field(state.source, name))
        state.known[name] = state.read[name] = value
        return value

    def write_instance(self, owner: Value, name: str, value: Value) -> None:
        state = self.importer.states.get(id(owner))
        if state is not None:
            state.known[name] = value
            return
        self._refuse_shared(owner, name)
        super().write_instance(owner, name, value)

    def erase_instance(self, owner: Value, name: str) -> None:
        state = self.importer.states.get(id(owner))
        if state is None:
            self._refuse_shared(owner, name)
            super().erase_instance(owner, name)
            return
        if self.importer.read_attribute(state, name) is MISSING:
            raise AttributeError(name)
        self.importer.erase_attribute(state, name)

    def _refuse_shared(self, owner: Value, name: str) -> None:
        """Objects that many programs share are not written while tracing."""
        kind = type(owner)
        if kind is TensorValue:
            stop("tensor-attribute", f"the attribute {name} of a tensor is set")
        made_here = id(owner) in self.functions or id(owner) in self.classes
        if (issubclass(kind, type) or kind in (types.FunctionType, types.ModuleType)) and not made_here:
            stop("shared-object", f"the attribute {name} of {getattr(owner, '__name__', owner)} is set")

    # operators

    def apply_native(self, native: Any, *operands: Value) -> Value:
        if native in COMPARING and any(isinstance(operand, natives.CONTAINERS) for operand in operands):
            natives.check_plain(operands, native.__name__)
        return native(*operands)

    def is_same(self, left: Value, right: Value) -> bool:
        if type(left) is LargeDict and type(right) is LargeDict:
            return left.original is right.original
        if left is right:
            return True
        first, second = self.importer.find_source(left), self.importer.find_source(right)
        if first is not None and second is not None:
            self.guards.distinct(first, second)
        return False

    def type_of(self, value: Value) -> type:
        kind = type(value)
        if kind is TensorValue:
            return value.kind  # type: ignore[no-any-return]
        return dict if kind in DICT_FACES else super().type_of(value)

    def is_trusted_check(self, kind: Value) -> bool:
        return is_trusted_module(getattr(type(kind), "__module__", None)) or super().is_trusted_check(kind)

    def is_instance(self, value: Value, kind: Value) -> bool:
        if type(value) is not TensorValue:
            return isinstance({}, kind) if type(value) in DICT_FACES else super().is_instance(value, kind)
        if kind in (torch.Tensor, object, torch._C.TensorBase):
            return True
        if kind is torch.nn.Parameter:
            return value.kind is torch.nn.Parameter
        if isinstance(kind, type) and is_native_type(kind):
            return issubclass(value.kind, kind)
        return isinstance(value.fake, kind) and kind not in (torch._subclasses.FakeTensor,)

    # calls

    def find_model(self, callee: Value) -> Any:
        model = torch_calls.TORCH_MODELS.get(callee)
        return model if model is not None else super().find_model(callee)

    def call(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        kind = type(callee)
        if kind in OPERATOR_KINDS:
            return self.builder.call(callee, arguments, keywords)
        compiled = (callee if kind is types.FunctionType else kind).__dict__.get(COMPILED_MARK)
        if compiled is not None and hasattr(compiled, "original"):
            # Compiled code inside compiled code is one program: the original is entered.
            original = compiled.original
            callee = self.importer.bring(original, Fixed(original, natives.describe_native(callee)))
        return calls.call(self, callee, arguments, keywords)

    def call_python(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        if torch_calls.is_leaf_function(function, arguments, keywords):
            return torch_calls.record_leaf(self, function, arguments, keywords)
        return self.machine.call_function(function, arguments, keywords)

    def call_native(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        if torch_calls.is_torch_builtin(callee) or torch_calls.is_tensor_method(callee):
            return torch_calls.record_leaf(self, callee, arguments, keywords)
        if isinstance(callee, functools._lru_cache_wrapper):
            return self._call_cached(callee, arguments, keywords)
        if hasattr(type(callee), "__machine_native__"):
            return callee(*arguments, **keywords)
        if isinstance(callee, weakref.ReferenceType):
            return self._call_reference(callee)
        if not natives.is_pure_native(callee):
            stop(
                "native-call",
                f"{natives.describe_native(callee)} is native code that the machine does not know",
                "call it outside the compiled function",
            )
        natives.check_readers(callee, arguments)
        return callee(*arguments, **keywords)

    def _call_reference(self, reference: Any) -> Value:
        state = self.importer.states.get(id(reference))
        return reference() if state is None else self.importer.bring(reference(), Called(state.source))

    def _call_cached(self, callee: Any, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        if arguments and isinstance(arguments[0], logging.Logger):
            return self.add_effect(callee, arguments, keywords)
        # The cache only saves work: the function itself gives the same value and its guards.
        return self.call(callee.__wrapped__, arguments, keywords)

    # modes, modules, effects

    def record_mode(self, function: Any, arguments: tuple[Any, ...]) -> torch.fx.Node:
        """A node that switches a mode when the graph runs."""
        node = self.builder.graph.call_function(function, arguments)
        node.meta["location"] = self.machine.location()
        return node

    def has_hooks(self, module: Value) -> bool:
        """Whether calling `module` does more than its forward; guards the answer no."""
        tables = [self.read_instance_raw(module, name) for name in HOOK_TABLES]
        shared = torch.nn.modules.module
        everywhere = [
            getattr(shared, name)
            for name in (
                "_global_backward_pre_hooks",
                "_global_backward_hooks",
                "_global_forward_hooks",
                "_global_forward_pre_hooks",
            )
        ]
        for table in (*tables, *everywhere):
            if table:
                return True
            self.hook_tables[id(table)] = table
        return False

    def add_effect(self, function: Any, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> None:
        """Note a call to be made after the graph has run; only on values that cannot change until then."""
        for value in (*arguments, *keywords.values()):
            if not is_replayable(value):
                stop(
                    "effect-argument",
                    f"{natives.describe_native(function)} gets a {type(value).__qualname__}",
                    "print numbers and texts only, or call it outside the compiled function",
                )
        self.effects.append((function, arguments, keywords))

    def finish_guards(self) -> None:
        """The guard that no module got a hook."""
        tables = tuple(self.hook_tables.values())
        if tables:
            self.guards.add(
                FLAGS, "module hooks", "no hooks", lambda writer: f"not any({writer.constant(tables)})"
            )

    def start_guards(self) -> None:
        """Guards on the thread-wide modes that every trace depends on."""
        for name, query in MODE_QUERIES:
            self.guard_query(name, query)
        if torch._C._is_any_autocast_enabled():
            stop("autocast", "the call is made under autocast", "enter autocast inside the compiled function")
        if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
            stop("torch-mode", "the call is made under a mode that intercepts torch functions")

    def guard_query(self, name: str, query: Any) -> None:
        """Guard what a function without arguments says about a mode now."""
        value = query()
        if self.guards.is_new("query", name):
            write = functools.partial(write_mode, query=query, value=value)
            self.guards.add(MODES, name, repr(value), write, functools.partial(write_query, query=query))


def write_query(writer: Any, query: Any) -> str:
    return f"{writer.constant(query)}()"


def write_mode(writer: Any, query: Any, value: Any) -> str:
    test = "is" if value is None or isinstance(value, (bool, torch.dtype)) else "=="
    return f"{writer.constant(query)}() {test} {writer.constant(value)}"


MODE_QUERIES: tuple[tuple[str, Any], ...] = (
    ("grad mode", torch.is_grad_enabled),
    ("inference mode", torch.is_inference_mode_enabled),
    (
        "autocast",
        torch._C._is_any_autocast_enabled
        if hasattr(torch._C, "_is_any_autocast_enabled")
        else torch.is_autocast_enabled,
    ),
    ("default dtype", torch.get_default_dtype),
    ("torch function modes", torch._C._len_torch_function_stack),
    ("torch dispatch modes", torch._C._len_torch_dispatch_stack),
)


def is_replayable(value: Value) -> bool:
    """Whether a value is the same when it is used later."""
    if isinstance(value, (*IMMUTABLE, type, logging.Logger)):
        return True
    return isinstance(value, tuple) and all(is_replayable(item) for item in value)
