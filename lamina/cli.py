"""The `lamina` command: run, bench, explain, opt, cache.

A PROGRAM is `file.py:name`, where calling `name()` gives (function or module, args) or (..., args, kwargs).
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import lamina
from lamina.errors import LaminaError, UserError
from lamina.options import Options
from lamina.runtime.cache import entries

Program = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did its job, 1 after an error, 2 for wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments) or 0)
    except LaminaError as error:
        print(error.draw(), file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lamina", description="An ML compiler for PyTorch programs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for word, function, text in (
        ("run", run_program, "compile a program, run it, compare it with eager"),
        ("bench", bench_program, "time a program compiled and in eager, in alternating rounds"),
        ("explain", explain_program, "show graphs, kernels, what fused and why not, bytes moved"),
    ):
        command = commands.add_parser(word, help=text, description=text)
        command.add_argument(
            "program", metavar="PROGRAM", help="file.py:name of a function giving (function, args)"
        )
        command.set_defaults(command=function)
        if word == "bench":
            command.add_argument("--rounds", type=int, default=15, help="rounds of each side (default 15)")
        if word == "explain":
            command.add_argument("--json", action="store_true", help="as JSON, for machines")
    command = commands.add_parser(
        "opt", help="run passes over IR text", description="Run passes over IR text."
    )
    command.add_argument(
        "file", metavar="FILE", help="IR text in MLIR's generic syntax; - reads standard input"
    )
    command.add_argument("--passes", default="", help="comma-separated pass names, options in braces")
    command.add_argument("--list", action="store_true", help="list the passes and stop")
    command.set_defaults(command=optimise_text)
    command = commands.add_parser("cache", help="show or clear the disk cache", description="The disk cache.")
    command.add_argument("action", choices=("info", "clear"))
    command.set_defaults(command=show_cache)
    return parser


def load_program(text: str) -> Program:
    """The program that `file.py:name` names. UserError says what is wrong with it."""
    file, _, name = text.rpartition(":")
    if not file:
        raise UserError(f"{text!r} is no program", hint="write it as file.py:name")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file {file}", hint="write the program as file.py:name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    make = getattr(module, name, None)
    if not callable(make):
        raise UserError(f"{file} has no function {name!r}")
    made = make()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not callable(made[0]):
        raise UserError(f"{name}() must give (function, args) or (function, args, kwargs)")
    function, args, *rest = made
    return function, tuple(args), dict(rest[0]) if rest else {}


def run_program(arguments: argparse.Namespace) -> int:
    function, args, kwargs = load_program(arguments.program)
    with torch.no_grad():
        expected = function(*args, **kwargs)
        started = time.perf_counter()
        result = lamina.compile(function)(*args, **kwargs)
        seconds = time.perf_counter() - started
    print(
        f"compiled and run in {seconds:.2f} s; "
        f"largest difference from eager: {difference(result, expected):.3g}"
    )
    print(", ".join(f"{name} {count}" for name, count in lamina.counters().items()))
    return 0


def difference(result: Any, expected: Any) -> float:
    """The largest absolute difference between two equally nested results; inf where shapes differ."""
    if isinstance(expected, torch.Tensor):
        if not isinstance(result, torch.Tensor) or result.shape != expected.shape:
            return float("inf")
        pair = (value.detach().to(torch.float64) for value in (result, expected))
        return float(torch.nan_to_num(torch.sub(*pair)).abs().max()) if expected.numel() else 0.0
    if isinstance(expected, dict):
        return max((difference(result[key], value) for key, value in expected.items()), default=0.0)
    if isinstance(expected, list | tuple):
        return max((difference(a, b) for a, b in zip(result, expected, strict=True)), default=0.0)
    return 0.0


def bench_program(arguments: argparse.Namespace) -> int:
    function, args, kwargs = load_program(arguments.program)
    compiled = lamina.compile(function)
    sides = {"eager": function, "lamina": compiled}
    times: dict[str, list[float]] = {name: [] for name in sides}
    with torch.no_grad():
        for side in sides.values():
            for _ in range(3):
                side(*args, **kwargs)
        for _ in range(arguments.rounds):
            for name, side in sides.items():
                started = time.perf_counter()
                side(*args, **kwargs)
                times[name].append(time.perf_counter() - started)
    table = Table()
    for heading in ("", "median ms", "fastest ms", "speed-up"):
        table.add_column(heading)
    base = statistics.median(times["eager"])
    for name, taken in times.items():
        median = statistics.median(taken)
        table.add_row(name, f"{median * 1e3:.3f}", f"{min(taken) * 1e3:.3f}", f"{base / median:.2f}x")
    Console().print(table)
    return 0


def explain_program(arguments: argparse.Namespace) -> int:
    function, args, kwargs = load_program(arguments.program)
    with torch.no_grad():
        explanation = lamina.explain(function, *args, **kwargs)
    print(explanation.to_json() if arguments.json else explanation)
    return 0


def optimise_text(arguments: argparse.Namespace) -> int:
    from lamina.ir.machine import host
    from lamina.ir.passes import Context
    from lamina.pipeline import REGISTRY, optimise

    if arguments.list:
        for name, found in REGISTRY.items():
            print(f"{name:20}{found.takes} -> {found.gives}")
        return 0
    options = Options.from_user()
    text = sys.stdin.read() if arguments.file == "-" else _read(arguments.file)
    context = Context(options, host(options))
    print(optimise(text, arguments.passes, arguments.file, context), end="")
    return 0


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}") from None


def show_cache(arguments: argparse.Namespace) -> int:
    folder = Options.from_user().cache_path()
    rows = entries(folder)
    if arguments.action == "info":
        print(folder)
        for kind, count, size in rows:
            print(f"{kind:12}{count:8} entries{size / 2**20:10.1f} MiB")
        if not rows:
            print("empty")
        return 0
    for kind, _, _ in rows:
        shutil.rmtree(folder / kind)
    print(f"removed {sum(count for _, count, _ in rows)} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
