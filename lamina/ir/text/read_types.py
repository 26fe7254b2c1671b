"""Types from text."""

from __future__ import annotations

import re

from lamina.ir.sizes import ANONYMOUS, Size, SymbolicSize
from lamina.ir.text.cursor import STRING, Cursor, unescape
from lamina.ir.types import (
    SCALARS,
    FunctionType,
    MemRefType,
    OpaqueType,
    ScalarType,
    TensorType,
    Type,
    VectorType,
)

DIMENSION = re.compile(r"([0-9]+|\?)x")
DIALECT_NAME = re.compile(r"[!#]([A-Za-z_][A-Za-z0-9_$.\-]*)")
INTEGER_TYPE = re.compile(r"(?:i|si|ui)(0|[1-9][0-9]*)$")
OTHER_FLOATS = {
    "tf32": 19, "f80": 80, "f128": 128, "f4E2M1FN": 4, "f6E2M3FN": 6, "f6E3M2FN": 6, "f8E3M4": 8, "f8E4M3": 8,
    "f8E4M3FNUZ": 8, "f8E4M3B11FNUZ": 8, "f8E5M2FNUZ": 8, "f8E8M0FNU": 8,
}  # fmt: skip
"""Float types that only pass through, and their bits."""
LAYOUT = re.compile(r"[#0-9{]|affine_map<|strided<")
"""How a memref's layout or memory space begins."""
SCALABLE = re.compile(r"(?:\[?[1-9][0-9]*\]?x)*")
SIMPLE = re.compile(r"(?:tensor|vector|memref)<[0-9x]*[a-z]+[0-9]*>|[a-z]+[0-9]*(?![A-Za-z0-9_$.<])")
"""Types without inner punctuation, which are looked up whole."""
MAXIMAL_WIDTH = (1 << 24) - 1


class TypeReader:
    """Reads types at a cursor. `aliases` maps `!name` to types."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.aliases: dict[str, Type] = {}
        self._known: dict[str, Type] = dict(SCALARS)

    def read(self) -> Type:
        cursor = self.cursor
        simple = SIMPLE.match(cursor.text, cursor.at)
        if simple is None:
            return self._read()
        known = self._known.get(simple.group())
        if known is None:
            known = self._known[simple.group()] = self._read()
        else:
            cursor.at = simple.end()
            cursor.skip()
        return known

    def read_list(self) -> list[Type]:
        """`(a, b)`, possibly empty."""
        self.cursor.expect("(", "to start a list of types")
        types: list[Type] = []
        if self.cursor.accept(")"):
            return types
        types.append(self.read())
        while self.cursor.accept(","):
            types.append(self.read())
        self.cursor.expect(")", "or ',' in a list of types")
        return types

    def read_function(self) -> FunctionType:
        """`(a, b) -> c` or `(a, b) -> (c, d)`."""
        inputs = self.read_list()
        self.cursor.expect("->", "in a function type")
        results = self.read_list() if self.cursor.looking_at("(") else [self.read()]
        return FunctionType.get(tuple(inputs), tuple(results))

    def is_next(self) -> bool:
        """Whether a type, and not an attribute of another kind, comes next."""
        cursor = self.cursor
        return cursor.looking_at("!") or cursor.looking_at("(") or _is_type_word(cursor.peek_word())

    def _read(self) -> Type:
        cursor = self.cursor
        if cursor.looking_at("("):
            return self.read_function()
        if cursor.looking_at("!"):
            return self._read_dialect_type()
        start, word = cursor.at, cursor.peek_word()
        shaped = {"tensor": self._read_tensor, "memref": self._read_memref, "vector": self._read_vector}
        if word in shaped:
            cursor.accept_word(word)
            cursor.expect("<", f"after '{word}'")
            return shaped[word](start)
        if word == "complex":
            cursor.accept_word(word)
            cursor.expect("<", "after 'complex'")
            element = self._read_element("complex")
            cursor.expect(">", "to close 'complex'")
            return ScalarType.get(f"complex<{element}>", 2 * element.bits)
        if word == "tuple":
            cursor.accept_word(word)
            cursor.expect("<", "after 'tuple'")
            while not cursor.accept(">"):
                self.read()
                if not cursor.looking_at(">"):
                    cursor.expect(",", "or '>' in a tuple")
            return OpaqueType.get(cursor.text[start : cursor.at].rstrip())
        return self._read_scalar()

    def _read_scalar(self) -> ScalarType:
        cursor = self.cursor
        word, start = cursor.peek_word(), cursor.at
        # In `4xf32` the scanner has taken `4x` already; in `f32x` the word is not a type.
        known = SCALARS.get(word)
        if known is None:
            integer = INTEGER_TYPE.match(word)
            if integer is not None:
                if int(integer.group(1)) > MAXIMAL_WIDTH:
                    raise cursor.error(f"integer width is limited to {MAXIMAL_WIDTH} bits", start)
                known = ScalarType.get(word, int(integer.group(1)))
            elif word in OTHER_FLOATS:
                known = ScalarType.get(word, OTHER_FLOATS[word])
        if known is None:
            raise cursor.error("expected a type", start)
        cursor.accept_word(word)
        return known

    def _read_dialect_type(self) -> Type:
        cursor, start = self.cursor, self.cursor.at
        found = DIALECT_NAME.match(cursor.text, cursor.at)
        if found is None:
            raise cursor.error("expected the name of a dialect type or type alias after '!'")
        cursor.at = found.end()
        if cursor.looking_at("<"):
            cursor.balanced()
            return OpaqueType.get(cursor.text[start : cursor.at].rstrip())
        cursor.skip()
        name = found.group(1)
        if "." in name:
            return OpaqueType.get(found.group())
        if name not in self.aliases:
            raise cursor.error(f"undefined type alias '!{name}'", start)
        return self.aliases[name]

    def _read_shape(self) -> list[int | None]:
        """`4x?x` before the element type; None for `?`."""
        sizes: list[int | None] = []
        cursor = self.cursor
        while (found := DIMENSION.match(cursor.text, cursor.at)) is not None:
            size = found.group(1)
            sizes.append(None if size == "?" else int(size))
            cursor.at = found.end()
        return sizes

    def _read_element(self, where: str) -> ScalarType:
        start = self.cursor.at
        element = self.read()
        if not isinstance(element, ScalarType) or element.name == "none":
            raise self.cursor.error(f"expected a scalar element type in '{where}', got {element}", start)
        return element

    def _read_tensor(self, start: int) -> Type:
        cursor = self.cursor
        if cursor.accept("*x"):
            self._read_element("tensor")
            cursor.expect(">", "to close 'tensor'")
            return OpaqueType.get(cursor.text[start : cursor.at].rstrip())
        sizes = self._read_shape()
        element = self._read_element("tensor")
        names: list[str] = []
        if cursor.accept(","):
            if not cursor.looking_at("["):
                return self._skip_to_opaque(start)
            names = self._read_names()
            if len(names) != sizes.count(None):
                raise cursor.error(f"expected a name for each of {sizes.count(None)} unknown sizes", start)
        cursor.expect(">", "to close 'tensor'")
        return TensorType.get(_fill(sizes, names), element)

    def _read_names(self) -> list[str]:
        self.cursor.expect("[")
        names = [self.cursor.string("the name of a symbolic size")]
        while self.cursor.accept(","):
            names.append(self.cursor.string("the name of a symbolic size"))
        self.cursor.expect("]", "to close the names of sizes")
        return names

    def _read_memref(self, start: int) -> Type:
        cursor = self.cursor
        if cursor.accept("*x"):
            self._read_element("memref")
            return self._skip_to_opaque(start)
        sizes = self._read_shape()
        element = self._read_element("memref")
        strides: list[int | None] | None = None
        offset: int | None = 0
        names: list[str] = []
        while cursor.accept(","):
            if cursor.peek_word() == "strided" and strides is None:
                strides, offset = self.read_strided()
                if len(strides) != len(sizes):
                    raise cursor.error(f"expected {len(sizes)} strides, got {len(strides)}")
            elif (found := STRING.match(cursor.text, cursor.at)) is not None:
                names = unescape(found.group(1)).split(",")
                cursor.take(STRING)
            elif LAYOUT.match(cursor.text, cursor.at):
                return self._skip_to_opaque(start)
            else:
                raise cursor.error("expected a layout or a memory space")
        cursor.expect(">", "to close 'memref'")
        unknown = [*sizes, *(strides or ()), offset]
        if names and len(names) != unknown.count(None):
            raise cursor.error(f"expected a name for each of {unknown.count(None)} unknown sizes", start)
        filled = _fill(unknown, names)
        rank = len(sizes)
        return MemRefType.get(
            filled[:rank], element, None if strides is None else filled[rank : 2 * rank], filled[-1]
        )

    def read_strided(self) -> tuple[list[int | None], int | None]:
        """`strided<[4, ?], offset: ?>` gives strides and offset; None for `?`."""
        cursor = self.cursor
        cursor.accept_word("strided")
        cursor.expect("<", "after 'strided'")
        cursor.expect("[", "before strides")
        strides: list[int | None] = []
        if not cursor.accept("]"):
            strides.append(self._read_size("a stride"))
            while cursor.accept(","):
                strides.append(self._read_size("a stride"))
            cursor.expect("]", "to close strides")
        offset: int | None = 0
        if cursor.accept(","):
            if not cursor.accept_word("offset"):
                raise cursor.error("expected 'offset' after strides")
            cursor.expect(":", "after 'offset'")
            offset = self._read_size("an offset")
        cursor.expect(">", "to close 'strided'")
        return strides, offset

    def _read_size(self, what: str) -> int | None:
        return None if self.cursor.accept("?") else self.cursor.integer(f"{what} or '?'")

    def _read_vector(self, start: int) -> Type:
        cursor = self.cursor
        if cursor.looking_at("[") or re.match(r"(?:[0-9]+x)*\[", cursor.text[cursor.at : cursor.at + 80]):
            cursor.take(SCALABLE)
            self._read_element("vector")
            return self._skip_to_opaque(start)
        sizes = self._read_shape()
        if None in sizes or 0 in sizes:
            raise cursor.error("a vector's sizes must be positive and known", start)
        if cursor.looking_at("!"):
            self.read()
            return self._skip_to_opaque(start)
        element = self._read_element("vector")
        cursor.expect(">", "to close 'vector'")
        return VectorType.get(tuple(size for size in sizes if size is not None), element)

    def _skip_to_opaque(self, start: int) -> OpaqueType:
        """Take the rest of a type that has no class here (unranked, scalable, memory spaces, pointers)."""
        cursor = self.cursor
        cursor.at = cursor.text.index("<", start)
        cursor.balanced()
        return OpaqueType.get(cursor.text[start : cursor.at].rstrip())


def _is_type_word(word: str) -> bool:
    if word in SCALARS or word in ("tensor", "memref", "vector", "complex", "tuple"):
        return True
    return INTEGER_TYPE.match(word) is not None or word in OTHER_FLOATS


def _fill(sizes: list[int | None], names: list[str]) -> tuple[Size, ...]:
    """Put symbols at the unknown sizes, by name where there are names."""
    left = iter(names)
    return tuple(SymbolicSize.get(next(left, ANONYMOUS)) if size is None else size for size in sizes)
