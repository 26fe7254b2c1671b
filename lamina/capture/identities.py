"""Guards that ask whether a place still holds the very same object, as rows that native code can check.

    entries["name"] is value     "name" not in entries     type(owner) is kind     owner.__dict__ is entries

A guard whose rows hold holds. Where they do not, its own condition decides: an equal constant may lie there.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Sequence
from typing import Any

from lamina.capture.sources import Attribute, CellContents, ClassEntry, Field, Fixed, Global, Item, Source

Identity = tuple[str, Any, Any, Any]
"""(kind, holder, key, expected): `lamina/runtime/devices/cpu/identities.py` has the kinds."""
Checker = Callable[[Sequence[Identity]], Callable[[], bool] | None]
"""Makes what says, fast, whether rows hold (False where that is not known), if that is to be had."""
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
    if isinstance(source, ClassEntry):
        return (row_of_version(source.holder),)
    if isinstance(source, Field) and isinstance(source.base, Fixed):
        owner, name = source.base.value, source.name
        if type(owner) is types.FunctionType and name in FUNCTION_FIELDS:
            return ((FUNCTION_FIELDS[name], owner, None, value),)
        if isinstance(owner, type) and is_method(owner, name, value):
            return row_of_version(owner), row_of_version(type(owner))
    return ()


def is_method(kind: type, name: str, value: Any) -> bool:
    """Whether `kind.name` is a plain function that lies in a class."""
    if type(value) is not types.FunctionType:
        return False
    order = type.__dict__["__mro__"].__get__(kind)
    return next((base.__dict__[name] is value for base in order if name in base.__dict__), False)


def row_of_version(kind: type) -> Identity:
    """The row that says that nothing in the class or its bases has changed since the check is made."""
    return ("version", kind, None, None)


def rows_of_absence(source: Source) -> tuple[Identity, ...]:
    """The row that says that nothing lies at `source`."""
    place = entry_of(source)
    return () if place is None else (("absent", *place, None),)


def rows_of_class(source: Source, kind: type) -> tuple[Identity, ...]:
    """The row that says that the object at `source` is of class `kind`."""
    return (("type", source.value, None, kind),) if isinstance(source, Fixed) else ()
