"""The texts in docs/architecture.md are what the compiler prints today."""

from __future__ import annotations

import re
import sys

import pytest

from tests.docs.walk import PAGE, fill, texts

MACHINE_DEPENDENT = {"assembly"}
"""Shown as one processor has it."""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page shows the bytecode of CPython 3.11")
def test_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = texts()
    assert set(re.findall(r"<!-- walk: (\w+) -->", page)) <= set(shown)
    current = fill(page, {**shown, **{name: _block(page, name) for name in MACHINE_DEPENDENT}})
    assert current == page, "run python -m tests.docs.walk"


def _block(page: str, name: str) -> str:
    found = re.search(rf"<!-- walk: {name} -->\n```\w*\n(.*?)\n```", page, re.DOTALL)
    assert found is not None
    return found.group(1)
