"""A real MLIR (`iree-opt`, of the optional package iree-base-compiler) as a judge of our text."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

UPSTREAM_LEVELS = ("to_linalg", "vectorize", "expand_math", "reuse", "to_llvm")
"""Levels that hold nothing but dialects that MLIR has."""
LEGAL_TABLES = {
    "tensor": "tensor",
    "fused": "tensor",
    "vectorize": "loops",
    "to_llvm": "llvm",
    "program": "program",
}
"""The table of legal operations that each stage's text is held to."""
HAS_MLIR = (
    importlib.util.find_spec("iree") is not None and (Path(sys.executable).parent / "iree-opt").exists()
)


def judge(text: str, *, locations: bool = False) -> tuple[bool, str]:
    """Whether MLIR reads and verifies a text, and what it prints: the generic form, or its complaint."""
    command = [
        str(Path(sys.executable).parent / "iree-opt"),
        "--allow-unregistered-dialect",
        "--mlir-print-op-generic",
        *(["--mlir-print-debuginfo"] if locations else []),
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr


def judge_each(texts: list[str]) -> list[bool]:
    """Whether MLIR accepts each text, by itself; one process for all of them."""
    command = [
        str(Path(sys.executable).parent / "iree-opt"),
        "--allow-unregistered-dialect",
        "--split-input-file",
        "-",
    ]
    chunks = [text if text.endswith("\n") else text + "\n" for text in texts]
    whole = "// -----\n".join(chunks)
    done = subprocess.run(command, input=whole, capture_output=True, text=True, timeout=300, check=False)
    wrong = {int(found.group(1)) for found in re.finditer(r"<stdin>:([0-9]+):[0-9]+: error:", done.stderr)}
    verdicts = []
    start = 1
    for chunk in chunks:
        end = start + chunk.count("\n") + 1
        verdicts.append(wrong.isdisjoint(range(start, end)))
        start = end
    return verdicts
