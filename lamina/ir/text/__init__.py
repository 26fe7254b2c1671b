"""Text of the IR in MLIR's generic syntax: `print_module` and `parse`."""

from __future__ import annotations

from lamina.ir.text.cursor import ParseError
from lamina.ir.text.parse import parse, parse_module, parse_type
from lamina.ir.text.print import Printer, attribute_to_text, print_module

__all__ = [
    "ParseError",
    "Printer",
    "attribute_to_text",
    "parse",
    "parse_module",
    "parse_type",
    "print_module",
]
