"""The record of one compile, as `lamina.explain` shows it. Plain data; `render` draws it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from lamina.errors import LaminaError, Place


def describe_place(place: Place) -> str:
    """file:line, or nothing."""
    if place is None or isinstance(place, tuple):
        return "" if place is None else f"{place[0]}:{place[1]}"
    return str(place)


@dataclass(slots=True)
class KernelReport:
    """One generated kernel: what it fused, where that stands in the user's program, what it moves.

    `launches` counts its calls in the program; `bytes` are read plus written by one launch.
    """

    name: str
    kind: str
    operations: list[str]
    lines: list[str]
    launches: int
    bytes: int


@dataclass(slots=True)
class Traffic:
    """Bytes read plus written by a call: op by op in eager, by this program, and the least possible."""

    eager: int = 0
    lamina: int = 0
    least: int = 0


@dataclass(slots=True)
class GraphReport:
    """One captured graph and the program made of it."""

    name: str
    location: str = ""
    operations: int = 0
    """ATen operations before fusion: the kernels that eager launches."""
    kernels: list[KernelReport] = field(default_factory=list)
    externs: dict[str, int] = field(default_factory=dict)
    """Library operations by name and the number of calls."""
    traffic: Traffic = field(default_factory=Traffic)
    arena_bytes: int = 0
    prepared_bytes: int = 0
    """Bytes of packed or folded copies of weights, beside the weights themselves."""
    remarks: list[dict[str, Any]] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Compile time by stage."""
    eager_reason: str = ""
    """Why the graph runs eagerly, empty when it is compiled."""
    texts: dict[str, str] = field(default_factory=dict)
    """IR and source by stage, where they were asked for."""

    @property
    def launches(self) -> int:
        return sum(kernel.launches for kernel in self.kernels)

    def refusals(self) -> list[dict[str, Any]]:
        """What was not fused, or not compiled, and why."""
        return [remark for remark in self.remarks if remark["kind"] == "refused"]


@dataclass(slots=True)
class Explanation:
    """What `lamina.explain` returns. `str()` draws it; `to_json()` is for machines."""

    name: str
    graphs: list[GraphReport] = field(default_factory=list)
    breaks: list[dict[str, str]] = field(default_factory=list)
    """Each with code, message, location and hint."""
    recompiles: list[str] = field(default_factory=list)
    """Of each further variant: the place, and the guard that failed with expected and actual."""

    def add_break(self, error: LaminaError) -> None:
        self.breaks.append(
            {
                "code": getattr(error, "code", error.kind),
                "message": error.message,
                "location": describe_place(error.location),
                "hint": error.hint,
            }
        )

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str)

    def __str__(self) -> str:
        from lamina.reports.render import render

        return render(self)
