"""Captured torch programs against eager: values, strides, aliasing, mutations, prints, global state."""

from __future__ import annotations

import contextlib
import copy
import io

import pytest
import torch

from lamina.capture import trace
from tests.capture import torch_programs
from tests.capture.equality import alias_pattern, differ

STATE = ("CALLS", "CAPTURED_DICT")


def fresh_state():
    torch_programs.CALLS.clear()
    torch_programs.CALLS["count"] = 0
    torch_programs.CAPTURED_DICT.clear()


def observe(run, makers):
    """(result, arguments after, global state after, printed text)."""
    fresh_state()
    args = tuple(make() for make in makers)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = run(*args)
    state = copy.copy({name: dict(getattr(torch_programs, name)) for name in STATE})
    return result, args, state, printed.getvalue()


def names(program):
    return program[0].__name__


WHOLE = [program for program in torch_programs.PROGRAMS if program[0] is not torch_programs.printing]
"""Programs without a break; test_breaks.py has all of them."""


@pytest.mark.parametrize("program", WHOLE, ids=names)
def test_program(program):
    function, makers = program
    fresh_state()
    args = tuple(make() for make in makers)
    captured = trace(function, args, {})
    fresh_state()
    again = tuple(make() for make in makers)
    assert captured.pause is None
    assert captured.check(again, {}), captured.explain_failure(again, {})
    expected = observe(function, makers)
    got = observe(lambda *given: captured.call(given, {}), makers)
    assert not differ(got, expected)
    assert alias_pattern(got[0], got[1]) == alias_pattern(expected[0], expected[1])


@pytest.mark.parametrize("program", torch_programs.PROGRAMS, ids=names)
def test_tracing_changes_nothing(program):
    function, makers = program
    fresh_state()
    args = tuple(make() for make in makers)
    reference = tuple(make() for make in makers)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        trace(function, args, {})
    assert not differ(args, reference)
    assert {name: dict(getattr(torch_programs, name)) for name in STATE} == {
        "CALLS": {"count": 0},
        "CAPTURED_DICT": {},
    }
    assert printed.getvalue() == ""
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_returned_closure_computes():
    x = torch_programs.x4()
    captured = trace(torch_programs.returns_closure, (x,), {})
    made = captured.call((x,), {})
    assert torch.equal(made(1), torch_programs.returns_closure(x)(1))
    other = captured.call((x + 1,), {})
    assert torch.equal(made(1), x * 2 + 1) and torch.equal(other(0), (x + 1) * 2)


def test_every_node_has_the_users_line():
    captured = trace(torch_programs.many_ops, (torch_programs.x4(),), {})
    nodes = [node for node in captured.graph_module.graph.nodes if node.op.startswith("call")]
    assert nodes and all(node.meta["location"][0].endswith("torch_programs.py") for node in nodes)
    captured.graph_module.graph.lint()


def test_modules_are_made_after_torch_compile_was_used():
    """torch.compile patches Module.__init__ of the whole process; slicing a ModuleList makes a module."""
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))

    def first_two(x):
        for layer in layers[:2]:
            x = layer(x)
        return x

    x = torch.randn(4, 2)
    with torch.no_grad():
        torch.compile(torch.nn.Linear(2, 2), backend="eager")(x)
        captured = trace(first_two, (x,), {})
        assert torch.equal(captured.call((x,), {}), first_two(x))
