"""Random programs: fused and outlined they give what they gave before, in kernels of the agreed form."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.ir.core import Operation, lookup
from lamina.ir.interpret import interpret
from lamina.ir.remarks import Remarks
from lamina.passes.fusion import traffic
from lamina.passes.fusion.fuse import fuse
from lamina.passes.fusion.outline import outline
from tests.passes.fusion.form import TARGET, check_module
from tests.passes.fusion.random_programs import Maker

SEEDS = 120


def negate(operation: Operation, args, kwargs):
    assert operation.name == "aten.neg.default"
    return (-args[0],)


def run(module: Operation, inputs):
    return interpret(lookup(module, "main"), inputs, library=negate)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_fused_equals_unfused(seed: int):
    maker = Maker(seed)
    module, inputs = maker.module(), maker.inputs()
    expected, before = run(module, inputs), traffic.total(module)
    fuse(module, TARGET, Remarks())
    check_module(module)
    fused = run(module, inputs)
    assert traffic.total(module) <= before
    outline(module)
    for one, other, last in zip(expected, fused, run(module, inputs), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(last, other)
