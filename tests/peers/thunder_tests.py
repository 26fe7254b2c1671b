"""Thunder's tests of its Python interpreter (not kept here), with Lamina's machine in the interpreter's place.

`python -m tests.peers.thunder_tests FOLDER [--only TEXT]` runs the tests of `thunder/tests/test_interpreter.py` that
interpret something, FOLDER being a checkout of Lightning-AI/lightning-thunder: the torch-free machine runs what they
hand to `interpret`, and a stop fails the test. It prints how many pass, and each failure that `thunder_tests.txt`
does not explain. Thunder's own requirements must be installed: looseversion, optree, opt_einsum, lightning_utilities.
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


class Interpreted:
    """A function that the machine runs. A machine that meets `call` of this calls it natively."""

    __machine_native__ = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return Machine(all_handlers(), World()).world.call(self.function, args, kwargs)


def interpret(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return Interpreted(function).call


@ctypes.PYFUNCTYPE(ctypes.py_object)
def is_interpreted() -> bool:
    """Whether the machine makes this call: to the machine it is native code, which sees who calls."""
    return str(MACHINE) in sys._getframe(1).f_code.co_filename


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

    def __init__(self) -> None:
        self.verdicts: Verdicts = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """One of the two ways in which each test interprets: ours has only one."""
        items[:] = [each for each in items if getattr(each, "callspec", None) and "tracking" not in each.name]

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
    collector = Collector()
    file = given.folder / "thunder" / "tests" / "test_interpreter.py"
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null", "--import-mode=importlib"]
    options += ["-k", given.only] if given.only else []
    options += [] if given.show else ["--no-header", "--tb=line", "--no-summary"]
    pytest.main([*options, str(file)], plugins=[collector])
    kinds = collections.Counter(verdict for verdict, _ in collector.verdicts.values())
    print(f"{len(collector.verdicts)} tests {dict(kinds)}")
    telling = [name for name, (verdict, _) in collector.verdicts.items() if verdict != "skipped"]
    return report_failures(telling, collector.verdicts, read_reasons(REASONS), "interpreted tests")


if __name__ == "__main__":
    sys.exit(main())
