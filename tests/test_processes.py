"""What only fresh processes show: the disk cache serves a second one, and no C or C++ compiler is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import json
import torch
import lamina

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU()).eval()
x = torch.randn(3, 8)
with torch.no_grad():
    result = lamina.compile(net, fullgraph=True)(x)
    torch.testing.assert_close(result, net(x))
print(json.dumps(lamina.counters()))
"""


def run(folder: Path, **environment: str) -> dict[str, int]:
    variables = {**os.environ, "LAMINA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    ran = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", PROGRAM],
        env=variables, cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first["kernel_compilations"] and not first["cache_hits"]
    assert not second["kernel_compilations"]
    assert second["cache_hits"] == first["kernel_compilations"] + 1  # the program itself
    assert second["kernels"] == first["kernels"]


def test_damaged_entries_are_rebuilt(tmp_path: Path) -> None:
    run(tmp_path)
    files = [path for kind in ("kernel", "object") for path in (tmp_path / kind).rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:-7])
    variables = {"PYTHONWARNINGS": "default"}
    program = PROGRAM.replace("import lamina\n", "import lamina, warnings\nwarnings.simplefilter('ignore')\n")
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LAMINA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), **variables},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1])["kernel_compilations"] > 0


def test_no_compiler_is_needed(tmp_path: Path) -> None:
    """With an empty PATH no gcc, g++, clang, cc or ld can be found."""
    found = run(tmp_path, PATH="", CC="/nonexistent", CXX="/nonexistent")
    assert found["kernel_compilations"]
