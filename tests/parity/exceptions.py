"""Operators of the database that are not held to eager's result, each with its reason. Under 2% of the
entries.

metadata: shape, dtype, strides and aliasing must still be eager's, only the values are undefined. refused:
compiling it raises `Unsupported`, or it runs eagerly. No entry may excuse a wrong value.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Excuse:
    """operator: its name in the database, with its variant; kind: "metadata" or "refused"."""

    operator: str
    kind: str
    reason: str


UNDEFINED = "its values are undefined: whatever the memory held"

EXCEPTIONS = (
    Excuse("empty", "metadata", UNDEFINED),
    Excuse("empty_like", "metadata", UNDEFINED),
    Excuse("empty_permuted", "metadata", UNDEFINED),
    Excuse("empty_strided", "metadata", UNDEFINED),
    Excuse("new_empty", "metadata", UNDEFINED),
    Excuse("new_empty_strided", "metadata", UNDEFINED),
)

BY_OPERATOR = {excuse.operator: excuse for excuse in EXCEPTIONS}
