"""A place in a text being read: skips blanks and comments, and fails with line, column and a caret."""

from __future__ import annotations

import re

from lamina.errors import SourceLocation, UserError

SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
BARE_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
"""A keyword or an attribute's name."""
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SIMPLE_ESCAPES = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}
HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{2}")
INTEGER = re.compile(r"-?[0-9]+")
PAIRS = {"<": ">", "(": ")", "[": "]", "{": "}"}
NESTING = re.compile(r'->|"(?:[^"\\\n]|\\.)*"|[<>()\[\]{}]')


class ParseError(UserError):
    """Text that is not well formed; `location` is the place in the text, `line` the whole line of it."""

    def __init__(self, message: str, location: SourceLocation, line: str, hint: str = "") -> None:
        super().__init__(message, location=location, hint=hint)
        self.line = line

    def draw(self) -> str:
        """`file:line:column: error: ...`, the line, a caret, what to do next."""
        place = self.location
        assert isinstance(place, SourceLocation)
        blanks = "".join("\t" if sign == "\t" else " " for sign in self.line[: place.column - 1])
        lines = [f"{place}: error: {self.message}", f"  {self.line}", f"  {blanks}^"]
        lines += [f"  = {label}: {text}" for label, text in self.notes()]
        return "\n".join(lines)


class Cursor:
    """Where reading has come to. Every method leaves it behind blanks and comments."""

    __slots__ = ("at", "file", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.skip()

    def skip(self) -> None:
        if self.text[self.at : self.at + 1] not in " \n\t\r\f\v/":
            return
        self.at = SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches always

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.text)

    def looking_at(self, literal: str) -> bool:
        return self.text.startswith(literal, self.at)

    def accept(self, literal: str) -> bool:
        """Step over `literal` if it comes next."""
        if not self.text.startswith(literal, self.at):
            return False
        self.at += len(literal)
        self.skip()
        return True

    def expect(self, literal: str, where: str = "") -> None:
        if not self.accept(literal):
            raise self.error(f"expected '{literal}'{' ' + where if where else ''}")

    def accept_word(self, word: str) -> bool:
        found = BARE_WORD.match(self.text, self.at)
        if found is None or found.group() != word:
            return False
        self.at = found.end()
        self.skip()
        return True

    def peek_word(self) -> str:
        found = BARE_WORD.match(self.text, self.at)
        return found.group() if found else ""

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Step over what `pattern` matches here."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.skip()
        return found

    def integer(self, what: str = "an integer") -> int:
        found = self.take(INTEGER)
        if found is None:
            raise self.error(f"expected {what}")
        return int(found.group())

    def string(self, what: str = "a string") -> str:
        """A quoted string, escapes resolved (`\\22` is a byte in hexadecimal)."""
        start = self.at
        found = self.take(STRING)
        if found is None:
            raise self.error("the string has no end" if self.looking_at('"') else f"expected {what}")
        try:
            return unescape(found.group(1))
        except ValueError as error:
            raise self.error(str(error), start) from None

    def balanced(self) -> str:
        """The text from the bracket here to the one that closes it, both included, as written."""
        start = self.at
        open_: list[str] = []
        for found in NESTING.finditer(self.text, start):
            sign = found.group()
            if sign in PAIRS:
                open_.append(PAIRS[sign])
            elif len(sign) == 1:
                if not open_ or sign != open_.pop():
                    raise self.error(f"unbalanced '{sign}'", found.start())
                if not open_:
                    self.at = found.end()
                    self.skip()
                    return self.text[start : found.end()]
        raise self.error(f"'{self.text[start]}' is never closed", start)

    def place(self, at: int | None = None) -> SourceLocation:
        """Line and column, both from 1, of an offset."""
        at = self.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        return SourceLocation(self.file, line, at - (self.text.rfind("\n", 0, at) + 1) + 1)

    def error(self, message: str, at: int | None = None, hint: str = "") -> ParseError:
        """What to raise about the text here, or at an offset."""
        at = self.at if at is None else at
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[start : end if end >= 0 else len(self.text)]
        if at >= len(self.text):
            message += ", found the end of the text"
        return ParseError(message, self.place(at), line, hint)


def unescape(body: str) -> str:
    """Resolve `\\n`, `\\t`, `\\\\`, `\\"` and two-digit hexadecimal bytes (UTF-8). Raises ValueError."""
    if "\\" not in body:
        return body
    data = bytearray()
    at = 0
    while (back := body.find("\\", at)) >= 0:
        data += body[at:back].encode("utf-8", "surrogateescape")
        sign, digits = body[back + 1 : back + 2], body[back + 1 : back + 3]
        if sign in SIMPLE_ESCAPES:
            data += SIMPLE_ESCAPES[sign]
            at = back + 2
        elif HEXADECIMAL.fullmatch(digits):
            data += bytes.fromhex(digits)
            at = back + 3
        else:
            raise ValueError(f"unknown escape '\\{sign}' in string")
    data += body[at:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


def escape(text: str) -> str:
    """The inverse of `unescape`: printable ASCII stays, everything else becomes hexadecimal bytes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    signs = []
    for byte in text.encode("utf-8", "surrogateescape"):
        sign = chr(byte)
        if sign == "\\":
            signs.append("\\\\")
        elif 32 <= byte < 127 and sign != '"':
            signs.append(sign)
        else:
            signs.append(f"\\{byte:02X}")
    return "".join(signs)
