"""Random programs mean the same before and after each pass, and the passes end in a fixed point."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.ir.core import lookup
from lamina.ir.interpret import interpret
from lamina.ir.passes import Context
from lamina.ir.text import print_module
from lamina.ir.verify import verify
from lamina.passes.tensor import CANONICALIZE, CSE, DCE, FOLD
from tests.passes.tensor.programs import RandomProgram

SEEDS = range(150)


@pytest.mark.parametrize("name", ["canonicalize", "cse", "dce", "fold"])
@pytest.mark.parametrize("seed", SEEDS)
def test_pass_keeps_the_meaning(seed: int, name: str) -> None:
    program = RandomProgram(seed)
    inputs = program.inputs()
    main = lookup(program.module, "main")
    expected = interpret(main, inputs)
    run = {each.name: each.run for each in (CANONICALIZE, CSE, DCE, FOLD)}[name]
    run(program.module, Context())
    verify(program.module, "tensor")
    for left, right in zip(expected, interpret(main, inputs), strict=True):
        np.testing.assert_array_equal(left, right)
        if left.dtype.kind == "f":
            signs = np.where(np.isnan(left), False, np.signbit(left))
            np.testing.assert_array_equal(signs, np.where(np.isnan(right), False, np.signbit(right)))


@pytest.mark.parametrize("seed", SEEDS)
def test_twice_is_once(seed: int) -> None:
    program = RandomProgram(seed)
    for each in (CANONICALIZE, CSE, CANONICALIZE, CSE):
        each.run(program.module, Context())
    once = print_module(program.module)
    for each in (CANONICALIZE, CSE):
        each.run(program.module, Context())
    assert print_module(program.module) == once
