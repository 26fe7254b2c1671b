"""Element traffic of known programs after fusion, and their results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.ir.core import Operation, lookup
from lamina.ir.interpret import interpret
from lamina.ir.remarks import Remarks
from lamina.ir.types import f32
from lamina.passes.fusion import traffic
from lamina.passes.fusion.fuse import fuse
from lamina.passes.fusion.outline import outline
from tests.passes.fusion.form import TARGET, check_module
from tests.passes.fusion.programs import PROGRAMS, Program, import_program


def library(operation: Operation, args, kwargs):
    """Library calls by torch itself."""
    _, packet, overload = operation.name.split(".")
    called = getattr(getattr(torch.ops.aten, packet), overload)
    if packet == "_assert_async":
        return ()
    result = called(*_to_torch(args), **{key: _to_torch(value) for key, value in kwargs.items()})
    return (result.numpy(),)


def _to_torch(value):
    if isinstance(value, list):
        return [_to_torch(entry) for entry in value]
    if value is f32:
        return torch.float32
    return torch.tensor(value) if isinstance(value, np.ndarray | np.generic) else value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_elements(program: Program):
    module, inputs = import_program(program)
    arrays = [value.numpy() for value in inputs]
    expected = interpret(lookup(module, "main"), arrays, library=library)
    fuse(module, TARGET, Remarks())
    check_module(module)
    fused = interpret(lookup(module, "main"), arrays, library=library)
    outline(module)
    outlined = interpret(lookup(module, "main"), arrays, library=library)
    assert traffic.total(module) / 4 <= program.elements
    assert traffic.least(module) <= traffic.total(module)
    for before, after, last in zip(expected, fused, outlined, strict=True):
        np.testing.assert_allclose(after, before, rtol=2e-5, atol=1e-6)
        np.testing.assert_array_equal(last, after)
