"""Runs one file of Dynamo's tests with another compiler in Dynamo's place: `python -m tests.peers.dynamo_worker`.

Arguments: FOLDER FILE COMPILER REPORT [TEST ...]; the tests named are left out. Appends to REPORT, for each test, a
line of JSON before it runs and one after, so that the caller knows which one ended the process.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import pathlib
import resource
import sys
import traceback
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.test_case
import torch._dynamo.testing

import lamina

OLD_NAME = "torchdynamo"
PACKAGE = "dynamo_tests_of_2022"
MEMORY = 24 << 30
REASON_LENGTH = 300
Decorate = Callable[[Any], Any]


class OldPackageFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the package's old name: those of today's package."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] != OLD_NAME:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return importlib.import_module(spec.name.replace(OLD_NAME, "torch._dynamo", 1))

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def identity(backend: Any = None, **options: Any) -> Decorate:
    """A compiler that does nothing."""
    return lambda program: program


def ours(backend: Any = "eager", *, nopython: bool = False, dynamic: bool | None = None, **_: Any) -> Decorate:
    """Lamina captures, `backend` takes each graph."""
    taker = torch._dynamo.lookup_backend(backend) if isinstance(backend, str) else backend

    def compile_program(program: Any) -> Any:
        return lamina.compile(program, backend=taker, fullgraph=nopython, dynamic=dynamic)

    return compile_program


def disable(program: Any = None, recursive: bool = True, **_: Any) -> Any:
    if program is None:
        return disable
    if isinstance(program, torch.nn.Module):
        program.forward = lamina.disable(program.forward)
        return program
    return lamina.disable(program)


def replace_compiler(name: str) -> None:
    """Put a compiler in Dynamo's place: wherever the tests, or the helpers they use, name Dynamo's."""
    dynamo: Any = torch._dynamo
    if name == "dynamo":
        return
    optimize = {"identity": identity, "lamina": ours}[name]

    def optimize_assert(backend: Any, **options: Any) -> Decorate:
        return optimize(backend, **{**options, "nopython": True})

    dynamo.optimize = optimize
    dynamo.optimize_assert = dynamo.testing.optimize_assert = optimize_assert
    dynamo.graph_break = lamina.graph_break
    if name == "lamina":
        dynamo.disable = disable


def restore_old_names() -> None:
    """Names that the tests import and that today's package no longer has."""
    testing: Any = torch._dynamo.testing
    testing.requires_static_shapes = lambda function: function
    testing.unsupported = torch._dynamo.eval_frame.unsupported


class Reporter(unittest.TestResult):
    """Writes what each test came to: passed, failed or skipped, with the error's last words."""

    def __init__(self, report: pathlib.Path) -> None:
        super().__init__()
        self.report = report
        self.verdict, self.reason = "passed", ""

    def write(self, test: unittest.TestCase, verdict: str, reason: str = "") -> None:
        with self.report.open("a") as stream:
            stream.write(json.dumps([short_name(test), verdict, reason]) + "\n")

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.verdict, self.reason = "passed", ""
        self.write(test, "started")

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        self.write(test, self.verdict, self.reason)

    def addFailure(self, test: Any, err: Any) -> None:
        self.verdict, self.reason = "failed", describe(err[1])

    addError = addFailure

    def addSkip(self, test: Any, reason: str) -> None:
        self.verdict, self.reason = "skipped", reason

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.verdict = "skipped"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.verdict = "skipped"


def describe(error: BaseException) -> str:
    """The error, and the line of the test that it comes from."""
    places = [
        f"{pathlib.Path(frame.filename).name}:{frame.lineno}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/dynamo/" in frame.filename
    ]
    words = " ".join(str(error).partition("To execute this test")[0].split())
    return f"{type(error).__name__}: {words}"[:REASON_LENGTH] + f" @ {places[-1] if places else '?'}"


def short_name(test: unittest.TestCase) -> str:
    return test.id().removeprefix(f"{PACKAGE}.")


def each_test(suite: Any) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each_test(item)
        else:
            yield item


def load(folder: pathlib.Path, file: str) -> unittest.TestSuite:
    """The tests of a file of the folder, which is imported as a package of its own name."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    return unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"{PACKAGE}.{file}"))


def main() -> None:
    folder, file, compiler, report, *left_out = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.meta_path.insert(0, OldPackageFinder())
    restore_old_names()
    replace_compiler(compiler)
    suite = load(pathlib.Path(folder), file)
    chosen = unittest.TestSuite(test for test in each_test(suite) if short_name(test) not in left_out)
    by_class: dict[type, unittest.TestSuite] = {}
    for test in each_test(chosen):
        by_class.setdefault(type(test), unittest.TestSuite()).addTest(test)
    unittest.TestSuite(by_class.values()).run(Reporter(pathlib.Path(report)))


if __name__ == "__main__":
    main()
