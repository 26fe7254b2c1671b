"""docs/capture.md against the sources: the codes of breaks, the named tests, what the examples print."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import torch

import lamina

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "capture.md").read_text(encoding="utf-8")
EAGER_CODES = {"raises", "failure"}


def codes_in_sources() -> set[str]:
    """The first argument of each call that ends a capture."""
    found = set()
    for path in (ROOT / "lamina" / "capture").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            first = node.args[0]
            if node.func.id in ("stop", "forbid", "Unsupported") and isinstance(first, ast.Constant):
                found.add(first.value)
    return found


def test_every_code_is_explained():
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE))
    assert rows == codes_in_sources() - EAGER_CODES
    assert all(f"`{code}`" in TEXT for code in EAGER_CODES)


def test_the_tests_it_names_exist():
    named = re.findall(r"`((?:tests/[\w/]+/)?(?:tests/)?test_\w+\.py)(?:::(\w+))?`", TEXT)
    assert named
    for file, function in named:
        (path,) = ROOT.glob(file) if "/" in file else (ROOT / "tests").rglob(file)
        assert not function or f"def {function}(" in path.read_text(encoding="utf-8")


def forward(x, scale):
    y = torch.relu(x) * scale
    if y.sum() > 10:
        y = y / y.sum()
    return y + 1


def test_its_examples_print_what_it_says():
    fast = lamina.compile(forward)
    with torch.no_grad():
        fast(torch.ones(4), 2)
        fast(torch.ones(6), 2)
        explanation = lamina.explain(fast, torch.ones(6), 2)
    flat = re.sub(r"[\s*]+", " ", TEXT)
    found = explanation.breaks[0]
    assert found["code"] in flat and found["message"] in flat and found["hint"] in flat
    assert explanation.recompiles[0] in flat
