"""All bytecodes of the running Python, by name."""

from __future__ import annotations

import sys

from lamina.capture.machine.code import Handler
from lamina.capture.opcodes import (
    asynchronous,
    attributes,
    calls,
    containers,
    control,
    exceptions,
    matching,
    names,
    operators,
    stack,
)

FAMILIES: tuple[dict[str, Handler], ...] = (
    stack.HANDLERS,
    names.HANDLERS,
    names.HANDLERS_FROM_313 if sys.version_info >= (3, 13) else names.HANDLERS_BEFORE_313,
    attributes.HANDLERS,
    operators.HANDLERS,
    containers.HANDLERS,
    control.HANDLERS,
    calls.HANDLERS,
    exceptions.HANDLERS,
    asynchronous.HANDLERS,
    matching.HANDLERS,
)


def all_handlers() -> dict[str, Handler]:
    """Handlers by bytecode name; two families never name the same bytecode."""
    merged: dict[str, Handler] = {}
    for family in FAMILIES:
        merged.update(family)
    return merged


HANDLERS = all_handlers()
"""Merged once: a machine is made at every graph break."""
