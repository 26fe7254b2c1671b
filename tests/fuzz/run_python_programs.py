"""Random Python programs through the machine against CPython: never a difference without a stop.

python tests/fuzz/run_python_programs.py --first 0 --count 20000 [--traced]

Works alone on any supported Python; `--traced` captures each program as a compiled call is, which needs torch.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import io
import pathlib
import re
import signal
import sys
import types
import warnings

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "capture"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from python_programs import generate  # noqa: E402
from run_plain import load_machine  # noqa: E402

SECONDS = 10


class TimeUp(BaseException):
    """A program, or the machine under it, takes too long."""


class GaveUp(BaseException):
    """Capture stopped with a reason."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


def ring(number, frame):
    raise TimeUp


def load(text):
    """The program of a module's text, in a module of its own."""
    # The library looks a class's module up by name.
    module = sys.modules["fuzzed"] = types.ModuleType("fuzzed")
    names = vars(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(text, "<program>", "exec"), names)
    return names["program"]


ADDRESSES = re.compile(
    r"(?<=0x)[0-9a-fA-F]+|[0-9a-f]{8,}(?=x0)"
    r"|(?<='0', 'x')(?:, '[0-9a-f]'){8,}|(?:'[0-9a-f]', ){8,}(?='x', '0')"
)
"""Of objects, also turned around, also as a list of characters."""
TOO_DEEP = re.compile(
    r"(?<=maximum recursion depth exceeded) while [a-z]+ a Python object|(?<=exceeded) in comparison"
)


def clean(text):
    """Text without addresses, and without where a recursion that is too deep was found to be so."""
    return TOO_DEEP.sub("", ADDRESSES.sub("", text))


def observe(run):
    """(kind, value, error text, printed text) of a run."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            outcome = ("result", repr(run()), "")
        except (Exception, GeneratorExit) as error:
            outcome = ("error", describe(error), "")
    return tuple(clean(part) for part in (*outcome, printed.getvalue()))


def describe(error):
    """An exception with the chain behind it."""
    parts = []
    while error is not None and len(parts) < 5:
        try:
            text = str(error)
        except Exception as failure:
            text = f"no text: {type(failure).__name__}"
        parts.append(f"{type(error).__name__}({text})")
        error = error.__cause__ or error.__context__
    return " < ".join(parts)


def run_plain(program, make_machine):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return make_machine().world.call(program, (), {})
    finally:
        sys.setrecursionlimit(limit)


LOGGING = """
LOG = []

def show(*values):
    LOG.append(" ".join(map(str, values)))
"""


def without_prints(text):
    """The same program with a list as its output and no counter in a class, both of which end a capture."""
    text = text.replace("print(", "show(").replace("Box.made += 1", "pass")
    return LOGGING + text.replace("Box.made\n", "LOG\n")


def judge(seed, runner, stopped_kinds, prepare):
    """(outcome, detail) of one seed."""
    text = prepare(generate(seed))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        expected = observe(load(text))
        try:
            got = observe(lambda: runner(load(text)))
        except stopped_kinds as stopped:
            error = stopped.error
            if error.code == "raises" and expected[0] == "result":
                return "different", f"  an exception that CPython does not raise: {error}"
            if error.code == "failure":
                return "different", f"  the machine itself fails: {error}"
            return "stopped", error.code
    except TimeUp:
        return "slow", ""
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if expected == got:
        return "same", expected[0]
    return "different", "\n".join(
        f"  expected {a}\n  got      {b}" for a, b in zip(expected, got, strict=True) if a != b
    )


def make_runner(is_traced):
    """(runner, what it raises when it gives up)."""
    if not is_traced:
        make_machine, stopped = load_machine()
        return (lambda program: run_plain(program, make_machine)), (stopped,)
    sys.path.insert(0, str(HERE.parents[1]))
    from lamina.capture import trace
    from lamina.errors import Unsupported

    def run_traced(program):
        try:
            captured = trace(program, (), {}, fullgraph=True)
        except Unsupported as error:
            raise GaveUp(error) from None
        return captured.call((), {})

    return run_traced, (GaveUp,)


def judge_many(first, count, is_traced=False, report=print):
    """How many seeds ended how; prints what differs."""
    signal.signal(signal.SIGALRM, ring)
    runner, stopped = make_runner(is_traced)
    outcomes, codes = collections.Counter(), collections.Counter()
    prepare = without_prints if is_traced else str
    for seed in range(first, first + count):
        outcome, detail = judge(seed, runner, stopped, prepare)
        outcomes[outcome] += 1
        if outcome == "stopped":
            codes[detail] += 1
        elif outcome == "different":
            report(f"seed {seed} differs\n{detail}")
        if seed % 200 == 0:
            gc.collect()
    return outcomes, codes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--traced", action="store_true")
    options = parser.parse_args()
    outcomes, codes = judge_many(options.first, options.count, options.traced)
    version = sys.version.split()[0]
    print(f"python {version}: {dict(outcomes)}, stops {dict(codes)}")
    return bool(outcomes["different"])


if __name__ == "__main__":
    sys.exit(main())
