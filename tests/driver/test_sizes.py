"""One capture, many sizes: programs by size, numbers that cost none, what happens when one does not compile."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina.capture.dynamic import SizeHistory, remembering
from lamina.capture.frontend import trace
from lamina.driver import sizes
from lamina.driver.graph import Compiled
from lamina.driver.scalars import scalar_inputs
from lamina.errors import Unsupported
from lamina.options import Options


def capture(function, *arguments):
    with remembering(SizeHistory(True)):
        return trace(function, arguments, {})


def run_for(captured, made):
    """A stand-in for the back end that notes the sizes it is asked for."""

    def compile_inputs(inputs, watching=None):
        made.append([tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in inputs])
        return Compiled(lambda values: list(captured.graph_module(*values)), is_repeatable=True)

    return compile_inputs


def double_half(x):
    return x[: x.shape[0] // 2] * 2


def test_a_program_for_each_size_and_no_more():
    captured, made = capture(double_half, torch.randn(4, 3)), []
    compiled = sizes.compile_for_sizes(captured, [torch.randn(4, 3)], run_for(captured, made), Options())
    for n in (4, 5, 4, 6, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled([x]), [double_half(x)])
    assert made == [[(4, 3)], [(5, 3)], [(6, 3)]]


def test_least_recently_made_programs_make_room(monkeypatch):
    monkeypatch.setattr(sizes, "PROGRAMS_KEPT", 2)
    captured, made = capture(double_half, torch.randn(4, 3)), []
    compiled = sizes.compile_for_sizes(captured, [torch.randn(4, 3)], run_for(captured, made), Options())
    for n in (5, 6, 5, 4):
        compiled([torch.randn(n, 3)])
    assert [each[0][0] for each in made] == [4, 5, 6, 4]


def test_sizes_that_do_not_compile_run_the_graph():
    captured = capture(double_half, torch.randn(4, 3))
    first = run_for(captured, [])

    def compile_inputs(inputs, watching=None):
        if inputs[0].shape[0] > 5:
            raise Unsupported("test", "too large", None, "")
        return first(inputs)

    compiled = sizes.compile_for_sizes(captured, [torch.randn(4, 3)], compile_inputs, Options())
    assert compiled.is_repeatable
    x = torch.randn(8, 3)
    torch.testing.assert_close(compiled([x]), [double_half(x)])
    assert not compiled.is_repeatable


@pytest.mark.parametrize(
    ("function", "x", "k", "expected"),
    [
        (lambda x, k: x * k, torch.randn(3), 2.5, [1]),
        (lambda x, k: x * k + k, torch.randn(3), 2.5, [1]),
        (lambda x, k: x * k, torch.arange(3), 5, [1]),
        (lambda x, k: x * k, torch.arange(3), 2.5, []),
        (lambda x, k: x * k, torch.tensor(2.0), 2.5, []),
        (lambda x, k: x * k, torch.randn(3).half(), 2.5, []),
        (lambda x, k: x**k, torch.randn(3), 2.5, []),
        (lambda x, k: x * (k + 1) - (2 - k) * 3.0, torch.randn(3), 2.5, [1]),
        (lambda x, k: x * (k / 3), torch.randn(3), 2.5, []),
        (lambda x, k: x * (k + 2**60), torch.randn(3), 2.5, []),
        (lambda x, k: (x * (k + 1), x ** (-k)), torch.randn(3), 2.5, []),
        (lambda x, k: x.half() * (k + 1), torch.randn(3), 2.5, []),
        (lambda x, k: x[:k] * k, torch.randn(7), 5, []),
    ],
    ids=range(13),
)
def test_numbers_that_are_passed_as_tensors(function, x, k, expected):
    captured = capture(function, x, k)
    assert scalar_inputs(captured.graph_module.graph, captured.varying) == expected


@pytest.mark.parametrize("x", [torch.randn(5), torch.arange(5), torch.randn(5).double()], ids=str)
def test_a_varying_number_costs_no_kernels(x):
    compiled = lamina.compile(lambda x, k: x * k + k)
    for k in (2, 3):
        compiled(x, k)
    start = lamina.counters()["kernels"]
    for k in (4, 5, 17, 1000):
        result = compiled(x, k)
        torch.testing.assert_close(result, x * k + k)
    assert lamina.counters()["kernels"] == start


class Counting(torch.nn.Module):
    """Numbers in every kind of place, written by the call."""

    def __init__(self):
        super().__init__()
        self.calls, self.rate, self.table = 0, 1.0, {"n": 3}

    def forward(self, x):
        self.calls += 1
        self.rate *= 0.5
        self.table["n"] += 2
        return x * self.rate + self.calls, self.table["n"]


counted = 2


def read_global(x):
    global counted
    counted += 1
    return x + counted


def make_counter():
    count = 2

    def counter(x):
        nonlocal count
        count += 1
        return x * count, count

    return counter


@pytest.mark.parametrize("make", [Counting, make_counter, lambda: read_global])
def test_numbers_outside_vary_without_further_captures(make, recwarn):
    global counted
    x = torch.randn(4)
    plain, compiled = make(), lamina.compile(make())
    counted = 2
    expected = [plain(x) for _ in range(20)]
    counted = 2
    lamina.reset()
    with torch.no_grad():
        results = [compiled(x) for _ in range(20)]
    torch.testing.assert_close(results, expected)
    assert counted == (22 if make() is read_global else 2)
    assert lamina.counters()["graphs"] <= 3 and not recwarn.list
    if isinstance(plain, Counting):
        assert (plain.calls, plain.rate, plain.table) == (compiled.calls, compiled.rate, compiled.table)
