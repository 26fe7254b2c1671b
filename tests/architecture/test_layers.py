"""The order of the layers, and which of them may import which third-party package."""

from __future__ import annotations

import ast
import sys

import pytest
from importlinter.cli import lint_imports

from tests.architecture.sources import ROOT, find_imports, list_files, name_of, parse

# Where each third-party package may be imported: paths under lamina/, a folder stands for what is in it,
# None for everywhere.
ALLOWED: dict[str, tuple[str, ...] | None] = {
    "torch": (
        "capture", "autograd", "eager", "runtime", "distributed", "quantize",
        "driver", "pipeline", "cli", "reports", "__init__.py",
    ),
    "llvmlite": ("codegen/llvm", "runtime/devices/cpu"),
    "triton": ("codegen/triton", "runtime/devices/cuda"),
    "islpy": ("passes",),
    "networkx": ("passes", "autograd"),
    "sympy": ("ir", "capture", "autograd", "passes"),
    "rich": ("reports", "cli", "driver"),
    "numpy": None,
}  # fmt: skip


def is_allowed(package: str, place: str) -> bool:
    """Whether a file (its path under lamina/) may import the package."""
    if package not in ALLOWED:
        return False
    places = ALLOWED[package]
    if places is None:
        return True
    return any(place in (entry, f"{entry}.py") or place.startswith(f"{entry}/") for entry in places)


def test_order_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == 0


def test_third_party_imports_stay_in_their_layers() -> None:
    found = [
        f"{name_of(path)}:{line} imports {module}"
        for path in list_files("lamina")
        for line, module in find_imports(parse(path))
        if (package := module.partition(".")[0]) not in sys.stdlib_module_names
        and package != "lamina"
        and not is_allowed(package, path.relative_to(ROOT / "lamina").as_posix())
    ]
    assert not found, "\n".join(found)


def test_only_options_reads_the_environment() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in list_files("lamina")
        if name_of(path) != "lamina/options.py"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute | ast.Name)
        and getattr(node, "attr", getattr(node, "id", "")) in ("environ", "getenv")
    ]
    assert not found, "read these in lamina/options.py: " + ", ".join(found)


@pytest.mark.parametrize(
    ("package", "place", "allowed"),
    [
        ("torch", "ir/core.py", False),
        ("torch", "passes/tensor/fold.py", False),
        ("torch", "runtime/executor.py", True),
        ("llvmlite", "codegen/llvm/emit.py", True),
        ("llvmlite", "codegen/triton/emit.py", False),
        ("llvmlite", "runtime/devices/cpu.py", True),
        ("transformers", "capture/trace.py", False),
        ("numpy", "ir/interpret.py", True),
    ],
)
def test_the_rule_itself(package: str, place: str, allowed: bool) -> None:
    assert is_allowed(package, place) is allowed
