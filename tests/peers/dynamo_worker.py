"""Runs one file of Dynamo's tests with another compiler in Dynamo's place: `python -m tests.peers.dynamo_worker`.

Arguments: FOLDER FILE COMPILER REPORT [TEST ...]; the tests named are left out. Appends to REPORT, for each test, a
line of JSON before it runs and one after, so that the caller knows which one ended the process.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.test_case
import torch._dynamo.testing

import lamina
from tests.peers.unit_worker import judge_suite, prepare

OLD_NAME = "torchdynamo"
PACKAGE = "dynamo_tests_of_2022"
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


def ours(
    backend: Any = "eager", *, nopython: bool = False, dynamic: bool | None = None, **_: Any
) -> Decorate:
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


def run_without_compiling(program: Any = None) -> Any:
    """Dynamo's `run`: nothing new is compiled. Lamina has none: the original is called."""
    return run_without_compiling if program is None else getattr(program, "__wrapped__", program)


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
        dynamo.run = run_without_compiling


def restore_old_names() -> None:
    """Names that the tests import and that today's package no longer has."""
    testing: Any = torch._dynamo.testing
    testing.requires_static_shapes = lambda function: function
    testing.unsupported = torch._dynamo.eval_frame.unsupported


def short_name(test: unittest.TestCase) -> str:
    return test.id().removeprefix(f"{PACKAGE}.")


def load(folder: pathlib.Path, file: str) -> unittest.TestSuite:
    """The tests of a file of the folder, which is imported as a package of its own name."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    return unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"{PACKAGE}.{file}"))


def main() -> None:
    folder, file, compiler, report, *left_out = sys.argv[1:]
    prepare()
    sys.meta_path.insert(0, OldPackageFinder())
    restore_old_names()
    replace_compiler(compiler)
    suite = load(pathlib.Path(folder), file)
    judge_suite(suite, report, left_out, "dynamo", short_name)


if __name__ == "__main__":
    main()
