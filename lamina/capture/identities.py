"""Guards that ask whether a place still holds the very same object, as rows that native code can check.

    entries["name"] is value     "name" not in entries     type(owner) is kind     owner.__dict__ is entries

A guard whose rows hold holds. Where they do not, its own condition decides: an equal constant may lie there.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Sequence
from typing import Any

from lamina.capture.sources import Attribute, CellContents, Field, Fixed, Global, Item, Source

Identity = tuple[str, Any, Any, Any]
"""(kind, holder, key, expected): `lamina/runtime/devices/cpu/identities.py` has the kinds."""
Checker = Callable[[Sequence[Identity]], Callable[[], bool]]
"""Makes what says, fast, whether rows hold; False where that is not known."""
FEWEST = 32
"""Rows from which on a native check is worth its call."""
DICTS = (dict, collections.OrderedDict)
FUNCTION_FIELDS = {"__code__": "code", "__defaults__": "defaults", "__kwdefaults__": "keyword defaults"}


def entry_of(source: Source) -> tuple[dict[Any, Any], str] | None:
    """The dict and name that `source` reads, if these are the same in every call."""
    if isinstance(source, Global):
        entries, name = source.entries, source.name
    elif isinstance(source, Attribute) and isinstance(source.base, Fixed):
        entries, name = object.__getattribute__(source.base.value, "__dict__"), source.name
    elif isinstance(source, Item) and isinstance(source.base, Fixed) and source.reader is None:
        entries, name = source.base.value, source.index
    else:
        return None
    return (entries, name) if type(entries) in DICTS and type(name) is str else None


def rows_of_value(source: Source, value: Any) -> tuple[Identity, ...]:
    """The row that says that `value` itself lies at `source`."""
    place = entry_of(source)
    if place is not None:
        return (("entry", *place, value),)
    if isinstance(source, CellContents):
        return (("cell", source.cell, None, value),)
    if isinstance(source, Field) and isinstance(source.base, Fixed):
        kind = FUNCTION_FIELDS.get(source.name)
        if kind is not None and type(source.base.value) is types.FunctionType:
            return ((kind, source.base.value, None, value),)
    return ()


def rows_of_absence(source: Source) -> tuple[Identity, ...]:
    """The row that says that nothing lies at `source`."""
    place = entry_of(source)
    return () if place is None else (("absent", *place, None),)


def rows_of_class(source: Source, kind: type) -> tuple[Identity, ...]:
    """The row that says that the object at `source` is of class `kind`."""
    return (("type", source.value, None, kind),) if isinstance(source, Fixed) else ()
