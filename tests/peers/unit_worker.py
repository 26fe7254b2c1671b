"""The worker's side of `unit_tests`: judges test cases and appends the verdicts to the report."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import resource
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

MEMORY = 24 << 30
REASON_LENGTH = 300


def prepare() -> None:
    """Bounded memory, one thread, no warnings."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def judge(test: unittest.TestCase, folder: str) -> tuple[str, str]:
    """passed, failed or skipped, with the error and the line of the tests in `folder` where it came up."""
    result = unittest.TestResult()
    test.run(result)
    for _, text in result.errors + result.failures:
        return "failed", describe(text, folder)
    if result.skipped or result.expectedFailures or result.unexpectedSuccesses:
        return "skipped", ""
    return "passed", ""


def describe(text: str, folder: str) -> str:
    """The last error of a traceback, and the last of its lines in the tests' own files."""
    lines = text.rpartition("Traceback (most recent call last):")[2].splitlines()
    first = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), 0)
    error = " ".join(" ".join(lines[first:]).partition("To execute this test")[0].split())
    places = re.findall(rf'"[^"]*/{folder}/([^"]*)", line (\d+)', text)
    return f"{error[:REASON_LENGTH]} @ {':'.join(places[-1]) if places else '?'}"


def each_test(suite: Any) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each_test(item)
        else:
            yield item


def judge_suite(
    suite: unittest.TestSuite,
    report: str,
    left_out: list[str],
    folder: str,
    name_of: Callable[[unittest.TestCase], str],
    remark: Callable[[], str] = str,
) -> None:
    """Judge the tests of a suite, less those left out by name. remark: the reason kept with what passes."""
    with pathlib.Path(report).open("a", buffering=1) as stream:
        for kind, tests in itertools.groupby(each_test(suite), type):
            kind.setUpClass()
            for test in tests:
                name = name_of(test)
                if name not in left_out:
                    stream.write(json.dumps([name, "started", ""]) + "\n")
                    verdict, reason = judge(test, folder)
                    stream.write(json.dumps([name, verdict, reason or remark()]) + "\n")
            kind.tearDownClass()
