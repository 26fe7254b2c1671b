"""Attributes and locations from text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.ir.attributes import (
    STORAGE,
    UNIT,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    encode_scalar,
)
from lamina.ir.text.cursor import Cursor
from lamina.ir.text.floats import float_from_bits
from lamina.ir.text.read_affine import AffineReader
from lamina.ir.text.read_types import DIALECT_NAME, TypeReader
from lamina.ir.types import ScalarType, TensorType, VectorType, element_count, f64, i1, i64

NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
SYMBOL = re.compile(r"@([A-Za-z_][A-Za-z0-9_$.]*)")
SIMPLE_DICTIONARY = re.compile(r'\{[^{}"/]*\}')
SIMPLE_INTEGER = re.compile(r"(-?[0-9]{1,18})(?=[,\]}])")


class AttributeReader:
    """Reads attributes at a cursor. `aliases` maps `#name` to attributes."""

    def __init__(self, cursor: Cursor, types: TypeReader) -> None:
        self.cursor = cursor
        self.types = types
        self.affine = AffineReader(cursor)
        self.aliases: dict[str, Attribute] = {}
        self._known: dict[str, dict[str, Attribute]] = {}
        self._words: dict[str, Callable[[], Attribute]] = {
            "true": lambda: BoolAttr(True),
            "false": lambda: BoolAttr(False),
            "unit": lambda: UNIT,
            "array": self._read_dense_array,
            "dense": self._read_dense,
            "affine_map": self._read_map,
            "affine_set": self._read_set,
            "strided": self._read_strided,
            "dense_resource": lambda: self._read_opaque("dense_resource", typed=True),
            "distinct": lambda: self._read_opaque("distinct"),
            "loc": lambda: self._read_opaque("loc"),
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
            return FloatAttr(self._float(text, type_, start), type_)
        value = int(text, 0)
        if type_ is i1:
            if value not in (0, 1, -1):
                raise cursor.error(f"{text} does not fit {type_}", start)
            return BoolAttr(bool(value))
        self._check_range(value, type_, start)
        return IntegerAttr(value, type_)

    def _float(self, text: str, type_: ScalarType, start: int) -> float:
        if not type_.is_float:
            raise self.cursor.error(f"a number with a point needs a float type, not {type_}", start)
        if text.startswith("0x"):
            if int(text, 16) >> type_.bits:
                raise self.cursor.error(f"{text} has more bits than {type_}", start)
            return float_from_bits(int(text, 16), type_)
        if "." not in text:
            raise self.cursor.error(
                f"expected a number with a point, or bits in hexadecimal, for {type_}", start
            )
        return float(text)

    def _check_range(self, value: int, type_: ScalarType, start: int) -> None:
        low = 0 if type_.name.startswith("ui") else -(1 << type_.bits - 1)
        high = (1 << type_.bits - 1) - 1 if type_.name.startswith("si") else (1 << type_.bits) - 1
        if not low <= value <= high:
            raise self.cursor.error(f"{value} does not fit {type_}", start)

    def _read_dialect_attribute(self) -> Attribute:
        cursor, start = self.cursor, self.cursor.at
        found = DIALECT_NAME.match(cursor.text, cursor.at)
        if found is None:
            raise cursor.error("expected the name of a dialect attribute or alias after '#'")
        cursor.at = found.end()
        if cursor.looking_at("<"):
            cursor.balanced()
            return OpaqueAttr(cursor.text[start : cursor.at].rstrip())
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

    def _read_dense_array(self) -> DenseArrayAttr:
        cursor = self.cursor
        cursor.expect("<", "after 'array'")
        type_ = self.types.read()
        if not isinstance(type_, ScalarType) or not (type_.is_float or type_.is_integer):
            raise cursor.error("a dense array needs an integer or float type")
        values: list[Any] = []
        if cursor.accept(":"):
            values.append(self._read_scalar(type_))
            while cursor.accept(","):
                values.append(self._read_scalar(type_))
        cursor.expect(">", "to close 'array'")
        return DenseArrayAttr(tuple(values), type_)

    def _read_scalar(self, type_: ScalarType) -> int | float | bool:
        """One element of a dense array or a dense constant."""
        cursor, start = self.cursor, self.cursor.at
        if type_ is i1 and cursor.peek_word() in ("true", "false"):
            return cursor.accept_word("true") or not cursor.accept_word("false")
        found = cursor.take(NUMBER)
        if found is None:
            raise cursor.error(f"expected an element of type {type_}")
        if type_.is_float:
            return self._float(found.group(), type_, start)
        if "." in found.group():
            raise cursor.error(f"expected an integer element, got {found.group()}", start)
        value = int(found.group(), 0)
        self._check_range(value, type_, start)
        return bool(value) if type_ is i1 else IntegerAttr(value, type_).value

    def _read_dense(self) -> DenseElementsAttr:
        """The elements come before their type, so they are passed over first and read after it."""
        cursor = self.cursor
        if not cursor.looking_at("<"):
            raise cursor.error("expected '<' after 'dense'")
        start = cursor.at + 1
        cursor.balanced()
        end = cursor.at
        cursor.expect(":", "after 'dense<...>'")
        type_ = self.types.read()
        if not isinstance(type_, TensorType | VectorType):
            raise cursor.error("'dense' needs a tensor or vector type")
        if not all(isinstance(size, int) for size in type_.shape):
            raise cursor.error(f"'dense' needs known sizes, got {type_}")
        if type_.element.name not in STORAGE:
            raise cursor.error(f"constants of {type_.element} are not supported")
        after, cursor.at = cursor.at, start
        cursor.skip()
        found = self._read_elements(type_)
        cursor.expect(">", "to close 'dense'")
        if cursor.at != end:
            raise cursor.error("unexpected text in 'dense'")
        cursor.at = after
        return found

    def _read_elements(self, type_: TensorType | VectorType) -> DenseElementsAttr:
        cursor, start = self.cursor, self.cursor.at
        if cursor.looking_at('"'):
            return self._read_blob(type_)
        if cursor.looking_at(">"):
            if element_count(type_) != 0:
                raise cursor.error(f"expected {element_count(type_)} elements")
            return DenseElementsAttr(type_, b"", False)
        if not cursor.looking_at("["):
            return DenseElementsAttr(type_, self._read_element(type_.element), True)
        parts: list[bytes] = []
        shape = self._read_nested(type_.element, parts)
        if shape != type_.shape:
            raise cursor.error(f"elements of shape {list(shape)} for type {type_}", start)
        return DenseElementsAttr(type_, b"".join(parts), False)

    def _read_element(self, type_: ScalarType) -> bytes:
        if not type_.name.startswith("complex"):
            return encode_scalar(self._read_scalar(type_), type_)
        part = ScalarType.get(type_.name[8:-1], type_.bits // 2)
        self.cursor.expect("(", "before a complex element")
        real = self._read_scalar(part)
        self.cursor.expect(",", "in a complex element")
        imaginary = self._read_scalar(part)
        self.cursor.expect(")", "after a complex element")
        return encode_scalar(real, part) + encode_scalar(imaginary, part)

    def _read_nested(self, type_: ScalarType, parts: list[bytes]) -> tuple[int, ...]:
        """Nested lists of elements, appended to `parts`; gives their shape."""
        cursor, start = self.cursor, self.cursor.at
        if not cursor.accept("["):
            parts.append(self._read_element(type_))
            return ()
        inner: tuple[int, ...] | None = None
        count = 0
        while not cursor.accept("]"):
            if count:
                cursor.expect(",", "or ']' between elements")
            shape = self._read_nested(type_, parts)
            if inner is not None and shape != inner:
                raise cursor.error(f"lists of different lengths: {list(inner)} and {list(shape)}", start)
            inner = shape
            count += 1
        return (count, *(inner or ()))

    def _read_blob(self, type_: TensorType | VectorType) -> DenseElementsAttr:
        start, digits = self.cursor.at, self.cursor.string()
        try:
            data = bytes.fromhex(digits.removeprefix("0x"))
        except ValueError:
            raise self.cursor.error("expected an even number of hexadecimal digits", start) from None
        width, count = type_.element.bytes, element_count(type_)
        if not digits.startswith("0x") or len(data) not in (width, width * count):
            raise self.cursor.error(f"expected '0x' and {width} or {width * count} bytes for {type_}", start)
        if type_.element is i1 and np.frombuffer(data, np.uint8).max(initial=0) > 1:
            raise self.cursor.error("bytes of i1 must be 0 or 1", start)
        return DenseElementsAttr(type_, data, len(data) == width)
