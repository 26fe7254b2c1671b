"""Names of a traced program: globals, cells and defaults are read with guards, writes are recorded."""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from typing import Any

from lamina.capture.dynamic import current_history
from lamina.capture.graph_builder import GraphBuilder
from lamina.capture.guards import GuardSet
from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, UNBOUND, Value, stop
from lamina.capture.sources import CellContents, Field, Fixed, Global, Item, Source
from lamina.capture.values.modes import Modes
from lamina.capture.values.namespaces import Namespace
from lamina.capture.values.outside import IMMUTABLE, Importer
from lamina.capture.values.tensor import TensorValue
from lamina.capture.values.trust import is_library_file, is_trusted_module
from lamina.capture.values.world import World

BUILTINS = frozenset(vars(builtins))
"""Names that Python gives; others in that module are a program's own."""


class TracedNames(World):
    """The state of one trace, and how it reads and writes names."""

    def __init__(self) -> None:
        self.guards = GuardSet()
        self.builder = GraphBuilder(self)
        self.history = current_history()
        self.importer = Importer(self, self.guards)
        self.effects: list[tuple[Any, tuple[Value, ...], dict[str, Value]]] = []
        self.modes = Modes(self)
        self.identified: list[tuple[type, Source]] = []
        self.cells: dict[int, types.CellType] = {}
        self.cell_sources: dict[int, Source] = {}
        """Where cells come from that are not the same in every call."""
        self.cell_writes: dict[int, tuple[types.CellType, Value]] = {}
        self.functions: dict[int, types.FunctionType] = {}
        self.classes: dict[int, type] = {}
        self.entered: dict[int, types.FunctionType] = {}
        """Functions from outside that were called."""
        self.globals_written: dict[int, tuple[dict[str, Value], dict[str, Value]]] = {}
        self.namespaces: dict[int, Namespace] = {}
        self.dropped_gradients: dict[int, TensorValue] = {}
        """Tensors from outside whose `grad` was set to None."""
        self.hook_tables: dict[int, tuple[dict[str, Any] | None, str, Any]] = {}
        """Tables of hooks that were found empty, and where they lie."""
        self.defaults: dict[int, tuple[tuple[Value, ...], dict[str, Value]]] = {}

    def is_user_file(self, name: str) -> bool:
        return not is_library_file(name)

    def read_namespace(self, entries: dict[str, Value]) -> Namespace:
        """A dictionary of globals as a value of the program, one for each."""
        return self.namespaces.setdefault(id(entries), Namespace(self, entries))

    def read_globals(self, frame: Any) -> Value:
        return self.read_namespace(frame.global_names)

    def read_name(self, entries: dict[str, Value], name: Value) -> Value:
        """What a dictionary of globals has under a name, or MISSING; guarded."""
        copied = self.importer.copies.get(id(entries))
        if copied is not None:
            return copied.copy.get(name, MISSING)
        written = self.globals_written.get(id(entries))
        if written is not None and name in written[1]:
            value = written[1][name]
            return MISSING if value is UNBOUND else value
        value = entries.get(name, MISSING)
        is_trusted = is_trusted_module(entries.get("__name__"))
        if value is not MISSING:
            return self.importer.bring(value, Global(entries, name), is_trusted)
        if not is_trusted:
            self.importer.guard_absent_key(Fixed(entries, f"globals of {entries.get('__name__')}"), name)
        return MISSING

    def write_name(self, entries: dict[str, Value], name: str, value: Value) -> None:
        if id(entries) in self.importer.copies:
            stop("globals", "a global is set in a dict that was read as a whole")
        self.globals_written.setdefault(id(entries), (entries, {}))[1][name] = value

    def load_global(self, frame: Any, name: str) -> Value:
        value = self.read_name(frame.global_names, name)
        if value is not MISSING:
            return value
        value = frame.builtins.get(name, MISSING)
        if value is MISSING:
            raise NameError(f"name {name!r} is not defined", name=name)
        if name not in BUILTINS and not is_trusted_module(frame.global_names.get("__name__")):
            return self.importer.bring(value, Global(frame.builtins, name))
        return value

    def store_global(self, frame: Any, name: str, value: Value) -> None:
        self.write_name(frame.global_names, name, value)

    def delete_global(self, frame: Any, name: str) -> None:
        self.load_global(frame, name)
        self.store_global(frame, name, UNBOUND)

    def note_cell(self, cell: types.CellType) -> None:
        self.cells[id(cell)] = cell

    def note_function(self, function: types.FunctionType) -> None:
        self.functions[id(function)] = function

    def note_class(self, kind: type) -> None:
        self.classes[id(kind)] = kind
        self.machine.note_birth(kind)

    def load_cell(self, cell: types.CellType) -> Value:
        if id(cell) in self.cells:
            return super().load_cell(cell)
        written = self.cell_writes.get(id(cell))
        if written is not None:
            return written[1]
        try:
            value = cell.cell_contents
        except ValueError:
            stop("unbound-cell", "a closure variable without a value is read")
        found = self.cell_sources.get(id(cell))
        source = CellContents(cell, "") if found is None else Field(found, "cell_contents")
        return self.importer.bring(value, source)

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

    def note_entered(self, function: types.FunctionType) -> None:
        if id(function) in self.entered or id(function) in self.functions:
            return
        self.entered[id(function)] = function
        is_path = id(function) in self.importer.function_sources
        if not is_path and not is_trusted_module(function.__module__):
            source = Fixed(function, function.__qualname__)
            self.guards.identity(Field(source, "__code__"), function.__code__)

    def read_defaults(self, function: types.FunctionType) -> tuple[tuple[Value, ...], dict[str, Value]]:
        if id(function) in self.functions:
            return super().read_defaults(function)
        found = self.defaults.get(id(function))
        if found is None:
            found = self.defaults[id(function)] = self._bring_defaults(function)
        return found

    def _bring_defaults(self, function: types.FunctionType) -> tuple[tuple[Value, ...], dict[str, Value]]:
        found = self.importer.function_sources.get(id(function))
        if found is not None:
            positional = self.importer.bring(function.__defaults__, Field(found, "__defaults__"))
            named = self.importer.bring(function.__kwdefaults__, Field(found, "__kwdefaults__"))
            return positional or (), named or {}
        source = Fixed(function, function.__qualname__)
        is_trusted = is_trusted_module(function.__module__)
        if not is_trusted:
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
        package = frame.global_names.get("__package__") or ""
        full = call_natively(importlib.util.resolve_name, "." * level + name, package) if level else name
        is_trusted = is_trusted_module(full)
        loaded = Fixed(sys.modules, "sys.modules")
        try:
            module = call_natively(__import__, name, frame.global_names, None, names, level)
        except ImportError:
            if not is_trusted:
                self.importer.guard_absent_key(loaded, full)
            raise
        for each in (full, module.__name__):
            if not is_trusted and each in sys.modules:
                self.guards.identity(Item(loaded, each), sys.modules[each])
        return module
