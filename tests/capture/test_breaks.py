"""Graph breaks: programs broken at every few instructions give what they give unbroken."""

from __future__ import annotations

import contextlib
import io

import pytest
import torch

import lamina
from lamina.capture.breaks.native import run_rest, step
from lamina.capture.frontend import Attempt, call_of, rest_of
from lamina.capture.machine.signals import TracingStopped
from tests.capture import torch_programs
from tests.capture.equality import alias_pattern, differ
from tests.capture.test_torch_programs import names, observe
from tests.fuzz import run_python_programs


def itself(callee):
    return callee


def capture_until(start, args, every, kwargs=None):
    """A captured segment of `every` instructions, or None where its values cannot leave the trace."""
    try:
        captured = Attempt(start, args, kwargs or {}).run(pause_at=every)
    except TracingStopped:
        return None
    assert captured.check(args, kwargs or {}), captured.explain_failure(args, kwargs or {})
    return captured


def call_broken(function, args, every):
    """Call `function` with a break after each `every` instructions of its frame; gives result and breaks.

    Where a segment cannot be captured, one more instruction runs natively.
    """
    captured = capture_until(call_of(function, args, {}), args, every)
    if captured is None:
        return function(*args), 0
    breaks = 0
    values = captured.call(args, {})
    point = captured.pause
    while point is not None:
        breaks += captured is not None
        point, values = step(point, values, itself)
        if point is None:
            break
        captured = capture_until(rest_of(point, values), values, every)
        if captured is not None:
            values, point = captured.call(values, {}), captured.pause
    return values, breaks


@pytest.mark.parametrize("every", [0, 1, 4])
@pytest.mark.parametrize("program", torch_programs.PROGRAMS, ids=names)
def test_broken_everywhere(program, every):
    function, makers = program
    expected = observe(function, makers)
    breaks = []

    def run(*args):
        result, count = call_broken(function, args, every)
        breaks.append(count)
        return result

    got = observe(run, makers)
    assert not differ(got, expected)
    assert alias_pattern(got[0], got[1]) == alias_pattern(expected[0], expected[1])


@pytest.mark.parametrize("program", torch_programs.PROGRAMS, ids=names)
def test_the_rest_runs_natively(program):
    """One break, then the rest of the frame as a real function."""
    function, makers = program
    expected = observe(function, makers)

    def run(*args):
        captured = capture_until(call_of(function, args, {}), args, 7)
        if captured is None or captured.pause is None:
            return function(*args)
        return run_rest(captured.pause, captured.call(args, {}), itself)

    assert not differ(observe(run, makers), expected)


def test_most_programs_break_often():
    """The test above would mean nothing if no program could be broken."""
    counts = []
    for function, makers in torch_programs.PROGRAMS:
        with contextlib.redirect_stdout(io.StringIO()):
            observe(lambda *args, function=function: counts.append(call_broken(function, args, 2)[1]), makers)
    assert sum(count >= 3 for count in counts) >= 0.8 * len(counts)


def branch(a, b):
    x = a / (a.abs() + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_branch_counts():
    """2 graphs for the first path, none for the same again, one more for the other branch."""
    lamina.reset()
    fast = lamina.compile(branch)
    seen = []
    with torch.no_grad():
        for sign in (1, 1, -1, -1):
            a, b = torch.randn(5), sign * torch.ones(5)
            assert torch.allclose(fast(a, b), branch(a, b))
            seen.append(lamina.counters()["graphs"])
    assert seen == [2, 2, 3, 3]


def item_and_print(x):
    y = x + 1
    total = y.sum().item()
    print("total", total)
    return y * total


def test_printed_text_comes_in_order(capsys):
    x = torch.ones(3)
    fast = lamina.compile(item_and_print)
    with torch.no_grad():
        expected, got = item_and_print(x), fast(x)
    assert torch.equal(expected, got)
    assert capsys.readouterr().out == "total 6.0\ntotal 6.0\n"


def callee(x, log):
    log.append("callee")
    if x.sum() > 0:
        x = x - 1
    return x * 2


def caller(x, log):
    log.append("before")
    y = callee(x + 1, log)
    log.append("after")
    return y + callee(y, log)


def test_a_break_in_a_callee_runs_effects_once():
    lamina.reset()
    fast = lamina.compile(caller)
    with torch.no_grad():
        for value in (1.0, 1.0, -4.0):
            x, log, reference = torch.full((3,), value), [], []
            assert torch.equal(fast(x, log), caller(x, reference))
            assert log == reference
    assert lamina.counters()["breaks"] >= 2


def with_and_try(x):
    with torch.no_grad():
        y = x * 2
        try:
            if y.sum() > 3:
                raise ValueError(float(y.sum()))
            y = y + 1
        except ValueError as error:
            y = y - error.args[0]
        finally:
            y = y * 3
    return y, torch.is_grad_enabled()


@pytest.mark.parametrize("value", [0.1, 2.0])
def test_with_and_try(value):
    fast = lamina.compile(with_and_try)
    x = torch.full((3,), value)
    for _ in range(2):
        expected, got = with_and_try(x), fast(x)
        assert torch.equal(expected[0], got[0]) and expected[1] == got[1]


def thousand_breaks(x):
    total = 0.0
    for index in range(1000):
        total += float(x.sum()) + index
    return total


def test_breaks_do_not_recurse():
    x = torch.ones(2)
    with torch.no_grad():
        assert lamina.compile(thousand_breaks)(x) == thousand_breaks(x)


def test_fullgraph_raises_the_break():
    fast = lamina.compile(branch, fullgraph=True)
    with pytest.raises(lamina.Unsupported, match="a branch on a tensor") as raised:
        fast(torch.ones(3), torch.ones(3))
    assert raised.value.code == "data-dependent"
    file, line = raised.value.location
    assert file == __file__ and line == branch.__code__.co_firstlineno + 2


def test_explanation_names_the_break():
    fast = lamina.compile(branch)
    with torch.no_grad():
        explanation = lamina.explain(fast, torch.ones(3), torch.ones(3))
    assert len(explanation.graphs) == 2
    (found,) = explanation.breaks
    assert found["code"] == "data-dependent" and found["hint"]
    assert found["location"] == f"{__file__}:{branch.__code__.co_firstlineno + 2}"


@lamina.disable
def kept_eager(x):
    return x * 2


def uses_disabled(x):
    y = kept_eager(x + 1)
    lamina.graph_break()
    return y - 1


def test_disabled_functions_and_asked_breaks():
    lamina.reset()
    fast = lamina.compile(uses_disabled)
    x = torch.ones(3)
    with torch.no_grad():
        explanation = lamina.explain(fast, x)
        assert torch.equal(fast(x), uses_disabled(x))
    assert [found["code"] for found in explanation.breaks] == ["disabled", "disabled"]
    assert lamina.counters()["graphs"] == 2 and kept_eager.__name__ == "kept_eager"
    with pytest.raises(lamina.UserError, match="disable its forward"):
        lamina.disable(torch.nn.Linear(2, 2))


def fails_at_the_break(x):
    y = x + 1
    return int("no number" + str(float(y.sum())))


def test_an_error_at_a_break_shows_the_users_line():
    with torch.no_grad(), pytest.raises(ValueError, match="no number") as raised:
        lamina.compile(fails_at_the_break)(torch.ones(2))
    entries = [(entry.frame.code.path.name, entry.lineno + 1) for entry in raised.traceback if entry.frame]
    first = fails_at_the_break.__code__.co_firstlineno
    assert ("test_breaks.py", first + 2) in entries


@pytest.mark.parametrize("seed", [6, 15, 26, 32, 45, 49])
def test_random_programs_broken_everywhere(seed):
    """Programs without tensors, printed text and exceptions included (tests/fuzz has the generator)."""
    text = run_python_programs.generate(seed)
    expected = run_python_programs.observe(run_python_programs.load(text))
    program = run_python_programs.load(text)
    assert run_python_programs.observe(lambda: call_broken(program, (), 3)[0]) == expected
