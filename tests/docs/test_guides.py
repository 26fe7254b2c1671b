"""The code in the guides runs, block after block, as a reader would type it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("add_an_op", "add_a_pass", "add_a_backend")


def code_of(guide: str) -> str:
    text = (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("guide", GUIDES)
def test_guide_runs(guide: str, tmp_path: Path) -> None:
    """In a process of its own: a guide adds to the compiler's tables. A file, so that capture sees source."""
    source = code_of(guide)
    assert "assert" in source
    script = tmp_path / f"{guide}.py"
    script.write_text(source, encoding="utf-8")
    ran = subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
