"""Crawled modules of jansel/pytorch-jit-paritybench (not kept here): eager against the capture alone.

`python -m tests.peers.crawl FOLDER [--first M] [--count N] [--seed S] [--only TEXT] [--kernels]` judges a seeded sample of the
modules in FOLDER, a checkout of that repository, and prints one line a module and the counts. --kernels: with
Lamina's own back end. Sockets, downloads and the GPU are shut off; what is not installed is mocked.
"""

from __future__ import annotations

import argparse
import ast
import collections
import collections.abc
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import random
import re
import resource
import sys
import tempfile
import types
from typing import Any
from unittest.mock import MagicMock, NonCallableMock

import numpy
import torch

from tests.parity.compare import flatten
from tests.peers.isolation import judge_all
from tests.peers.judging import Outcome, judge, run

SECONDS = 60.0
MEMORY = 16 << 30
MOCKED = (
    "torch._six",
    "torch.utils.tensorboard",
    "torch.utils.tensorboard.writer",
    "torch.utils.cpp_extension",
)
CASE = re.compile(r"^    \((\w+),$", re.MULTILINE)


class MockFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nothing else finds of the packages that the crawled files import: mocks all through."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        # A module that a real package tries to import stays missing, as its owner expects.
        if name.partition(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        made = MagicMock(name=spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module: Any) -> None:
        return None


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise OSError("shut off for strangers' programs")


def shut_off() -> None:
    """No network, no downloads, no files left behind, bounded memory."""
    import socket

    for name in ("connect", "connect_ex", "bind"):
        setattr(socket.socket, name, refuse)
    torch.hub.load_state_dict_from_url = refuse
    torch.hub.load = refuse
    os.chdir(tempfile.mkdtemp())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def make_helpers() -> types.ModuleType:
    """What the generated files import from the repository's own helper module."""
    helpers = types.ModuleType("_paritybench_helpers")

    class MockConfig(dict[str, Any]):
        __getattr__ = dict.__getitem__

    def mock_layer(in_features: Any = None, out_features: Any = None, *args: Any, **kwargs: Any) -> Any:
        if in_features and out_features:
            return torch.nn.Linear(in_features, out_features, **kwargs)
        return torch.nn.ReLU()

    helpers.__dict__.update(
        _mock_config=MockConfig,
        _mock_layer=mock_layer,
        patch_functional=join_functional,
        _paritybench_base=object,
        _fails_compile=lambda: lambda test: test,
    )
    return helpers


@functools.cache
def join_functional() -> None:
    """Some of the programs import `torch.functional`, some `torch.nn.functional`, both as F."""
    one, other = torch.functional, torch.nn.functional
    names = {name for name in dir(one) if name[0].islower()}, {n for n in dir(other) if n[0].islower()}
    for name in names[0] - names[1]:
        setattr(other, name, getattr(one, name))
    for name in names[1] - names[0]:
        setattr(one, name, getattr(other, name))


@functools.cache
def prepare() -> MockFinder:
    """Make the process ready for the crawled files, which were written for older libraries."""
    shut_off()
    sys.modules["_paritybench_helpers"] = make_helpers()
    for name in MOCKED:
        sys.modules[name] = MagicMock(name=name)
    for name in ("Sequence", "Set", "Iterable", "Mapping", "MutableMapping", "Callable", "Hashable"):
        setattr(collections, name, getattr(collections.abc, name))
    for name, kind in (("float", float), ("int", int), ("bool", bool), ("object", object), ("str", str)):
        setattr(numpy, name, kind)
    finder = MockFinder()
    sys.meta_path.append(finder)
    return finder


def find_missing_packages(text: str) -> set[str]:
    """The packages that a file imports and that are not installed."""
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            named.add(node.module.partition(".")[0])
    return {name for name in named if name not in sys.modules and importlib.util.find_spec(name) is None}


@functools.lru_cache(maxsize=4)
def load_cases(path: str) -> list[Any]:
    """The cases of a generated file."""
    finder = prepare()
    name = pathlib.Path(path).stem
    module = sys.modules[name] = types.ModuleType(name)
    text = pathlib.Path(path).read_text(encoding="utf-8")
    finder.packages |= find_missing_packages(text)
    exec(compile(text, path, "exec"), module.__dict__)
    return list(module.__dict__.get("TESTCASES", []))


def list_cases(folder: pathlib.Path) -> list[str]:
    """`file:number:class` of every case, without running the files."""
    found = []
    for path in sorted((folder / "generated").glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        listed = text[text.find("\nTESTCASES = [") :]
        found += [f"{path}:{number}:{kind}" for number, kind in enumerate(CASE.findall(listed))]
    return found


def judge_case(name: str, with_kernels: bool = False) -> Outcome:
    """The outcome of one case."""
    path, number, _ = name.rsplit(":", 2)
    kind, make_init, make_forward, _ = load_cases(path)[int(number)]
    if kind.forward.__name__ == "_forward_unimplemented":
        return Outcome("skipped", reason="has no forward")
    args, kwargs = seeded(make_init)
    module = kind(*args, **kwargs).eval()

    def make_call() -> Any:
        arguments, keywords = seeded(make_forward)
        return tuple(arguments), keywords

    with torch.no_grad():
        if any(isinstance(leaf, NonCallableMock) for leaf in flatten(run(module, make_call()))):
            return Outcome("skipped", reason="gives a mock")
    program = module if isinstance(module, torch.nn.Module) else module.forward
    return judge(program, make_call, None if with_kernels else pass_through)


def seeded(make: Any) -> Any:
    torch.manual_seed(0)
    random.seed(0)
    return make()


def pass_through(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A back end that runs the captured graph as it is."""
    return graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    names = [name for name in list_cases(options.folder) if options.only in name]
    random.Random(options.seed).shuffle(names)
    verdicts: collections.Counter[str] = collections.Counter()
    codes: collections.Counter[str] = collections.Counter()
    judgement = functools.partial(judge_case, with_kernels=options.kernels)
    for name, outcome in judge_all(judgement, names[options.first : options.first + options.count], SECONDS):
        verdicts["whole" if outcome.is_whole and outcome.verdict == "same" else outcome.verdict] += 1
        codes.update({text.split(":")[0] for text in outcome.breaks})
        print(pathlib.Path(name).name, outcome.line(), flush=True)
        for text in outcome.breaks:
            print("   ", text.replace(str(options.folder), "."), flush=True)
    print(f"{sum(verdicts.values())} modules: {dict(verdicts.most_common())}")
    print(f"breaks by modules: {dict(codes.most_common())}")


if __name__ == "__main__":
    main()
