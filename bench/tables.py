"""Markdown tables from the results: speed, compile time, memory, error, and why a result is missing."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.peers import BASELINE, PEERS
from bench.results import Cell, Results
from bench.workloads import MICRO, NETWORKS, Workload

GROUPS = {"networks": NETWORKS, "micro programs": MICRO}
MISSING = "n/a"


def render(results: Results) -> str:
    """The whole report."""
    parts = [f"## Results\n\n{describe(results)}\n"]
    parts += [f"### {title}\n\n{table}\n" for title, table in tables_of(results).items() if table]
    reasons = list_reasons(results)
    if reasons:
        parts.append("### Not available\n\n" + "\n".join(reasons) + "\n")
    return "\n".join(parts)


def describe(results: Results) -> str:
    """The machine, in a sentence."""
    machine = results.machine
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        f"torch {machine['torch']}, float32."
    )


def tables_of(results: Results) -> dict[str, str]:
    """Every table by its title; empty text where nothing was measured."""
    tables = {}
    for group, workloads in GROUPS.items():
        tables[f"Speed: {group}, times eager's (higher is better)"] = speed_table(results, workloads)
        tables[f"Compile seconds in a fresh process with empty caches: {group}"] = compile_table(
            results, workloads
        )
        tables[f"Peak memory, packed weights aside, times eager's: {group}"] = memory_table(
            results, workloads
        )
        tables[f"Error against float64, times eager's: {group}"] = error_table(results, workloads)
    return tables


def speed_table(results: Results, workloads: Sequence[Workload]) -> str:
    """Eager's milliseconds and everyone's ratio, with the geometric mean of each column."""

    def eager_time(cells: dict[str, Cell]) -> str:
        rounds = cells[BASELINE].rounds
        return f"{1e3 * statistics.median(pair[1] for pair in rounds):.3g}" if rounds else MISSING

    return ratio_table(results, workloads, ("eager ms", eager_time), lambda _, cell: speed_of(cell))


def compile_table(results: Results, workloads: Sequence[Workload]) -> str:
    """Cold seconds, warm ones behind a slash where the peer keeps a cache."""
    columns = columns_of(results, workloads)
    rows = []
    for workload in workloads:
        cells = results.cells.get(workload.name, {})
        texts = []
        for name in columns:
            cell = cells.get(name, Cell())
            warm = "" if cell.warm_seconds is None else f" / {cell.warm_seconds:.2g}"
            texts.append(MISSING if cell.cold_seconds is None else f"{cell.cold_seconds:.2f}{warm}")
        if cells:
            rows.append([workload.name, *texts])
    return draw(
        ["", *(f"{name} cold / warm" if PEERS[name].has_disk_cache else name for name in columns)], rows
    )


def memory_table(results: Results, workloads: Sequence[Workload]) -> str:
    """Peak resident size of the process while it runs the prepared function, over that of eager's process.

    Copies of the weights that a peer packs and tells of are left out and named in MiB behind a plus.
    """

    def eager_memory(cells: dict[str, Cell]) -> str:
        peak = cells[BASELINE].run_peak
        return MISSING if peak is None else f"{peak / 2**20:.0f}"

    def ratio(eager: Cell, cell: Cell) -> float | None:
        return (
            None
            if not eager.run_peak or not cell.run_peak
            else (cell.run_peak - packed(cell)) / eager.run_peak
        )

    def note(cell: Cell) -> str:
        return f" (+{packed(cell) / 2**20:.0f})" if packed(cell) else ""

    return ratio_table(results, workloads, ("eager MiB", eager_memory), ratio, note)


def packed(cell: Cell) -> int:
    """Bytes of packed weights, 0 where the peer does not say."""
    return cell.counters.get("packed_bytes", 0)


def error_table(results: Results, workloads: Sequence[Workload]) -> str:
    """Largest error over the largest result; the column of a peer is over eager's own."""

    def eager_error(cells: dict[str, Cell]) -> str:
        error = cells[BASELINE].error
        return MISSING if error is None else f"{error:.1e}"

    def ratio(eager: Cell, cell: Cell) -> float | None:
        return None if not eager.error or cell.error is None else cell.error / eager.error

    return ratio_table(results, workloads, ("eager", eager_error), ratio)


def speed_of(cell: Cell) -> float | None:
    """How many times faster than eager: the median over rounds, each round its own ratio."""
    return statistics.median(eager / own for eager, own in cell.rounds) if cell.rounds else None


def ratio_table(
    results: Results,
    workloads: Sequence[Workload],
    baseline: tuple[str, Callable[[dict[str, Cell]], str]],
    ratio: Callable[[Cell, Cell], float | None],
    note: Callable[[Cell], str] = lambda _: "",
) -> str:
    """One row a workload: the baseline's own number, then each peer's ratio and note; a row of means."""
    columns = [name for name in columns_of(results, workloads) if name != BASELINE]
    rows: list[list[str]] = []
    values: dict[str, list[float]] = {name: [] for name in columns}
    for workload in workloads:
        cells = results.cells.get(workload.name, {})
        if BASELINE not in cells:
            continue
        row = [workload.name, baseline[1](cells)]
        for name in columns:
            value = ratio(cells[BASELINE], cells[name]) if name in cells else None
            row.append(MISSING if value is None else f"{value:.2f}{note(cells[name])}")
            values[name] += [] if value is None else [value]
        rows.append(row)
    if len(rows) > 1:
        means = [f"{geometric_mean(values[name])} ({len(values[name])})" for name in columns]
        rows.append(["**geometric mean** (of how many)", "", *means])
    return draw(["", baseline[0], *columns], rows)


def geometric_mean(values: Iterable[float]) -> str:
    """As text, of the positive values."""
    positive = [value for value in values if value > 0]
    return f"{statistics.geometric_mean(positive):.2f}" if positive else MISSING


def columns_of(results: Results, workloads: Sequence[Workload]) -> list[str]:
    """The peers that have a cell in these workloads, in the order of the list of peers."""
    return [
        name for name in PEERS if any(name in results.cells.get(workload.name, {}) for workload in workloads)
    ]


def draw(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    if not rows or len(header) < 2:
        return ""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def list_reasons(results: Results) -> list[str]:
    """One line for each cell without a result: what went wrong, or how to go on."""
    lines = []
    for workload, cells in results.cells.items():
        for peer, cell in cells.items():
            reason = cell.reason
            if not reason and not cell.is_finished(1, needs_warm=False):
                reason = f"not finished; `python -m bench --workload {workload} --peer {peer}` goes on"
            if reason:
                lines.append(f"- {workload} with {peer}: {reason}")
    return lines


def write_between_marks(path: Path, results: Results) -> list[str]:
    """Replace what is between `<!-- bench: TITLE -->` and `<!-- /bench -->` by the table of that title.

    Returns the titles replaced; a title that names no table is a ValueError that lists those there are.
    """
    tables = tables_of(results) | {"machine": describe(results)}
    pieces = path.read_text(encoding="utf-8").split("<!-- bench: ")
    replaced = []
    for number, piece in enumerate(pieces[1:], start=1):
        title, _, rest = piece.partition(" -->")
        if title not in tables:
            raise ValueError(f"{path.name}: no table {title!r}; there are: {', '.join(tables)}")
        old, mark, after = rest.partition("<!-- /bench -->")
        if tables[title]:
            old = f"\n\n{tables[title]}\n\n"
            replaced.append(title)
        pieces[number] = f"{title} -->{old}{mark}{after}"
    path.write_text("<!-- bench: ".join(pieces), encoding="utf-8")
    return replaced
