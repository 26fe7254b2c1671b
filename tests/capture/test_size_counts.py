"""How often sizes and numbers that vary compile: the counts of the acceptance table, every result as eager's."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina.capture import symbols, trace
from lamina.capture.dynamic import SizeHistory, remembering


def double(x):
    return torch.relu(x) * 2


def scale(x, k):
    return x * k + k


def count(function, calls, **settings):
    """Captures in all after each call."""
    compiled = lamina.compile(function, **settings)
    start = lamina.counters()["graphs"]
    counts = []
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
        counts.append(lamina.counters()["graphs"] - start)
    return counts


def rows(*shapes):
    return [(torch.randn(shape),) for shape in shapes]


def test_second_size_turns_dynamic():
    sizes = [(3, 8), (3, 8), (4, 8), (5, 8), (1, 8), (1, 8), (7, 8), (7, 9), (2, 11)]
    assert count(double, rows(*sizes)) == [1, 1, 2, 2, 3, 3, 3, 4, 4]


def test_dynamic_at_once_and_never():
    shapes = [(3, 8), (4, 9), (1, 8), (0, 8)]
    assert count(double, rows(*shapes), dynamic=True) == [1, 1, 2, 3]
    assert count(double, rows(*shapes), dynamic=False) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "x",
    [torch.tensor([0.5, 1.25, 3]), torch.arange(3), torch.tensor(2.0), torch.tensor([0.5, 1.25, 3]).half()],
    ids=str,
)
def test_numbers(x):
    assert count(scale, [(x, k) for k in (2, 3, 4, 5)])[-1] == 2
    assert count(scale, [(x, k) for k in (2.5, 3.5, -4.0, 0.1)])[-1] == 2
    assert count(scale, [(x, k) for k in (-2, -3, -4)])[-1] == 2
    assert count(scale, [(x, k) for k in (2, 3, True, 4, 2.0)])[-1] == 4


def test_texts():
    def choose(x, name):
        return x * 2 if name == "a" else x * 3

    assert count(choose, [(torch.randn(3), name) for name in "aba"]) == [1, 2, 2]


def test_dtype_and_strides_cost_one_each_and_nothing_on_the_way_back():
    x = torch.randn(4, 4)
    assert count(double, [(x,), (x.double(),), (x.t(),), (x,), (x.double(),), (x.t(),)]) == [1, 2, 3, 3, 3, 3]


def test_equal_sizes_of_two_arguments_need_not_stay_equal():
    def add_sums(x, y):
        return x.sum(0) + y.sum(0)

    calls = [(torch.randn(n, 3), torch.randn(m, 3)) for n, m in ((2, 2), (4, 4), (5, 6), (7, 7))]
    assert count(add_sums, calls) == [1, 2, 2, 2]


def test_sizes_that_must_agree_do():
    def add(x, y):
        return x + y

    calls = [(torch.randn(n, 3), torch.randn(n, 3)) for n in (2, 4, 5, 9)]
    assert count(add, calls) == [1, 2, 2, 2]
    compiled = lamina.compile(add)
    for x, y in calls:
        compiled(x, y)
    with pytest.raises(RuntimeError, match="size of tensor"):
        compiled(torch.randn(4, 3), torch.randn(5, 3))


def test_marks():
    def one(low=None, high=None):
        return [(lamina.dynamic(torch.randn(n, 3), 0, min=low, max=high),) for n in (3, 4, 20, 2)]

    assert count(double, one(), dynamic=False) == [1, 1, 1, 1]
    assert count(double, one(3, 10), dynamic=False) == [1, 1, 2, 2]
    marked = [(torch.randn(n, 3),) for n in (3, 4, 20)]
    for (x,) in marked:
        x._dynamo_dynamic_indices = {0}
    assert count(double, marked, dynamic=False) == [1, 1, 1]


def test_marks_that_make_no_sense_are_refused():
    x = torch.randn(2, 3)
    for arguments, keywords in (((3, 0), {}), ((x, 2), {}), ((x, 0), {"min": 5, "max": 4})):
        with pytest.raises(lamina.UserError):
            lamina.dynamic(*arguments, **keywords)
    assert lamina.dynamic(x, -1) is x


def test_relation_guards_say_what_failed():
    def choose(x):
        return x * 2 if x.shape[0] * 2 > x.shape[1] + 3 else x - 1

    calls = rows((2, 4), (3, 5), (9, 5), (9, 4), (3, 9), (20, 7))
    assert count(choose, calls) == [1, 2, 3, 3, 3, 3]


def test_limit_is_told_once_and_names_the_guard():
    def pick(x):
        return x * len(range(x.shape[0]))

    with pytest.warns(UserWarning, match=r"8 compiled variants.*argument 0") as caught:
        counts = count(pick, rows(*((n, 3) for n in range(2, 14))))
    assert counts[-1] == 8
    assert len([each for each in caught if "variants" in str(each.message)]) == 1


def test_growing_attribute_of_a_module_becomes_dynamic():
    class Memory(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = torch.zeros(2, 3)

        def forward(self, x):
            self.seen = torch.cat([self.seen, x])
            return self.seen.sum(0)

    eager, module = Memory(), Memory()
    compiled = lamina.compile(module)
    start = lamina.counters()["graphs"]
    for _ in range(6):
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x), eager(x))
    assert lamina.counters()["graphs"] - start == 2


def test_static_captures_need_no_shape_environment(monkeypatch):
    made = []
    make = symbols.make_shape_environment
    monkeypatch.setattr(symbols, "make_shape_environment", lambda mode: made.append(mode) or make(mode))
    assert count(double, rows((3, 8), (3, 8))) == [1, 1]
    assert count(double, rows((3, 8), (4, 8)), dynamic=False) == [1, 2]
    assert not made
    assert count(double, rows((3, 8)), dynamic=True) == [1]
    assert len(made) == 1


@pytest.mark.parametrize(
    "other",
    [
        torch.randn(5, 8).double(),
        torch.randn(5, 9),
        torch.randn(1, 8),
        torch.randn(0, 8),
        torch.randn(5, 8, 1),
        torch.randn(40),
        torch.randn(8, 5).t(),
        torch.randn(5, 9)[:, :8],
        torch.randn(1, 8).expand(5, 8),
        torch.randn(5, 8).requires_grad_(),
        torch.nn.Parameter(torch.randn(5, 8)),
        torch.randn(5, 8).to("meta"),
        torch.randn(5, 8).to_sparse(),
        3,
        None,
    ],
    ids=range(15),
)
def test_metadata_of_a_dynamic_tensor_is_guarded(other, monkeypatch):
    for is_native in (True, False):
        if not is_native:
            monkeypatch.setattr("lamina.capture.tensor_guards._native", [None])
        x = torch.randn(4, 8)
        with remembering(SizeHistory(False)):
            captured = trace(double, (lamina.dynamic(x, 0),), {})
        assert captured.varying == [(0, 0)]
        for n in (2, 4, 5, 1000):
            assert captured.check((torch.randn(n, 8),), {})
        assert not captured.check((other,), {})
        assert "argument 0" in captured.explain_failure((other,), {})


def test_where_a_tensor_starts_is_guarded_once_it_is_asked_for():
    def tell(x):
        return x + x.storage_offset(), x[2:].storage_offset()

    base = torch.arange(40.0).reshape(10, 4)
    calls = [base[:4], base[3:7], base[4:8], base[:6], base[1:8], base[2:5], base[:9]]
    for dynamic in (None, True, False):
        compiled = lamina.compile(tell, dynamic=dynamic)
        for x in calls:
            result, expected = compiled(x), tell(x)
            torch.testing.assert_close(result[0], expected[0])
            assert result[1] == expected[1]
