"""Names and openings of files: every module says what it is for, and none is a drawer of odds and ends."""

from __future__ import annotations

import ast

from tests.architecture.sources import list_files, name_of, parse

DRAWERS = {"util", "utils", "utility", "utilities", "helper", "helpers", "common", "misc", "shared", "stuff"}
FOLDERS = ("lamina", "bench", "tests")


def test_no_drawers() -> None:
    names = [name_of(path) for path in list_files(*FOLDERS)]
    found = [name for name in names if DRAWERS & set(name.removesuffix(".py").replace("_", "/").split("/"))]
    assert not found, f"name these after what they hold: {found}"


def test_modules_say_what_they_are_for() -> None:
    # An empty __init__.py has nothing to explain.
    paths = [path for path in list_files(*FOLDERS) if path.stat().st_size]
    found = [name_of(path) for path in paths if not (ast.get_docstring(parse(path)) or "").splitlines()[:1]]
    assert not found, f"these lack a first line that says what they are for: {found}"


def test_annotations_are_never_evaluated() -> None:
    found = []
    for path in list_files(*FOLDERS):
        tree = parse(path)
        has_import = any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body
        )
        if len(tree.body) > 1 and not has_import:
            found.append(name_of(path))
    assert not found, f"these lack `from __future__ import annotations`: {found}"
