"""Runs the torch-free machine against CPython on every program; works alone on any supported Python.

python tests/capture/run_plain.py      prints one line a difference and the counts; exit status 1 on any
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_machine():
    """Make `lamina.capture` importable without running its `__init__` (which imports torch)."""
    for name in ("lamina", "lamina.capture"):
        if name not in sys.modules:
            package = types.ModuleType(name)
            package.__path__ = [str(ROOT / name.replace(".", "/"))]
            sys.modules[name] = package
    from lamina.capture.machine.loop import Machine
    from lamina.capture.machine.signals import TracingStopped
    from lamina.capture.opcodes.table import all_handlers
    from lamina.capture.values.world import World

    return lambda: Machine(all_handlers(), World()), TracingStopped


PROGRAM_FILES = (
    "programs_async",
    "programs_control",
    "programs_classes",
    "programs_library",
    "programs_state",
)


def load_programs():
    """All plain programs, loaded without the package they lie in."""
    programs = []
    for name in PROGRAM_FILES:
        specification = importlib.util.spec_from_file_location(name, ROOT / f"tests/capture/{name}.py")
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
        programs += module.PROGRAMS
    return programs


def observe(run):
    """(kind, value, error text, printed text) of a run."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            outcome = ("result", repr(run()), "")
        except Exception as error:
            outcome = ("error", type(error).__name__, str(error))
    return (*outcome, printed.getvalue())


def compare_programs():
    """[(name, expected, got)] for programs that differ, and how many stopped with a reason."""
    make_machine, stopped_kind = load_machine()
    differences, stopped = [], []
    for program in load_programs():
        expected = observe(program)
        try:
            got = observe(lambda program=program: make_machine().world.call(program, (), {}))
        except stopped_kind as stopped_error:
            stopped.append((program.__name__, str(stopped_error.error)))
            continue
        if expected != got:
            differences.append((program.__name__, expected, got))
    return differences, stopped


if __name__ == "__main__":
    found, unsupported = compare_programs()
    for name, expected, got in found:
        print(f"{name}\n  expected {expected}\n  got      {got}")
    for name, reason in unsupported:
        print(f"{name}: stopped: {reason}")
    print(
        f"python {sys.version.split()[0]}: {len(load_programs())} programs, {len(found)} differ, {len(unsupported)} stopped"
    )
    sys.exit(bool(found))
