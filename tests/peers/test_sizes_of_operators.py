"""torch's operator database: a capture with open sizes serves other sizes as eager does, errors included.

Each operator's samples are captured with all sizes open, then called with tensors that have grown; where the
guards admit the call, result, strides and error must be eager's. LAMINA_PEERS=all runs every operator.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch.utils import _pytree as pytree

from lamina.capture import trace
from lamina.capture.dynamic import SizeHistory, remembering
from lamina.errors import Unsupported

pytest.importorskip("expecttest")
methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
STEP = 1 if os.environ.get("LAMINA_PEERS") == "all" else 24
OPERATORS = [each for each in methods.op_db if torch.float32 in each.dtypes and "empty" not in each.name][
    3::STEP
]
GROWTHS = (lambda size: size + 1, lambda size: size * 2, lambda size: 7)
SAMPLES = 3


def grown(value, growth):
    """A tensor with each size of 2 or more changed alike; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    sizes = [growth(size) if size >= 2 else size for size in value.shape]
    if value.dtype.is_floating_point:
        return torch.rand(sizes, dtype=value.dtype) * 0.8 + 0.1
    return torch.zeros(sizes, dtype=value.dtype)


def copied(value):
    return pytree.tree_map(lambda each: each.clone() if isinstance(each, torch.Tensor) else each, value)


def outcome(function, arguments):
    torch.manual_seed(0)
    try:
        return function(*copied(arguments)), True
    except Exception as error:
        return error, False


def assert_equal(got, expected):
    for one, other in zip(pytree.tree_leaves(got), pytree.tree_leaves(expected), strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda each: f"{each.name}-{each.variant_test_name}")
@torch.no_grad()
def test_other_sizes_give_eagers_result(operator):
    def call(*args, **kwargs):
        return operator.op(*args, **kwargs)

    for sample in list(operator.sample_inputs("cpu", torch.float32))[:SAMPLES]:
        arguments = ((sample.input, *sample.args), sample.kwargs)
        try:
            with remembering(SizeHistory(True)):
                captured = trace(call, *arguments, fullgraph=True)
        except Unsupported:
            continue
        assert captured.check(*arguments), captured.explain_failure(*arguments)
        for growth in GROWTHS:
            larger = pytree.tree_map(lambda value, growth=growth: grown(value, growth), arguments)
            if not captured.check(*larger):
                continue
            expected, is_fine = outcome(lambda args, kwargs: call(*args, **kwargs), larger)
            got, is_got = outcome(captured.call, larger)
            assert is_got == is_fine, (expected, got)
            if is_fine:
                assert_equal(got, expected)
