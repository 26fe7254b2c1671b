"""The machine against CPython on plain Python programs: here, and on the other supported versions if installed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from lamina.capture import trace
from lamina.errors import Unsupported
from tests.capture.run_plain import load_machine, load_programs, observe

HERE = pathlib.Path(__file__).parent
PROGRAMS = load_programs()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_machine_gives_what_cpython_gives(program):
    make_machine, _ = load_machine()
    assert observe(lambda: make_machine().world.call(program, (), {})) == observe(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_traced_program_gives_the_same_or_stops(program):
    expected = observe(program)
    try:
        captured = trace(program, (), {}, fullgraph=True)
    except Unsupported as error:
        assert error.code
        if expected[0] == "error":
            assert error.code == "raises"
        return
    assert observe(lambda: captured.call((), {})) == expected
    assert observe(lambda: captured.call((), {})) == observe(program)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_versions(version):
    interpreters = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    if not interpreters or sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"Python {version} is not installed beside this one")
    done = subprocess.run(
        [str(interpreters[-1]), str(HERE / "run_plain.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
