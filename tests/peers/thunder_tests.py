"""Thunder's tests of its Python interpreter (not kept here), with Lamina's machine in the interpreter's place.

`python -m tests.peers.thunder_tests FOLDER [--only TEXT]` runs the tests of `thunder/tests/test_interpreter.py` that
interpret something, FOLDER being a checkout of Lightning-AI/lightning-thunder: the torch-free machine runs what they
hand to `interpret`, and a stop fails the test. It prints how many pass, and each failure that `thunder_tests.txt`
does not explain. Tests that CPython itself fails in the interpreter's place are about Thunder, not about Python: they
are set aside. Thunder's own requirements must be installed: looseversion, optree, opt_einsum, lightning_utilities.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import importlib
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamina
from lamina.capture.machine.loop import Machine
from lamina.capture.opcodes.table import all_handlers
from lamina.capture.values.world import World
from tests.peers.torchvision_operators import load_torchvision
from tests.peers.unit_tests import Verdicts, read_reasons, report_failures

REASONS = pathlib.Path(__file__).with_suffix(".txt")
RECURSION = 20_000
MACHINE = pathlib.Path(lamina.__file__).parent / "capture"
NAMED_TENSORS = ("align_as", "align_to", "has_names", "refine_names", "rename")
"""Methods of tensors that Thunder names and that torch no longer has."""


COMPILED = ("test_exception_traceback",)
"""Tests of what the caller of a program sees: `lamina.compile` shows it, not the machine alone."""


class Interpreted:
    """A function that runs in a machine, or in CPython alone."""

    is_native = False
    native_calls = 0

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if not self.is_native:
            return Machine(all_handlers(), Interpreting()).world.call(self.function, args, kwargs)
        Interpreted.native_calls += 1
        try:
            return self.function(*args, **kwargs)
        finally:
            Interpreted.native_calls -= 1


class Interpreting(World):
    """The world of a program run alone; an interpreted function that it calls runs in the same machine."""

    def call(self, callee: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        owner = callee.__self__ if type(callee) is types.MethodType else None
        return super().call(owner.function if type(owner) is Interpreted else callee, arguments, keywords)


def interpret(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return Interpreted(function).call


@ctypes.PYFUNCTYPE(ctypes.py_object)
def is_interpreted() -> bool:
    """Whether the machine makes this call: to the machine it is native code, which sees who calls."""
    return bool(Interpreted.native_calls) or str(MACHINE) in sys._getframe(1).f_code.co_filename


def ask_thunder(*_: Any, **__: Any) -> Any:
    pytest.skip("about what only Thunder's interpreter has")


def replace_interpreter(folder: pathlib.Path) -> None:
    """Import Thunder and put the machine in its interpreter's place, `lamina.compile` in its compiler's."""
    for name in NAMED_TENSORS:
        if not hasattr(torch.Tensor, name):
            setattr(torch.Tensor, name, types.FunctionType(ask_thunder.__code__, globals(), name))
    load_torchvision()
    sys.path.insert(0, str(folder))
    thunder: Any = importlib.import_module("thunder")
    importlib.import_module("thunder.tests")
    interpreter = thunder.core.interpreter
    interpreter.interpret = interpret
    interpreter.is_jitting = interpreter.is_jitting_with_raise = is_interpreted
    for name in (
        "make_opaque",
        "print_interpreter_log",
        "last_interpreter_log",
        "last_interpreted_instructions",
    ):
        setattr(interpreter, name, ask_thunder)
    thunder.jit = lamina.compile


class Collector:
    """A pytest plug-in that keeps the verdicts of tests by name."""

    def __init__(self, is_native: bool) -> None:
        self.is_native = is_native
        self.verdicts: Verdicts = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """One of the two ways in which each test interprets: ours has only one."""
        items[:] = [each for each in items if getattr(each, "callspec", None) and "tracking" not in each.name]

    def pytest_runtest_setup(self, item: Any) -> None:
        Interpreted.is_native = self.is_native
        is_compiled = item.originalname in COMPILED and not self.is_native
        item.callspec.params["jit"] = lamina.compile if is_compiled else interpret

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.when == "call" or report.outcome != "passed":
            last = str(report.longrepr or "").strip().splitlines()[-1:]
            self.verdicts[name] = report.outcome, "".join(last)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--show", action="store_true", help="pytest's own report")
    given = parser.parse_args()
    if given.folder is None or not given.folder.is_dir():
        print(f"Thunder's tests are skipped: there is no folder {given.folder or 'given'}")
        return 0
    sys.setrecursionlimit(RECURSION)
    replace_interpreter(given.folder)
    file = given.folder / "thunder" / "tests" / "test_interpreter.py"
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null", "--import-mode=importlib"]
    options += ["-k", given.only] if given.only else []
    options += [] if given.show else ["--no-header", "--tb=line", "--no-summary"]
    found: list[Verdicts] = []
    for is_native in (False, True):
        collector = Collector(is_native)
        pytest.main([*options, str(file)], plugins=[collector])
        found.append(collector.verdicts)
    ours, native = found
    kinds = collections.Counter(verdict for verdict, _ in ours.values())
    print(f"{len(ours)} tests {dict(kinds)}")
    judged = [name for name, (verdict, _) in ours.items() if verdict != "skipped"]
    aside = [name for name in judged if ours[name][0] == native[name][0] == "failed"]
    print("CPython fails as well:", *aside)
    telling = [name for name in judged if name not in aside]
    return report_failures(telling, ours, read_reasons(REASONS), "interpreted tests")


if __name__ == "__main__":
    sys.exit(main())
