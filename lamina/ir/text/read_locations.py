"""Locations from text: `loc("file":1:2)`, callsite, fused, named, unknown, aliases.

An operation keeps one line and the lines that led to it, so of a fused location the first known part
stays, and of a named one what the name stands for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lamina.ir.core import UNKNOWN, Location
from lamina.ir.text.cursor import Cursor

ALIAS = re.compile(r"#([A-Za-z_][A-Za-z0-9_$.]*)")
FILE = re.compile(r'"((?:[^"\\\n]|\\.)*)"\s*:\s*([0-9]+)\s*:\s*([0-9]+)')


class Waiting(NamedTuple):
    """An alias without a definition so far, and where it was used."""

    alias: str
    at: int


class LocationReader:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.aliases: dict[str, Location] = {}

    def read(self) -> Location | Waiting:
        """`loc(...)`; an alias may be defined later, as printers put them last."""
        cursor = self.cursor
        cursor.accept_word("loc")
        cursor.expect("(", "after 'loc'")
        start = cursor.at
        alias = cursor.take(ALIAS)
        if alias is not None:
            cursor.expect(")", "to close 'loc'")
            return self.aliases.get(alias.group(1)) or Waiting(alias.group(1), start)
        found = self.read_inner()
        cursor.expect(")", "to close 'loc'")
        return found

    def read_inner(self) -> Location:
        """What stands between the parentheses of `loc`."""
        cursor = self.cursor
        start = cursor.at
        alias = cursor.take(ALIAS)
        if alias is not None:
            if alias.group(1) not in self.aliases:
                raise cursor.error(f"undefined location alias '#{alias.group(1)}'", start)
            return self.aliases[alias.group(1)]
        if cursor.accept_word("loc"):
            cursor.expect("(", "after 'loc'")
            inner = self.read_inner()
            cursor.expect(")", "to close 'loc'")
            return inner
        word = cursor.peek_word()
        if word in ("unknown", "callsite", "fused"):
            cursor.accept_word(word)
            return {"unknown": lambda: UNKNOWN, "callsite": self._callsite, "fused": self._fused}[word]()
        if cursor.looking_at('"'):
            return self._file_or_name()
        raise cursor.error('expected a location: "file":line:column, callsite, fused, unknown or an alias')

    def _file_or_name(self) -> Location:
        cursor = self.cursor
        name = cursor.string()
        if cursor.accept(":"):
            line = cursor.integer("a line number")
            cursor.expect(":", "between line and column")
            column = cursor.integer("a column number")
            if cursor.accept_word("to"):
                cursor.accept(":")
                cursor.integer("a column or line number")
                if cursor.accept(":"):
                    cursor.integer("a column number")
            return Location(name, line, column)
        if not cursor.accept("("):
            return UNKNOWN
        inner = self.read_inner()
        cursor.expect(")", "to close a named location")
        return inner

    def _callsite(self) -> Location:
        cursor = self.cursor
        cursor.expect("(", "after 'callsite'")
        callee = self.read_inner()
        if not cursor.accept_word("at"):
            raise cursor.error("expected 'at' in callsite")
        caller = self.read_inner()
        cursor.expect(")", "to close 'callsite'")
        plain = Location(caller.file, caller.line, caller.column)
        callers = (*callee.callers, plain, *caller.callers)
        return Location(callee.file, callee.line, callee.column, callers)

    def _fused(self) -> Location:
        cursor = self.cursor
        if cursor.looking_at("<"):
            cursor.balanced()
        cursor.expect("[", "after 'fused'")
        parts = []
        if not cursor.accept("]"):
            parts.append(self.read_inner())
            while cursor.accept(","):
                parts.append(self.read_inner())
            cursor.expect("]", "to close 'fused'")
        return next((part for part in parts if part is not UNKNOWN), UNKNOWN)
