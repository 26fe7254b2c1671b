"""Options of passes as text: `{size=32 order=[1,0] name="a b" fast}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lamina.ir.text.cursor import Cursor, escape

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def read_options(cursor: Cursor, pass_name: str, accepts: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The options in braces at the cursor, each checked against the default that `accepts` has for it."""
    cursor.expect("{")
    options: dict[str, Any] = {}
    while not cursor.accept("}"):
        start, found = cursor.at, cursor.take(KEY)
        if found is None:
            raise cursor.error("expected the name of an option or '}'")
        key = found.group()
        if key not in accepts:
            known = ", ".join(sorted(accepts)) or "none"
            raise cursor.error(f"pass '{pass_name}' has no option '{key}'", start, f"options: {known}")
        if key in options:
            raise cursor.error(f"option '{key}' is given twice", start)
        place = cursor.at
        value = _read_value(cursor) if cursor.accept("=") else True
        default = accepts[key]
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if default is not None and type(value) is not type(default):
            wanted = {
                bool: "true or false",
                int: "a whole number",
                float: "a number",
                str: "a word",
                tuple: "a list",
            }
            raise cursor.error(f"option '{key}' needs {wanted[type(default)]}", place)
        options[key] = value
    return tuple(options.items())


def options_to_text(options: Iterable[tuple[str, Any]]) -> str:
    """The inverse of `read_options`."""
    return "{" + " ".join(f"{key}={_value_to_text(value)}" for key, value in options) + "}"


def _read_value(cursor: Cursor) -> Any:
    if cursor.looking_at('"'):
        return cursor.string()
    if cursor.accept("["):
        values: list[Any] = []
        while not cursor.accept("]"):
            if values:
                cursor.expect(",", "or ']' in a list")
            values.append(_read_value(cursor))
        return tuple(values)
    number = cursor.take(NUMBER)
    if number is not None:
        text = number.group()
        return int(text) if text.lstrip("-").isdigit() else float(text)
    word = cursor.take(WORD)
    if word is None:
        raise cursor.error("expected an option's value: a number, a word, a string or a list")
    return {"true": True, "false": False}.get(word.group(), word.group())


def _value_to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{','.join(map(_value_to_text, value))}]"
    if isinstance(value, str):
        is_plain = WORD.fullmatch(value) and value not in ("true", "false")
        return value if is_plain else f'"{escape(value)}"'
    return repr(value)
