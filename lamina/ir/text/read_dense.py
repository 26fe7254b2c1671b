"""Numbers, dense arrays and dense constants from text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lamina.ir.attributes import STORAGE, DenseArrayAttr, DenseElementsAttr, IntegerAttr, encode_scalar
from lamina.ir.sizes import ANONYMOUS
from lamina.ir.text.cursor import Cursor
from lamina.ir.text.floats import float_from_bits
from lamina.ir.text.read_types import TypeReader
from lamina.ir.types import ScalarType, TensorType, VectorType, element_count, i1

NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)")


def whole_number(text: str) -> int:
    """Decimal, or hexadecimal after `0x`."""
    return int(text, 16) if "x" in text else int(text)


class DenseReader:
    """Reads numbers of a known type at a cursor, one or many."""

    def __init__(self, cursor: Cursor, types: TypeReader) -> None:
        self.cursor = cursor
        self.types = types

    def number(self, text: str, type_: ScalarType, start: int) -> float:
        if not type_.is_float:
            raise self.cursor.error(f"a number with a point needs a float type, not {type_}", start)
        if text.startswith("0x"):
            if int(text, 16) >> type_.bits:
                raise self.cursor.error(f"{text} has more bits than {type_}", start)
            try:
                return float_from_bits(int(text, 16), type_)
            except ValueError as error:
                raise self.cursor.error(str(error), start) from None
        if "." not in text:
            raise self.cursor.error(
                f"expected a number with a point, or bits in hexadecimal, for {type_}", start
            )
        return float(text)

    def check_range(self, value: int, type_: ScalarType, start: int) -> None:
        half = 1 << type_.bits >> 1
        low = 0 if type_.name.startswith("ui") else -half
        high = half - 1 if type_.name.startswith("si") else (1 << type_.bits) - 1
        if not low <= value <= high:
            raise self.cursor.error(f"{value} does not fit {type_}", start)

    def read_array(self) -> DenseArrayAttr:
        cursor = self.cursor
        cursor.expect("<", "after 'array'")
        type_ = self.types.read()
        is_number = isinstance(type_, ScalarType) and (type_.is_float or type_.bits in (1, 8, 16, 32, 64))
        if not is_number or not isinstance(type_, ScalarType) or type_.name not in STORAGE:
            raise cursor.error("a dense array needs an integer type of 1 to 64 bits or a float type")
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
            return self.number(found.group(), type_, start)
        if "." in found.group():
            raise cursor.error(f"expected an integer element, got {found.group()}", start)
        value = whole_number(found.group())
        self.check_range(value, type_, start)
        return bool(value) if type_ is i1 else IntegerAttr(value, type_).value

    def read_elements(self) -> DenseElementsAttr:
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
        is_splat = cursor.text[start] not in '["' and not cursor.text.startswith(">", start)
        if not all(isinstance(size, int) or (is_splat and size.name != ANONYMOUS) for size in type_.shape):
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
