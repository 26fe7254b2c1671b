"""Calls made inside modes and transforms of torch's: right there, and compiled again behind them."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import lamina
from lamina.errors import Unsupported

torch.manual_seed(0)
X, ROWS, TANGENT = torch.randn(4), torch.randn(3, 4), torch.randn(4)


def program(x):
    return x.sin() * 2 + x


def sum_of(function):
    return lambda x: function(x).sum()


def read_tangent(function):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(X, TANGENT))).tangent


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class PassedOn(TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        return function(*args, **(kwargs or {})) + 1


def list_operations(function):
    with Seen() as seen:
        function(X)
    return seen.names


def under_a_function_mode(function):
    with PassedOn():
        return function(X)


OUTER = {
    "vmap": lambda function: vmap(function)(ROWS),
    "grad": lambda function: grad(sum_of(function))(X),
    "jacrev": lambda function: jacrev(function)(X),
    "jacfwd": lambda function: jacfwd(function)(X),
    "jvp": lambda function: jvp(function, (X,), (TANGENT,)),
    "hessian": lambda function: hessian(sum_of(function))(X),
    "dual": read_tangent,
    "dispatch mode": list_operations,
    "function mode": under_a_function_mode,
}


@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.parametrize("outer", OUTER)
def test_as_in_eager(outer, compiled_before):
    call = OUTER[outer]
    fast = lamina.compile(program)
    if compiled_before:
        fast(X)
    for _ in range(2):
        result, expected = call(fast), call(program)
        if outer == "dispatch mode":
            assert result == expected
        else:
            torch.testing.assert_close(result, expected)
    lamina.reset()
    torch.testing.assert_close(fast(X), program(X))
    assert lamina.counters()["graphs"] == (not compiled_before)


@pytest.mark.parametrize("outer", OUTER)
def test_a_whole_graph_is_refused_with_the_reason(outer):
    fast = lamina.compile(program, fullgraph=True)
    with pytest.raises(Unsupported, match="torch-mode"):
        OUTER[outer](fast)
    torch.testing.assert_close(fast(X), program(X))


def test_gradients_of_each_sample():
    model = torch.nn.Linear(4, 4)
    fast = lamina.compile(model)
    fast(ROWS)
    parameters = dict(model.named_parameters())

    def gradients(called):
        def loss(values, x):
            return functional_call(called, values, (x,)).pow(2).sum()

        return vmap(grad(loss), (None, 0))(parameters, ROWS)

    torch.testing.assert_close(gradients(fast), gradients(model))


def test_a_default_device_is_no_obstacle():
    fast = lamina.compile(lambda x: (x + torch.zeros(4)).relu() * torch.arange(4), fullgraph=True)
    expected = fast.__wrapped__(X)
    lamina.reset()
    try:
        torch.set_default_device("cpu")
        for _ in range(2):
            torch.testing.assert_close(fast(X), expected)
        assert lamina.counters()["graphs"] == 1
    finally:
        torch.set_default_device(None)
    torch.testing.assert_close(fast(X), expected)
    with torch.device("meta"):
        assert lamina.compile(lambda x: x + torch.zeros(4))(X.to("meta")).is_meta


def test_threads_that_wait_for_one_compile_share_it():
    fast = lamina.compile(lambda x: x.relu().sum(0) * 2)
    lamina.reset()
    barrier = threading.Barrier(4)
    results = []

    def call():
        barrier.wait()
        results.append(fast(ROWS))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        torch.testing.assert_close(result, ROWS.relu().sum(0) * 2)
    assert len(results) == 4 and lamina.counters()["graphs"] == 1
