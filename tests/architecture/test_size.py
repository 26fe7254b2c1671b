"""The size ratchet: files, classes and functions stay small, and the list of exceptions only shrinks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import ROOT, list_files, name_of, parse

LIMITS = {"file": 600, "class": 300, "function": 60}
FOLDERS = ("lamina", "bench", "tests")
EXCEPTIONS = Path(__file__).with_name("size_exceptions.txt")
MOST_EXCEPTIONS = 0  # lower it when an entry goes; never raise it


def measure(path: Path) -> Iterator[tuple[str, str, int]]:
    """(name, what it is, lines) of the file and of each class and function in it."""
    tree = parse(path)
    yield name_of(path), "file", len(path.read_text(encoding="utf-8").splitlines())
    yield from measure_inside(tree, name_of(path) + "::")


def measure_inside(parent: ast.AST, prefix: str) -> Iterator[tuple[str, str, int]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            assert node.end_lineno is not None
            yield prefix + node.name, kind, node.end_lineno - node.lineno + 1
            yield from measure_inside(node, f"{prefix}{node.name}.")
        else:
            yield from measure_inside(node, prefix)


def read_exceptions() -> dict[str, int]:
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    pairs = (line.rsplit(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))
    return {name: int(size) for name, size in pairs}


def test_sizes() -> None:
    exceptions = read_exceptions()
    too_large: list[str] = []
    for path in list_files(*FOLDERS):
        for name, kind, lines in measure(path):
            allowed = max(LIMITS[kind], exceptions.get(name, 0))
            if lines > allowed:
                too_large.append(f"{name}: {lines} lines, {allowed} allowed for this {kind}")
    assert not too_large, "split these by meaning:\n" + "\n".join(too_large)


def test_exceptions_only_shrink() -> None:
    exceptions = read_exceptions()
    sizes = {name: (kind, lines) for path in list_files(*FOLDERS) for name, kind, lines in measure(path)}
    stale = [name for name in exceptions if name not in sizes]
    assert not stale, f"gone, remove them from {EXCEPTIONS.relative_to(ROOT)}: {stale}"
    loose = {name: sizes[name][1] for name, size in exceptions.items() if sizes[name][1] < size}
    assert not loose, f"these became smaller, lower or remove their entries: {loose}"
    assert len(exceptions) <= MOST_EXCEPTIONS, "the list of exceptions may only shrink"
