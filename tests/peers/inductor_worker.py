"""Runs Inductor's common tests with another compiler in its place: `python -m tests.peers.inductor_worker`.

Arguments: FOLDER ONLY COMPILER REPORT [TEST ...]; the tests named are left out, and those whose name is without ONLY.
There is no C++ compiler: what asks Inductor itself for code fails at once.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
import unittest
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.test_case
import torch._inductor.compile_fx
import torch._inductor.metrics

import lamina
from lamina.driver.dispatch import all_sites, dynamo_backend, state_of
from tests.peers.unit_worker import judge_suite, prepare

FILE = "test_torchinductor"
EAGER: set[str] = set()
"""Why graphs of the test that runs were not compiled."""
Program = Callable[..., Any]


def take_place(compile_program: Callable[..., Any]) -> Program:
    """What stands for `torch.compile`: calls what `compile_program(program, fullgraph, dynamic)` gives."""

    def stand_in(
        program: Any = None,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: Any = "inductor",
        **_: Any,
    ) -> Any:
        if program is None:
            return lambda each: stand_in(each, fullgraph=fullgraph, dynamic=dynamic, backend=backend)
        compiled = compile_program(program, fullgraph=fullgraph, dynamic=dynamic)

        def call(*args: Any, **kwargs: Any) -> Any:
            before = lamina.counters()["graphs"]
            result = compiled(*args, **kwargs)
            state = state_of(compiled)
            if state is None or lamina.counters()["graphs"] > before:
                say_called(backend)
            if state is not None:
                EAGER.update(each.reason for site in all_sites(state) for each in site.entries)
            return result

        return compiled if isinstance(program, torch.nn.Module) else call

    return stand_in


def make_wrong(program: Any, **_: Any) -> Any:
    """A compiler that makes every number of every result one too large."""

    @functools.wraps(program)
    def call(*args: Any, **kwargs: Any) -> Any:
        return torch.utils._pytree.tree_map(add_one, program(*args, **kwargs))

    return call


def leave_alone(program: Any, **_: Any) -> Any:
    """A compiler that does nothing."""
    return program


def say_called(backend: Any) -> None:
    """Set `called`, by which the tests know that their backend got a graph."""
    for name, cell in zip(
        getattr(getattr(backend, "__code__", None), "co_freevars", ()),
        getattr(backend, "__closure__", None) or (),
        strict=False,
    ):
        if name == "called":
            cell.cell_contents = True


def add_one(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype != torch.bool and value.layout == torch.strided:
        return value + 1
    return value


def replace_compiler(name: str, tests: Any) -> None:
    """Put a compiler in Inductor's place, and but for `aot_eager` and `backend` in Dynamo's."""
    if name in ("aot_eager", "backend"):
        backend = dynamo_backend if name == "backend" else torch._dynamo.lookup_backend("aot_eager")
        tests.compile_fx = torch._inductor.compile_fx.compile_fx = lambda graph, inputs, *_, **__: backend(
            graph, inputs
        )
        return
    compilers = {"lamina": lamina.compile, "wrong": make_wrong, "identity": leave_alone}
    compile_program = take_place(compilers[name])

    def optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: Any = None, **_: Any) -> Any:
        return lambda program: compile_program(program, backend=backend, fullgraph=nopython, dynamic=dynamic)

    def optimize_assert(backend: Any = "inductor", **options: Any) -> Any:
        return optimize(backend, **{**options, "nopython": True})

    torch.compile = compile_program
    torch._dynamo.optimize, torch._dynamo.optimize_assert = optimize, optimize_assert
    torch._dynamo.graph_break = lamina.graph_break


def import_tests() -> Any:
    """The file's module; a name that the installed torch lacks (the file is of another version) is a mock."""
    while True:
        try:
            return importlib.import_module(FILE)
        except ImportError as error:
            missing = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
            if missing is None:
                raise
            setattr(sys.modules[missing[2]], missing[1], unittest.mock.MagicMock())


def load(folder: str, only: str, compiler: str) -> unittest.TestSuite:
    """The common tests of a folder on the CPU."""
    sys.path.insert(0, folder)
    tests = import_tests()
    kind = type("CpuTests", (tests.TestCase,), {"common": tests.check_model, "device": "cpu"})
    tests.copy_tests(tests.CommonTemplate, kind, "cpu")
    replace_compiler(compiler, tests)
    return unittest.TestSuite(
        kind(name) for name in unittest.defaultTestLoader.getTestCaseNames(kind) if only in name
    )


def name_of(test: unittest.TestCase) -> str:
    return test.id().rpartition(".")[2]


def take_reasons() -> str:
    """Why graphs ran eagerly since the last call of this."""
    text = "; ".join(sorted(filter(None, EAGER)))
    EAGER.clear()
    return text


def main() -> None:
    folder, only, compiler, report, *left_out = sys.argv[1:]
    os.environ["LAMINA_CACHE_DIR"] = os.environ["TMPDIR"]
    torch._inductor.config.cpp.cxx = ("false",)
    prepare()
    suite = load(folder, only, compiler)
    # A failure of the compiler, after which the call runs eagerly, is a failure here.
    warnings.filterwarnings("error", message="lamina: .*eagerly")
    judge_suite(suite, report, left_out, os.path.basename(folder), name_of, take_reasons)


if __name__ == "__main__":
    main()
