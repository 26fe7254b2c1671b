"""Attributes and locations from text."""

from __future__ import annotations

import re
from collections.abc import Callable

from lamina.ir.attributes import (
    UNIT,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    SizeAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
)
from lamina.ir.sizes import SymbolicSize
from lamina.ir.text.cursor import Cursor
from lamina.ir.text.read_affine import AffineReader
from lamina.ir.text.read_dense import NUMBER, DenseReader, whole_number
from lamina.ir.text.read_locations import LocationReader
from lamina.ir.text.read_types import DIALECT_NAME, TypeReader
from lamina.ir.types import ScalarType, f64, i1, i64

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
SYMBOL = re.compile(r"@([A-Za-z_][A-Za-z0-9_$.]*)")
SIMPLE_DICTIONARY = re.compile(r'\{[^{}"/]*\}')
SIZE = re.compile(r'#lamina\.size<"([^"]+)">')
SIMPLE_INTEGER = re.compile(r"(-?[0-9]{1,18})(?=[,\]}])")


class AttributeReader:
    """Reads attributes at a cursor. `aliases` maps `#name` to attributes."""

    def __init__(self, cursor: Cursor, types: TypeReader) -> None:
        self.cursor = cursor
        self.types = types
        self.affine = AffineReader(cursor)
        self.dense = DenseReader(cursor, types)
        self.aliases: dict[str, Attribute] = {}
        self._known: dict[str, dict[str, Attribute]] = {}
        self._words: dict[str, Callable[[], Attribute]] = {
            "true": lambda: BoolAttr(True),
            "false": lambda: BoolAttr(False),
            "unit": lambda: UNIT,
            "array": self.dense.read_array,
            "dense": self.dense.read_elements,
            "affine_map": self._read_map,
            "affine_set": self._read_set,
            "strided": self._read_strided,
            "dense_resource": lambda: self._read_opaque("dense_resource", typed=True),
            "distinct": lambda: self._read_opaque("distinct"),
            "loc": self._read_location,
        }

    def read(self) -> Attribute:
        cursor = self.cursor
        sign = cursor.text[cursor.at : cursor.at + 1]
        if sign == '"':
            return StringAttr(cursor.string())
        if sign == "[":
            return self._read_array()
        if sign == "{":
            return DictAttr(tuple(self.read_dictionary().items()))
        if sign == "@":
            return self.read_symbol_reference()
        if sign == "#":
            return self._read_dialect_attribute()
        if sign == "-" or sign.isdigit():
            return self._read_number()
        word = cursor.peek_word()
        if word in self._words:
            cursor.accept_word(word)
            return self._words[word]()
        if self.types.is_next():
            return TypeAttr(self.types.read())
        raise cursor.error("expected an attribute value")

    def read_dictionary(self) -> dict[str, Attribute]:
        """`{a = 1, "b c" = 2, unit_one}`; whole spellings seen before are not read again."""
        cursor, start = self.cursor, self.cursor.at
        simple = SIMPLE_DICTIONARY.match(cursor.text, start)
        if simple is None:
            return self._read_dictionary()
        known = self._known.get(simple.group())
        if known is None:
            known = self._read_dictionary()
            self._known[simple.group()] = known
        else:
            cursor.at = simple.end()
            cursor.skip()
        return dict(known)

    def _read_dictionary(self) -> dict[str, Attribute]:
        cursor = self.cursor
        cursor.expect("{", "to start attributes")
        entries: dict[str, Attribute] = {}
        while not cursor.accept("}"):
            if entries:
                cursor.expect(",", "or '}' after an attribute")
            start, found = cursor.at, cursor.take(KEY)
            key = found.group() if found is not None else cursor.string("an attribute name")
            if not key:
                raise cursor.error("expected an attribute name, which is not empty", start)
            if key in entries:
                raise cursor.error(f"attribute '{key}' is given twice", start)
            entries[key] = self.read() if cursor.accept("=") else UNIT
        return entries

    def read_symbol_name(self) -> str:
        """`@name` or `@"any text"`, without the sign."""
        cursor = self.cursor
        found = cursor.take(SYMBOL)
        if found is not None:
            return found.group(1)
        if not cursor.looking_at('@"'):
            raise cursor.error("expected a symbol name")
        cursor.at += 1
        start, name = cursor.at, cursor.string()
        if not name:
            raise cursor.error("a symbol name must not be empty", start)
        return name

    def read_symbol_reference(self) -> SymbolRefAttr:
        path = [self.read_symbol_name()]
        while self.cursor.looking_at("::"):
            self.cursor.accept("::")
            path.append(self.read_symbol_name())
        return SymbolRefAttr(tuple(path))

    def _read_array(self) -> ArrayAttr:
        cursor = self.cursor
        cursor.expect("[")
        elements: list[Attribute] = []
        while not cursor.accept("]"):
            if elements:
                cursor.expect(",", "or ']' in an array")
            simple = cursor.take(SIMPLE_INTEGER)
            elements.append(self.read() if simple is None else IntegerAttr(int(simple.group(1))))
        return ArrayAttr(tuple(elements))

    def _read_number(self) -> Attribute:
        cursor, start = self.cursor, self.cursor.at
        found = cursor.take(NUMBER)
        if found is None:
            raise cursor.error("expected a number")
        text = found.group()
        type_ = f64 if "." in text else i64
        if cursor.accept(":"):
            given = self.types.read()
            if not isinstance(given, ScalarType):
                raise cursor.error(f"a number of type {given} needs 'dense<...>'", start)
            type_ = given
        if type_.is_float or "." in text:
            return FloatAttr(self.dense.number(text, type_, start), type_)
        value = whole_number(text)
        if type_ is i1:
            if value not in (0, 1, -1):
                raise cursor.error(f"{text} does not fit {type_}", start)
            return BoolAttr(bool(value))
        self.dense.check_range(value, type_, start)
        return IntegerAttr(value, type_)

    def _read_dialect_attribute(self) -> Attribute:
        cursor, start = self.cursor, self.cursor.at
        found = DIALECT_NAME.match(cursor.text, cursor.at)
        if found is None:
            raise cursor.error("expected the name of a dialect attribute or alias after '#'")
        cursor.at = found.end()
        if cursor.looking_at("<"):
            cursor.balanced()
            spelling = cursor.text[start : cursor.at].rstrip()
            size = SIZE.fullmatch(spelling)
            return OpaqueAttr(spelling) if size is None else SizeAttr(SymbolicSize.get(size.group(1)))
        cursor.skip()
        name = found.group(1)
        if "." in name:
            return OpaqueAttr(found.group())
        if name not in self.aliases:
            raise cursor.error(f"undefined attribute alias '#{name}'", start)
        return self.aliases[name]

    def _read_opaque(self, word: str, *, typed: bool = False) -> OpaqueAttr:
        """A builtin attribute that nothing here looks into."""
        spelling = word + self.cursor.balanced()
        if word == "distinct" and self.cursor.looking_at("<"):
            spelling += self.cursor.balanced()
        if typed:
            self.cursor.expect(":", f"after '{word}'")
            spelling += f" : {self.types.read()}"
        return OpaqueAttr(spelling)

    def _read_location(self) -> OpaqueAttr:
        cursor, start = self.cursor, self.cursor.at
        cursor.expect("(", "after 'loc'")
        LocationReader(cursor).read_inner()
        cursor.expect(")", "to close 'loc'")
        return OpaqueAttr(f"loc{cursor.text[start : cursor.at].rstrip()}")

    def _read_map(self) -> AffineMapAttr:
        self.cursor.expect("<", "after 'affine_map'")
        found = self.affine.read_map()
        self.cursor.expect(">", "to close 'affine_map'")
        return AffineMapAttr(found)

    def _read_set(self) -> OpaqueAttr:
        self.cursor.expect("<", "after 'affine_set'")
        found = self.affine.read_set()
        self.cursor.expect(">", "to close 'affine_set'")
        return OpaqueAttr(f"affine_set<{found}>")

    def _read_strided(self) -> OpaqueAttr:
        strides, offset = self.types.read_strided()
        spelled = ", ".join("?" if stride is None else str(stride) for stride in strides)
        end = "" if offset == 0 else f", offset: {'?' if offset is None else offset}"
        return OpaqueAttr(f"strided<[{spelled}]{end}>")
