"""What passes decided and why, for `explain` and the tests: one list of remarks a compile.

A remark is `applied` (a transformation was made), `refused` (it was possible in principle; the text is
the reason) or `note`. `data` holds plain values (numbers, strings, lists), so that a remark prints as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lamina.ir.core import UNKNOWN, Location

Kind = Literal["applied", "refused", "note"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Remark:
    """One decision of a pass at a line of the user's program."""

    pass_name: str
    kind: Kind
    location: Location
    text: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location.file else ""
        return f"{place}{self.pass_name} {self.kind}: {self.text}"

    def to_plain(self) -> dict[str, Any]:
        """As JSON-ready values."""
        place = {"file": self.location.file, "line": self.location.line}
        return {"pass": self.pass_name, "kind": self.kind, **place, "text": self.text, "data": self.data}


class Remarks:
    """The remarks of one compile, in order."""

    def __init__(self) -> None:
        self.remarks: list[Remark] = []

    def add(
        self, pass_name: str, location: Location | None, text: str, kind: Kind = "note", **data: Any
    ) -> Remark:
        """Record a remark; ValueError when `kind` is none of KINDS."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        remark = Remark(pass_name, kind, location or UNKNOWN, text, data)
        self.remarks.append(remark)
        return remark

    def query(
        self, pass_name: str | None = None, kind: Kind | None = None, text: str | None = None, **data: Any
    ) -> list[Remark]:
        """The remarks of that pass and kind whose text contains `text` and whose data has those entries."""
        return [
            remark
            for remark in self.remarks
            if pass_name in (None, remark.pass_name)
            and kind in (None, remark.kind)
            and (text is None or text in remark.text)
            and all(remark.data.get(key) == value for key, value in data.items())
        ]

    def count(self) -> Counter[tuple[str, str]]:
        """How many remarks there are of each (pass, kind)."""
        return Counter((remark.pass_name, remark.kind) for remark in self.remarks)

    def to_json(self) -> str:
        """All remarks as a JSON list."""
        return json.dumps([remark.to_plain() for remark in self.remarks], default=str)

    def __iter__(self) -> Iterator[Remark]:
        return iter(self.remarks)

    def __len__(self) -> int:
        return len(self.remarks)
