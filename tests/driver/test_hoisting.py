"""Arithmetic on numbers that vary is done before the call: one program for all of them, with eager's results."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import lamina
from lamina.capture import trace
from lamina.capture.dynamic import SizeHistory, remembering
from lamina.driver.hoisting import hoist_numbers
from tests.test_known_wrong import adam

X = torch.linspace(-1, 1, 30).reshape(3, 10)
PROGRAMS = {
    "power": (lambda x, k: x * (1 - 0.9**k) / k, (2.0, 3.0, 4.0, 5.5)),
    "methods in place": (lambda x, k: x.mul_(k**0.5).add_(1 / k), (2.0, 3.0, 4.0, 5.5)),
    "int and float": (lambda x, k: x * (k / 3) + k**2 * 0.5, (2, 3, 4, 5, 9)),
    "factor": (lambda x, k: torch.addcdiv(x, x, x + 2, value=-k / 2), (2.0, 3.0, 4.0, 5.5)),
    "factor in place": (lambda x, k: x.addcmul_(x, x, value=math.sqrt(k)), (2.0, 3.0, 4.0, 5.5)),
    "number among results": (lambda x, k: (x * k, k * 2.5 / 3), (2.0, 3.0, 4.0, 5.5)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_all_numbers(name):
    program, numbers = PROGRAMS[name]
    fast = lamina.compile(program)
    counts = []
    for number in numbers:
        given, same = X.clone(), X.clone()
        torch.testing.assert_close(fast(given, number), program(same, number))
        torch.testing.assert_close(given, same)
        counters = lamina.counters()
        counts.append((counters["graphs"], counters["kernel_compilations"], counters["kernels"]))
    assert counts[1] == counts[-1]


def test_the_graph_is_left_with_the_results():
    with remembering(SizeHistory(dynamic=True)):
        captured = trace(lambda x, k, n: (x[: n + 1] * (k**2 / n), x - k), (X, 2.0, 2), {})
    hoisted = hoist_numbers(captured.graph_module, captured.varying, None)
    inputs = captured.fetch_inputs((X, 2.0, 2), {})
    for one, other in zip(
        hoisted.graph_module(*hoisted.compute(inputs)), captured.graph_module(*inputs), strict=True
    ):
        assert torch.equal(one, other)
    names = [node.target for node in hoisted.graph_module.graph.nodes if node.op == "call_function"]
    assert not {"pow", "truediv"} & {getattr(name, "__name__", "") for name in names}


def test_a_step_with_numbers_of_a_tensor_meets_no_limit():
    state = {"step": torch.tensor(0.0), "mean": torch.zeros(6), "square": torch.zeros(6)}
    weight = torch.linspace(-1, 1, 6)
    lamina.reset()
    fast = lamina.compile(adam)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(12):
            fast(weight, torch.sin(torch.arange(6.0) + number), state)
    assert lamina.counters()["graphs"] == 3
