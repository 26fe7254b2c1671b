"""Draws an `Explanation` as tables on a terminal, or as plain text."""

from __future__ import annotations

import io
import itertools

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lamina.reports.report import Explanation, GraphReport, Traffic

MOST_ROWS = 24
"""Rows of a table before the rest is counted in one line."""


def render(explanation: Explanation, *, width: int = 120, color: bool = False) -> str:
    """The explanation as text, `width` characters wide."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=color, color_system="standard" if color else None
    )
    console.print(layout(explanation))
    return stream.getvalue()


def layout(explanation: Explanation) -> RenderableType:
    """The explanation as something rich can print."""
    graphs, breaks = _count(len(explanation.graphs), "graph"), _count(len(explanation.breaks), "break")
    parts: list[RenderableType] = [Text(f"{explanation.name}: {graphs}, {breaks}", style="bold")]
    for each in explanation.breaks:
        parts.append(Text(f"break [{each['code']}] at {each['location']}: {each['message']}"))
        if each["hint"]:
            parts.append(Text(f"  help: {each['hint']}"))
    for graph in explanation.graphs:
        parts.extend(_graph(graph))
    return Group(*parts)


def _graph(graph: GraphReport) -> list[RenderableType]:
    if graph.eager_reason:
        return [Text(f"\n{graph.name}: runs eagerly: {graph.eager_reason}")]
    kernels = f"{_count(graph.launches, 'kernel launch', 'es')} of {_count(len(graph.kernels), 'kernel')}"
    calls = _count(sum(graph.externs.values()), "library call")
    heading = f"\n{graph.name}: {_count(graph.operations, 'operation')} became {kernels} and {calls}"
    parts: list[RenderableType] = [Text(heading, style="bold"), _traffic(graph.traffic), _kernels(graph)]
    if graph.externs:
        calls = ", ".join(f"{name} x{count}" for name, count in sorted(graph.externs.items()))
        parts.append(Text(f"library calls: {calls}"))
    parts.append(_refusals(graph))
    parts.append(
        Text(f"workspace {_bytes(graph.arena_bytes)}, prepared weights {_bytes(graph.prepared_bytes)}")
    )
    if graph.guards:
        parts.append(Text(f"guards ({len(graph.guards)}):"))
        parts.extend(Text(f"  {line}") for line in graph.guards[:MOST_ROWS])
        parts.extend(_rest(len(graph.guards)))
    parts.append(_seconds(graph))
    return parts


def _traffic(traffic: Traffic) -> RenderableType:
    table = Table(title="bytes moved by a call", title_justify="left")
    for heading in ("eager", "lamina", "least possible"):
        table.add_column(heading, justify="right")
    table.add_row(_bytes(traffic.eager), _bytes(traffic.lamina), _bytes(traffic.least))
    return table


def _kernels(graph: GraphReport) -> RenderableType:
    table = Table(title="kernels", title_justify="left")
    for heading in ("kernel", "kind", "launches", "bytes", "fused", "from"):
        table.add_column(heading, justify="right" if heading in ("launches", "bytes") else "left")
    for kernel in graph.kernels[:MOST_ROWS]:
        fused = ", ".join(_runs(kernel.operations))
        row = (
            kernel.name,
            kernel.kind,
            str(kernel.launches),
            _bytes(kernel.bytes),
            fused,
            ", ".join(kernel.lines),
        )
        table.add_row(*row)
    for line in _rest(len(graph.kernels)):
        table.add_row(line.plain)
    return table


def _refusals(graph: GraphReport) -> RenderableType:
    found: dict[str, int] = {}
    for remark in graph.refusals():
        place = f"{remark['file']}:{remark['line']}: " if remark["file"] else ""
        line = f"{place}{remark['pass']}: {remark['text']}"
        found[line] = found.get(line, 0) + 1
    if not found:
        return Text("nothing was refused")
    lines = [Text("not done, and why:")]
    for line, count in itertools.islice(found.items(), MOST_ROWS):
        lines.append(Text(f"  {line}" + (f" (x{count})" if count > 1 else "")))
    return Group(*lines, *_rest(len(found)))


def _seconds(graph: GraphReport) -> RenderableType:
    total = sum(graph.seconds.values())
    table = Table(title=f"compile time: {total:.2f} s", title_justify="left")
    table.add_column("stage")
    table.add_column("time", justify="right")
    table.add_column("share", justify="right")
    for stage, seconds in graph.seconds.items():
        table.add_row(stage, f"{seconds * 1e3:.0f} ms", f"{seconds / total:.0%}" if total else "")
    return table


def _rest(count: int) -> list[Text]:
    return [Text(f"  ... and {count - MOST_ROWS} more")] if count > MOST_ROWS else []


def _runs(names: list[str]) -> list[str]:
    """`["a", "a", "b"]` as `["a x2", "b"]`."""
    counted: dict[str, int] = {}
    for name in names:
        counted[name] = counted.get(name, 0) + 1
    return [name if count == 1 else f"{name} x{count}" for name, count in counted.items()]


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"
