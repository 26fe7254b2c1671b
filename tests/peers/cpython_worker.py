"""Runs one module of CPython's own tests natively and through the machine; prints one JSON line a test.

python tests/peers/cpython_worker.py test_patma plain|traced [--start N] [--only text] [--limit seconds]

plain: the torch-free machine runs the method. traced: the method is captured as a compiled call is, then called.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import doctest
import functools
import gc
import importlib.util
import io
import json
import os
import pathlib
import random
import re
import signal
import sys
import types
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = 2.0
"""Seconds: tests that take longer natively are left out."""
EXEMPT = (unittest.SkipTest, KeyboardInterrupt)


def load_plain_machine():
    """(make_machine, TracingStopped, stop) without torch."""
    specification = importlib.util.spec_from_file_location("run_plain", ROOT / "tests/capture/run_plain.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    make_machine, stopped = module.load_machine()
    from lamina.capture.machine.signals import stop

    return make_machine, stopped, stop


def load_tracer():
    """(trace, TracingStopped, stop) of the whole capture."""
    sys.path.insert(0, str(ROOT))
    from lamina.capture import trace
    from lamina.capture.machine.signals import TracingStopped, stop

    return trace, TracingStopped, stop


class Recorder(unittest.TestResult):
    """What a test did, as comparable text."""

    def __init__(self):
        super().__init__()
        self.happened = []

    def note(self, kind, error):
        self.happened.append((kind, error[0].__name__, clean(str(error[1]))))

    def addError(self, test, err):  # noqa: N802
        self.note("error", err)

    def addFailure(self, test, err):  # noqa: N802
        self.note("failure", err)

    def addSkip(self, test, reason):  # noqa: N802
        self.happened.append(("skip", "", clean(reason)))

    def addExpectedFailure(self, test, err):  # noqa: N802
        self.happened.append(("expected failure", err[0].__name__, ""))

    def addUnexpectedSuccess(self, test):  # noqa: N802
        self.happened.append(("unexpected success", "", ""))

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None:
            self.note(str(subtest).rsplit(") ", 1)[-1], err)


def clean(text):
    """Text without addresses, numbers that change and the machine's own names for things."""
    return re.sub(r"0x[0-9a-fA-F]+", "0x", text)[:2000]


def collect(name):
    """The module's tests in order: test methods and doctests."""
    suite = unittest.TestLoader().loadTestsFromName(name)
    found = []

    def walk(part):
        for test in part:
            if isinstance(test, unittest.TestSuite):
                walk(test)
            elif isinstance(test, doctest.DocTestCase):
                test.kept_names = dict(test._dt_test.globs)
                found.append(test)
            elif has_plain_method(test):
                found.append(test)

    walk(suite)
    return found


def has_plain_method(test):
    if isinstance(test, (unittest.IsolatedAsyncioTestCase, unittest.FunctionTestCase)):
        return False
    method = getattr(type(test), getattr(test, "_testMethodName", ""), None)
    return type(method) is types.FunctionType and type(test).__module__ != "unittest.loader"


class Judge:
    """Runs each test natively and in the machine."""

    def __init__(self, mode, limit):
        self.mode = mode
        self.limit = limit
        if mode == "plain":
            self.make_machine, self.stopped_kind, self.stop = load_plain_machine()
        else:
            self.trace, self.stopped_kind, self.stop = load_tracer()
        self.stops = []
        self.watch_stops()
        signal.signal(signal.SIGALRM, self.ring)

    def watch_stops(self):
        """Note each stop where it is made: a stop that something swallowed is still a stop."""
        make = self.stopped_kind.__init__

        def note(stopped, error):
            self.stops.append(error)
            make(stopped, error)

        self.stopped_kind.__init__ = note

    def ring(self, number, frame):
        self.stop("slow", "the time limit of a test")

    def run(self, test, enter):
        """What the test does when `enter` runs its method; (happened, printed)."""
        if isinstance(test, doctest.DocTestCase):
            test._dt_test.globs.clear()
            test._dt_test.globs.update(test.kept_names)
        case = type(test)(test._testMethodName) if not isinstance(test, doctest.DocTestCase) else test
        if enter is not None and case is not test:
            function = getattr(type(test), test._testMethodName)

            @functools.wraps(function)
            def method():
                return enter(function, case)

            case.__dict__[test._testMethodName] = method
        recorder = Recorder()
        printed = io.StringIO()
        random.seed(0)
        signal.setitimer(signal.ITIMER_REAL, self.limit if enter else LONG, 1.0)
        try:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                warnings.catch_warnings(),
            ):
                case.run(recorder)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return recorder.happened, clean(printed.getvalue())

    def enter_plain(self, function, case):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20_000)
        try:
            return self.make_machine().world.call(function, (case,), {})
        except self.stopped_kind as stopped:
            raise unittest.SkipTest(str(stopped.error)) from None
        finally:
            sys.setrecursionlimit(limit)

    def enter_traced(self, function, case):
        from lamina.errors import Unsupported

        try:
            captured = self.trace(types.MethodType(function, case), (), {}, fullgraph=True)
        except Unsupported as error:
            self.stops.append(error)
            raise unittest.SkipTest(str(error)) from None
        return captured.call((), {})

    def run_doctest(self, test):
        """A doctest whose examples the machine runs."""

        def execute(code, names):
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(20_000)
            try:
                self.make_machine().run_text(code, names, names)
            finally:
                sys.setrecursionlimit(limit)

        doctest.exec = execute
        try:
            return self.run(test, self.enter_plain)
        finally:
            del doctest.exec

    def judge(self, test):
        """(outcome, stop code, detail)."""
        self.stops.clear()
        try:
            native = self.run(test, None)
            again = self.run(test, None)
        except self.stopped_kind:
            return "long", "", ""
        if any("slow" in str(entry) for entry in self.stops):
            return "long", "", ""
        if native != again:
            return "unstable", "", ""
        if any(kind == "skip" for kind, *_ in native[0]):
            return "skipped", "", ""
        self.stops.clear()
        try:
            got = self.run_in_machine(test)
        except self.stopped_kind:
            got = None
        stops = list(self.stops)
        self.stops.clear()
        if stops:
            return self.judge_stop(test, native, stops)
        if got == native:
            return "same", "", ""
        if self.run(test, None) != native:
            return "unstable", "", "after the machine"
        return "different", "", f"{got} instead of {native}"

    def run_in_machine(self, test):
        if isinstance(test, doctest.DocTestCase):
            return self.run_doctest(test)
        return self.run(test, self.enter_plain if self.mode == "plain" else self.enter_traced)

    def judge_stop(self, test, native, stops):
        last = stops[-1]
        detail = str(last)
        if last.code == "failure" or (last.code == "raises" and not native[0]):
            return "spurious", last.code, detail
        if self.mode == "traced" and last.code != "slow" and self.run(test, None) != native:
            return "leaked", last.code, detail
        self.stops.clear()
        return "stopped", last.code, detail


@contextlib.contextmanager
def class_fixtures(kind):
    kind.setUpClass()
    try:
        yield
    finally:
        kind.tearDownClass()
        kind.doClassCleanups()


def judge_all(judge, tests, report):
    """Every test, with the fixtures of its class and module around it."""
    opened = None
    stack = contextlib.ExitStack()
    for index, test in tests:
        kind = type(test)
        if kind is not opened:
            stack.close()
            stack = contextlib.ExitStack()
            opened = kind
            with contextlib.suppress(*EXEMPT):
                stack.enter_context(class_fixtures(kind))
        report(test=test.id(), index=index, outcome="started")
        if judge.mode == "traced" and isinstance(test, doctest.DocTestCase):
            continue
        kept = dict(vars(builtins))
        try:
            outcome, code, detail = judge.judge(test)
        except BaseException as error:
            outcome, code, detail = "unstable", "", repr(error)
        # A test that stops half way leaves what it replaced.
        vars(builtins).update(kept)
        report(test=test.id(), index=index, outcome=outcome, code=code, detail=detail)
        gc.collect()
    stack.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("mode", choices=["plain", "traced"])
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=10.0)
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w", buffering=1)

    def report(**entry):
        out.write(json.dumps(entry) + "\n")

    judge = Judge(options.mode, options.limit)
    from test import support

    support.use_resources = []
    tests = [
        (i, test) for i, test in enumerate(collect(f"test.{options.module}")) if options.only in test.id()
    ]
    report(tests=len(tests))
    module = sys.modules.get(f"test.{options.module}")
    setup = getattr(module, "setUpModule", None)
    if setup is not None:
        setup()
    judge_all(judge, [(i, test) for i, test in tests if i >= options.start], report)
    report(finished=True)


if __name__ == "__main__":
    main()
