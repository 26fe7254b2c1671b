"""Tensors of the user's classes: interception by `__torch_function__` is traced, by `__torch_dispatch__` a break."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import lamina


class Plain(torch.Tensor):
    """Says nothing of torch functions."""

    def twice(self) -> torch.Tensor:
        return self * 2

    @property
    def rows(self) -> int:
        return self.shape[0]


class Scaled(torch.Tensor):
    """Doubles what functions give, but for those named, and carries a label on."""

    label: str

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in (torch.add, torch.Tensor.add, functional.relu):
            return result * 3
        labels = [each.label for each in args if hasattr(each, "label")]
        if isinstance(result, Scaled) and labels and result is not args[0]:
            result.label = labels[0] + "'"
        return result


class Bare(torch.Tensor):
    """Takes tensors apart and gives plain ones."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return (func.__name__, result) if func is torch.sum else result


class Quiet(torch.Tensor):
    """Does not implement anything."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


HANDLED: dict[Any, Any] = {}


class Diagonal:
    """No tensor: value times the identity, as in torch's documentation."""

    def __init__(self, size: int, value: float) -> None:
        self.size, self.value = size, value

    def tensor(self) -> torch.Tensor:
        return self.value * torch.eye(self.size)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(each, (torch.Tensor, Diagonal)) for each in types):
            args = [each.tensor() if isinstance(each, Diagonal) else each for each in args]
            return func(*args, **(kwargs or {}))
        return HANDLED[func](*args, **(kwargs or {}))


def mean_of_diagonal(given: Diagonal) -> float:
    return given.value / given.size


HANDLED[torch.mean] = mean_of_diagonal


def make(kind: type, *shape: int) -> Any:
    made = torch.randn(shape or (3, 4)).as_subclass(kind)
    if kind is Scaled:
        made.label = "first"
    return made


def arithmetic(x, y):
    return x + 1, 2 - x, x * y, y / x, -x, x @ y.t(), x > y, abs(x), x**2


def functions(x, y):
    return torch.relu(x), functional.softmax(x, -1), torch.add(x, y), functional.relu(y), torch.cat([x, y])


def methods(x, y):
    return x.sum(-1), x.t(), x.reshape(-1)[2:], x.max(0), x.split(2, 1), x.shape, x.dtype, x.dim(), len(x)


def writes(x, y):
    x.add_(1)
    x[0] = y[1]
    x += y
    return x, x.mul_(2) is x


def kinds(x, y):
    z = x * 2
    return type(z).__name__, isinstance(z, torch.Tensor), isinstance(z, type(x)), z.__class__, z


def handed_back(x, y):
    return x, [y, {"x": x}], x is y, x is x


PROGRAMS = [arithmetic, functions, methods, writes, kinds, handed_back]


def same(got: Any, expected: Any) -> None:
    assert type(got) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert got.__dict__ == expected.__dict__
        got, expected = (each.as_subclass(torch.Tensor) for each in (got, expected))
        with torch._C.DisableTorchFunctionSubclass():
            torch.testing.assert_close(torch.Tensor.as_subclass(got, torch.Tensor), expected)
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for left, right in zip(got, expected, strict=True):
            same(left, right)
    elif isinstance(expected, dict):
        same(list(got.items()), list(expected.items()))
    else:
        assert got == expected


@pytest.mark.parametrize("kind", [Plain, Scaled, Bare])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_and_eagers_results(program, kind) -> None:
    fast = lamina.compile(program, fullgraph=True)
    for _ in range(2):
        x, y = make(kind), make(kind)
        others = [torch.Tensor.clone(each).as_subclass(kind) for each in (x, y)]
        for each, other in zip((x, y), others, strict=True):
            other.__dict__.update(each.__dict__)
        same(fast(x, y), program(*others))
        same([x, y], others)


def test_with_plain_tensors() -> None:
    def program(x, y):
        return x + y, y - x, y * x, torch.maximum(y, x), y.add_(x), y[x > 0]

    for kind in (Plain, Bare):
        x, y = make(kind), torch.randn(3, 4)
        same(lamina.compile(program)(x, y.clone()), program(x, y.clone()))


def test_methods_and_attributes_of_the_class() -> None:
    def program(x):
        return x.twice() + x.rows, x.factor * x

    x = make(Plain)
    x.factor = 3.0
    fast = lamina.compile(program, fullgraph=True)
    same(fast(x), program(x))
    x.factor = 4.0
    same(fast(x), program(x))


def test_objects_that_are_no_tensors() -> None:
    def program(x, d):
        return torch.add(x, d), torch.mean(d), functional.linear(x, d)

    x, fast = torch.randn(2, 2), lamina.compile(program, fullgraph=True)
    for value in (2.0, 5.0, 7.0):
        torch.testing.assert_close(fast(x, Diagonal(2, value)), program(x, Diagonal(2, value)))


def test_a_changed_interceptor_is_seen(monkeypatch) -> None:
    def program(x):
        return x + 1

    x, fast = make(Scaled), lamina.compile(program)
    same(fast(x), program(x))
    monkeypatch.setattr(Scaled, "__torch_function__", Bare.__dict__["__torch_function__"])
    same(fast(x), program(x))


def test_other_classes_are_other_calls() -> None:
    def program(x):
        return x.relu() + 1

    fast = lamina.compile(program)
    for kind in (Plain, torch.Tensor, Bare, Plain, Scaled):
        x = make(kind)
        same(fast(x), program(x))


def test_a_break_keeps_the_class() -> None:
    def program(x):
        y = x * 2
        if y.sum() > 1e9:
            return y
        lamina.graph_break()
        return y + x

    x = make(Scaled)
    same(lamina.compile(program)(x), program(x))


def test_regions_without_interception() -> None:
    def broken_inside(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
            lamina.graph_break()
            y = torch.relu(y) * x
        return y, x + 1

    def plain(x):
        return torch.add(x, 1)

    x = make(Scaled)
    for kind in (Plain, Scaled, Bare):
        each = make(kind)
        same(lamina.compile(broken_inside)(each), broken_inside(each))
    fast = lamina.compile(plain, fullgraph=True)
    for _ in range(2):
        same(fast(x), plain(x))
        with torch._C.DisableTorchFunctionSubclass():
            got, expected = fast(x), plain(x)
        same(got, expected)


def test_errors_are_eagers() -> None:
    x = make(Quiet)
    with pytest.raises(TypeError):
        lamina.compile(lambda x: x + 1)(x)
    with pytest.raises(RuntimeError):
        lamina.compile(lambda x: x @ x)(make(Plain))


class Wrapper(torch.Tensor):
    """Holds a tensor and intercepts operators."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        args = [each.inner if isinstance(each, Wrapper) else each for each in args]
        return Wrapper(func(*args, **(kwargs or {})) + 1)


def test_interception_of_operators_runs_eagerly_and_says_so() -> None:
    def program(x):
        return x * 2

    x, fast = Wrapper(torch.ones(3)), lamina.compile(program)
    assert torch.equal(fast(x).inner, torch.full((3,), 3.0))
    (found,) = lamina.explain(fast, x).breaks
    assert found["code"] == "torch-dispatch" and "Wrapper" in found["message"]
    with pytest.raises(lamina.Unsupported, match="__torch_dispatch__"):
        lamina.compile(program, fullgraph=True)(x)
