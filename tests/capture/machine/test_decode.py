"""Decoded code is what `dis` reads, for each code object of some of the standard library's files."""

from __future__ import annotations

import ast
import asyncio.base_events
import dataclasses
import dis
import inspect
import tokenize
import types
from collections.abc import Iterator

import pytest

from lamina.capture.machine.code import PAIRS, decode

NAMED = frozenset(
    dis.opname[opcode] for opcode in (*dis.hasname, *dis.hascompare, *dis.haslocal, *dis.hasfree)
)
JUMPS = frozenset(dis.opname[opcode] for opcode in dis.hasjrel)


def list_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from list_codes(constant)


def make_long_jumps() -> str:
    """A program with more names, constants and distances than one byte counts."""
    names = "".join(f"        a{k} = b{k} + {k}.5\n" for k in range(300))
    return f"def f(x):\n    for i in x:\n{names}        if i < x: break\n    while x:\n{names}"


@pytest.mark.parametrize(
    "text",
    [
        *(inspect.getsource(module) for module in (ast, asyncio.base_events, dataclasses, tokenize)),
        make_long_jumps(),
    ],
    ids=["ast", "asyncio", "dataclasses", "tokenize", "long"],
)
def test_instructions_are_those_of_dis(text):
    for code in list_codes(compile(text, "program", "exec")):
        line = code.co_firstlineno
        starts = {offset: number for offset, number in dis.findlinestarts(code) if number is not None}
        expected = list(dis.get_instructions(code))
        decoded = decode(code, {}).instructions
        for ours, theirs in zip(decoded, expected, strict=True):
            line = starts.get(theirs.offset, line)
            assert (ours.name, ours.arg, ours.line) == (theirs.opname, theirs.arg or 0, line)
            if ours.name in NAMED - PAIRS:
                assert ours.argval == theirs.argval
            elif theirs.opcode in dis.hasconst:
                assert ours.argval is code.co_consts[theirs.arg]
            is_jump = ours.name in JUMPS
            assert is_jump == (ours.target >= 0)
            assert not is_jump or expected[ours.target].offset == theirs.argval
