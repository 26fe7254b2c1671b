"""Random changes between calls: whenever the guards hold, the capture must give what eager gives.

    python tests/fuzz/call_sequences.py --first 0 --count 10000

A sequence calls one function several times: two or three sections of `changing_program`. Before each call up to
two of `program_changes` are made, mostly to what the sections read: attributes of objects, classes and
metaclasses, special methods, slots, descriptors, globals, closure cells, containers and their keys, functions,
modules and hooks, parameters, registries, modes, the arguments. Eager is asked each time.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import sys
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE.parents[1]) not in sys.path:
    sys.path.insert(0, str(HERE.parents[1]))

from lamina.capture import trace  # noqa: E402
from lamina.errors import Unsupported  # noqa: E402
from tests.capture.equality import differ  # noqa: E402
from tests.fuzz.program_changes import CHANGES, OF_THE_CALL  # noqa: E402

PROGRAM = HERE / "changing_program.py"
CODE = compile(PROGRAM.read_text(), str(PROGRAM), "exec")
INPUTS = [
    torch.arange(3.0),
    torch.ones(2, 3),
    torch.ones(3, dtype=torch.float64),
    torch.ones(3, 3).t() * 2,
    torch.ones(3, requires_grad=True),
    torch.nn.Parameter(torch.ones(3), requires_grad=False),
]
USUAL = 0.8
"""How often a change is one to what the sections read."""


def load_program():
    """A fresh module: its classes and globals are this sequence's own."""
    module = types.ModuleType("changing_program")
    sys.modules["changing_program"] = module
    exec(CODE, vars(module))
    sys.modules["changing_library"] = module.LIBRARY
    return module


@contextlib.contextmanager
def usual_modes():
    """Set back what the changes to the thread's state have done."""
    try:
        yield
    finally:
        # First of all: what torch imports below looks through all modules.
        for name in ("changing_library", "changing_extra"):
            sys.modules.pop(name, None)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        torch._C._set_cudnn_enabled(True)
        torch.set_float32_matmul_precision("highest")
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def run_sequence(seed, calls):
    """Returns how many calls used an earlier capture; AssertionError for a result that eager does not give."""
    choose = random.Random(seed)
    program = load_program()
    whole = program.Whole()
    whole.sections = choose.sample(program.SECTIONS, choose.choice((2, 3)))
    near = [*OF_THE_CALL, *(change for section in whole.sections for change in CHANGES[section.__name__])]
    far = [change for group in CHANGES.values() for change in group]
    is_argument = bool(seed % 2)
    function = (lambda w, x: w.run(x)) if is_argument else (lambda x: whole.run(x))
    captures = []
    hits = 0
    with usual_modes():
        for call in range(calls):
            for _ in range(choose.choice((0, 1, 1, 2))):
                change = choose.choice(near if choose.random() < USUAL else far)
                # A change that the others before it leave no room for is left away.
                with contextlib.suppress(Exception):
                    change(program, whole, choose)
            (x,) = choose.choices(INPUTS, weights=(7, 1, 1, 1, 1, 1))
            args = (whole, x) if is_argument else (x,)
            with torch.set_grad_enabled(choose.random() < 0.05):
                hits += check_call(function, args, whole, captures, f"seed {seed}, call {call}")
    return hits


def check_call(function, args, whole, captures, where):
    """Whether one of `captures` was used; makes a new one where none holds."""
    found = next((one for one in captures if one.check(args, {})), None)
    is_hit = found is not None
    if found is None:
        assert not captures or captures[-1].explain_failure(args, {}), where
        try:
            found = trace(function, args, {})
        except Unsupported:
            return False
        except Exception as error:
            assert raises(function, args) is type(error), where
            return False
        if found.pause is not None:
            return False
        assert found.check(args, {}), f"{where}: {found.explain_failure(args, {})}"
        captures.append(found)
    whole.__dict__.pop("seen", None)
    got = found.call(args, {})
    assert whole.seen == got[0].shape[0], where
    expected = ask_eager(function, args)
    assert not differ(got, expected), f"{where}: {differ(got, expected)}"
    return is_hit


def ask_eager(function, args):
    try:
        return function(*args)
    except Exception as error:
        raise AssertionError(f"eager raises {type(error).__name__}: {error}") from error


def raises(function, args):
    """The class of what eager raises; None where it does not."""
    try:
        function(*args)
    except Exception as error:
        return type(error)
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=10)
    arguments = parser.parse_args()
    hits, stale = 0, []
    for seed in range(arguments.first, arguments.first + arguments.count):
        try:
            hits += run_sequence(seed, arguments.calls)
        except AssertionError as error:
            stale.append(seed)
            print(f"\nseed {seed}: {error}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{seed + 1 - arguments.first} of {arguments.count}", end="", file=sys.stderr)
    kinds = len(OF_THE_CALL) + sum(map(len, CHANGES.values()))
    print(f"{arguments.count} sequences of {arguments.calls} calls, {kinds} kinds of change: ", end="")
    print(f"{hits} calls used an earlier capture, {len(stale)} sequences wrong {stale or ''}")
    return bool(stale)


if __name__ == "__main__":
    raise SystemExit(main())
