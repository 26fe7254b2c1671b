"""Names of values while text is read: scopes, redefinition, uses before definitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from lamina.ir.core import UNKNOWN, Operation, Value
from lamina.ir.text.cursor import Cursor
from lamina.ir.types import Type

Key = tuple[str, int]


@dataclass(slots=True)
class Scope:
    """What one isolated region sees: names defined, by nesting level, and uses that wait for a definition."""

    values: dict[Key, Value] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    levels: list[list[Key]] = field(default_factory=list)
    waiting: dict[Key, tuple[Value, int]] = field(default_factory=dict)


class Names:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.scopes: list[Scope] = []

    def enter(self, *, is_isolated: bool) -> None:
        if is_isolated or not self.scopes:
            self.scopes.append(Scope())
        self.scopes[-1].levels.append([])

    def leave(self) -> None:
        scope = self.scopes[-1]
        for key in scope.levels.pop():
            del scope.values[key]
        if scope.levels:
            return
        for (name, number), (_, at) in scope.waiting.items():
            end = f"#{number}" if number else ""
            raise self.cursor.error(f"use of undeclared value '%{name}{end}'", at)
        self.scopes.pop()

    def define(self, name: str, number: int, value: Value, at: int) -> None:
        scope = self.scopes[-1]
        key = name, number
        if key in scope.values:
            raise self.cursor.error(f"redefinition of value '%{name}'", at)
        scope.values[key] = value
        scope.levels[-1].append(key)
        if not scope.waiting or key not in scope.waiting:
            return
        placeholder, use = scope.waiting.pop(key)
        if placeholder.type is not value.type:
            raise self.cursor.error(
                f"'%{name}' is used as {placeholder.type} and defined as {value.type}", use
            )
        placeholder.replace_all_uses_with(value)

    def use(self, name: str, number: int, at: int, type_: Type) -> Value:
        scope = self.scopes[-1]
        key = name, number
        found = scope.values.get(key)
        if found is None and key in scope.waiting:
            found = scope.waiting[key][0]
        if found is None:
            if number and (name, 0) in scope.values:
                raise self.cursor.error(f"'%{name}' has no result number {number}", at)
            found = Operation("builtin.forward_reference", (), (type_,), None, (), (), UNKNOWN).results[0]
            scope.waiting[key] = found, at
        if found.type is not type_:
            raise self.cursor.error(f"'%{name}' is of type {found.type}, used here as {type_}", at)
        return found
