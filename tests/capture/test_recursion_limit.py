"""The interpreter's recursion limit is higher while anybody traces, and as before when nobody does."""

from __future__ import annotations

import sys
import threading

import torch

from lamina.capture import trace
from lamina.capture.frontend import RECURSION_LIMIT, deep_recursion


def test_the_limit_while_tracing_and_after():
    before, inside = sys.getrecursionlimit(), []

    def program(x):
        return x + 1

    with deep_recursion:
        inside.append(sys.getrecursionlimit())
        trace(program, (torch.ones(2),), {})
        inside.append(sys.getrecursionlimit())
    assert inside == [max(before, RECURSION_LIMIT)] * 2
    assert sys.getrecursionlimit() == before


def test_threads_that_overlap_leave_the_limit_as_it_was():
    before = sys.getrecursionlimit()
    entered, left = threading.Event(), threading.Event()
    seen = []

    def other():
        with deep_recursion:
            entered.set()
            left.wait(10)
            seen.append(sys.getrecursionlimit())

    thread = threading.Thread(target=other)
    with deep_recursion:
        thread.start()
        assert entered.wait(10)
    left.set()
    thread.join()
    assert seen == [max(before, RECURSION_LIMIT)]
    assert sys.getrecursionlimit() == before
