"""Random Python programs in short: through the machine here and on the other Pythons, and traced."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

RUNNER = pathlib.Path(__file__).with_name("run_python_programs.py")


def run(python: str, *arguments: str) -> str:
    """The runner's output; fails on any difference."""
    done = subprocess.run(
        [python, str(RUNNER), *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_machine_gives_what_cpython_gives() -> None:
    assert "'same': " in run(sys.executable, "--first", "20000", "--count", "150")


def test_traced_program_gives_the_same_or_stops() -> None:
    run(sys.executable, "--first", "30000", "--count", "25", "--traced")


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_versions(version: str) -> None:
    interpreters = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    if not interpreters or sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"Python {version} is not installed beside this one")
    run(str(interpreters[-1]), "--first", "40000", "--count", "60")
