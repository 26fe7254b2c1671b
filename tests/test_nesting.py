"""Compiled code within compiled code, re-entered, copied, and called from several threads at once."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamina


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def run_together(work: Callable[[int, int], None], threads: int = 6, rounds: int = 4) -> None:
    """Call `work(thread, round)` in threads that start at the same moment; their errors are the test's."""
    start, errors = threading.Barrier(threads), []

    def run(number: int) -> None:
        try:
            with torch.no_grad():
                start.wait()
                for each in range(rounds):
                    work(number, each)
        except Exception as error:
            errors.append("".join(traceback.format_exception(error)))

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert not errors, errors[0]


def sized(x: Tensor) -> Tensor:
    return torch.softmax(x * 2 + 1, -1).sum(0)


def broken(x: Tensor) -> tuple[Tensor, list[int]]:
    seen = []
    y = x * 2
    if y.sum() > 0:
        seen.append(1)
        y = y + 1
    for index in range(3):
        y = y * x
        if index == 1:
            lamina.graph_break()
            seen.append(index)
    return y, seen


def masked(x: Tensor) -> Tensor:
    return (x[x > 0] * 2).sum() + torch.nonzero(x).sum()


@pytest.mark.parametrize("program", [sized, broken, masked], ids=lambda program: program.__name__)
def test_threads_compile_and_call_one_function(program) -> None:
    fast = lamina.compile(program)

    def work(thread: int, step: int) -> None:
        x = torch.randn(2 + (thread * 5 + step) % 4, 5)
        torch.testing.assert_close(fast(x), program(x))

    run_together(work)


def test_threads_compile_functions_of_their_own() -> None:
    def work(thread: int, step: int) -> None:
        factor = float(thread * 10 + step)

        def program(x: Tensor) -> Tensor:
            return (x + factor).relu() * factor

        x = torch.randn(4, thread + 2)
        torch.testing.assert_close(lamina.compile(program)(x), program(x))

    run_together(work, 4, 2)


def test_threads_in_different_modes() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu() + 1

    fast = lamina.compile(program)
    modes = [torch.inference_mode, lambda: torch.autocast("cpu"), torch.enable_grad]

    def work(thread: int, step: int) -> None:
        x, w = torch.randn(4, 8), torch.randn(8, 8)
        with modes[thread % 3]():
            got, expected = fast(x, w), program(x, w)
        assert (got.dtype, got.is_inference()) == (expected.dtype, expected.is_inference())
        torch.testing.assert_close(got, expected)

    run_together(work)


def test_threads_copy_a_module_while_others_call_it() -> None:
    net = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU()).eval()
    fast = lamina.compile(net)

    def work(thread: int, step: int) -> None:
        x = torch.randn(3, 5)
        called = copy.deepcopy(fast) if step == 1 else fast
        torch.testing.assert_close(called(x), net(x))

    run_together(work, 4, 3)


def test_a_function_that_calls_its_own_compiled_form() -> None:
    def power(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else fast(x * 2, n - 1) + 1

    def expected(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else expected(x * 2, n - 1) + 1

    fast, x = lamina.compile(power), torch.randn(3)
    for n in (0, 1, 3, 5):
        torch.testing.assert_close(fast(x, n), expected(x, n))


def test_compiled_code_that_breaks_called_by_a_disabled_function() -> None:
    def branch(x: Tensor) -> Tensor:
        return (x * 2 if x.sum() > 0 else x - 1) + 1

    fast_branch = lamina.compile(branch)

    @lamina.disable
    def between(x: Tensor, inner: Callable[[Tensor], Tensor]) -> Tensor:
        return inner(x) * 3

    def program(x: Tensor, inner: Callable[[Tensor], Tensor]) -> Tensor:
        return between(x + 1, inner) - between(x - 1, inner)

    fast, x = lamina.compile(program), torch.randn(3)
    torch.testing.assert_close(fast(x, fast_branch), program(x, branch))


def test_compile_is_called_by_compiled_code() -> None:
    def program(x: Tensor) -> Tensor:
        @lamina.compile
        def inner(y: Tensor) -> Tensor:
            return y.relu() + 1

        return inner(x) * lamina.compile(torch.neg)(x)

    fast, x = lamina.compile(program), torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(fast(x), (x.relu() + 1) * -x)


def test_a_backend_and_a_hook_that_call_compiled_code() -> None:
    inner = lamina.compile(lambda x: x * 2)

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        assert torch.equal(inner(torch.ones(2)), torch.full((2,), 2.0))
        return graph

    x, linear = torch.randn(2, 3), nn.Linear(3, 3)
    torch.testing.assert_close(lamina.compile(linear, backend=backend)(x), linear(x))
    calls: list[int] = []

    def hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.append(1)
        return inner(output)

    linear.register_forward_hook(hook)
    torch.testing.assert_close(lamina.compile(linear)(x), linear(x))
    assert len(calls) == 2


class Outer(nn.Module):
    """An eager module with a compiled part."""

    def __init__(self) -> None:
        super().__init__()
        self.first = lamina.compile(nn.Linear(3, 3))
        self.second = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def test_a_compiled_part_of_an_eager_module() -> None:
    outer, x = Outer(), torch.randn(2, 3)
    result = outer(x)
    assert list(outer.state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]
    fast = lamina.compile(outer, fullgraph=True)
    for again in (fast, copy.deepcopy(outer), copy.deepcopy(fast), copy.copy(fast)):
        torch.testing.assert_close(again(x), result)
    part = pickle.loads(pickle.dumps(fast.first))
    torch.testing.assert_close(part(x), outer.first(x))
    twin = copy.deepcopy(outer)
    twin.first.weight.zero_()
    torch.testing.assert_close(fast(x), result)
    outer.load_state_dict({name: value * 2 for name, value in outer.state_dict().items()})
    torch.testing.assert_close(fast(x), outer.second(outer.first(x)))
    assert not torch.allclose(fast(x), result)


def test_compiled_twice_and_methods_of_a_class() -> None:
    class Holder:
        factor = 3

        @lamina.compile
        def scale(self, x: Tensor) -> Tensor:
            return x * self.factor

        @staticmethod
        @lamina.compile
        def shift(x: Tensor) -> Tensor:
            return x + 1

        @classmethod
        @lamina.compile
        def lower(cls, x: Tensor) -> Tensor:
            return x - cls.factor

    holder, x = Holder(), torch.randn(2)
    for factor in (3, 5):
        Holder.factor = factor
        torch.testing.assert_close(holder.scale(x), x * factor)
        torch.testing.assert_close(holder.lower(x), x - factor)
    torch.testing.assert_close(Holder.shift(x), x + 1)
    twice = lamina.compile(lamina.compile(nn.Linear(2, 2), fullgraph=True), fullgraph=True)
    torch.testing.assert_close(twice(x), nn.functional.linear(x, twice.weight, twice.bias))


def test_a_disabled_method_runs_once_with_its_effects() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = nn.Linear(3, 3), 0

        @lamina.disable
        def host(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x.clone()

        def forward(self, x: Tensor) -> Tensor:
            return self.host(self.linear(x)) * 2

    net, x = Counted(), torch.randn(2, 3)
    fast = lamina.compile(net)
    for count in (1, 2, 3):
        torch.testing.assert_close(fast(x), net.linear(x) * 2)
        assert net.calls == count


def double(x: Tensor) -> Tensor:
    return x * 2


@pytest.mark.parametrize(
    "compile_it", [lamina.compile, lambda each: torch.compile(each, backend="eager")], ids=["ours", "torch's"]
)
def test_a_wrapper_with_the_marks_of_a_compiled_function_is_itself(compile_it: Callable[..., Any]) -> None:
    """`functools.wraps` copies attributes: a wrapper is not what it wraps."""
    fast, x = compile_it(double), torch.randn(3)

    @functools.wraps(fast)
    def wrapper(x: Tensor) -> Tensor:
        return fast(x) + 1

    scaled = functools.wraps(fast)(functools.partial(lambda factor, x: fast(x) * factor, 3.0))
    for program, expected in ((wrapper, x * 2 + 1), (scaled, x * 6)):
        whole = lamina.compile(lambda x, program=program: program(x), fullgraph=True)
        torch.testing.assert_close(lamina.compile(program, fullgraph=True)(x), expected)
        torch.testing.assert_close(whole(x), expected)


def test_what_torch_compiled_is_entered() -> None:
    net, x = nn.Linear(3, 3), torch.randn(2, 3)
    compiled = torch.compile(net, backend="eager")
    fast = lamina.compile(lambda x: compiled(x) * 2, fullgraph=True)
    torch.testing.assert_close(fast(x), net(x) * 2)


def test_a_bound_compiled_method_is_compiled_with_its_owner() -> None:
    class Holder:
        factor = 2.0

        @lamina.compile
        def scale(self, x: Tensor) -> Tensor:
            return x * self.factor

    x = torch.randn(3)
    torch.testing.assert_close(lamina.compile(Holder().scale, fullgraph=True)(x), x * 2)
