"""Every workload under `lamina.compile`: whole, as exact as eager, also with other sizes, other weights, other modes."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import lamina
from bench.accuracy import flatten, largest_error, reference_of
from bench.workloads import MICRO, NETWORKS, Example, Inputs, Workload, as_double, to_double

ROUNDING = (
    1e-7  # a result may be this far off where eager happens to be closer to the truth than float32 can tell
)


@pytest.fixture(scope="module", autouse=True)
def one_thread_without_gradients() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


class Truth(NamedTuple):
    """The results in float64, and how far eager's are from them."""

    results: list[torch.Tensor]
    error: float

    def check(self, result: Any) -> None:
        """As close to float64 as eager is, within a factor of two."""
        ours = largest_error(result, self.results)
        assert ours <= 2 * self.error + ROUNDING, f"error {ours:.2e}, eager's {self.error:.2e}"


class Network:
    """A workload's module, compiled once, and its twin in float64."""

    def __init__(self, workload: Workload) -> None:
        lamina.reset()
        self.workload = workload
        self.module, *inputs = workload.build()
        assert isinstance(self.module, nn.Module)
        self.first = Inputs(*inputs)
        self.exact: Any = to_double(Example(self.module, *inputs)).function
        self.compiled: Any = lamina.compile(self.module, fullgraph=True)

    def truth(self, inputs: Inputs) -> Truth:
        args, kwargs = as_double(inputs.args), as_double(inputs.kwargs)
        results = list(flatten(self.exact(*args, **kwargs)))
        return Truth(results, largest_error(self.module(*inputs.args, **inputs.kwargs), results))

    def check(self, inputs: Inputs) -> None:
        self.truth(inputs).check(self.compiled(*inputs.args, **inputs.kwargs))


@pytest.fixture(scope="module", params=NETWORKS, ids=lambda workload: workload.name)
def network(request: pytest.FixtureRequest) -> Network:
    """pytest runs the tests of one network after each other."""
    return Network(request.param)


def check(compiled: Any, example: Example) -> None:
    """Whether a call is as close to float64 as eager is."""
    reference = reference_of(example)
    error = largest_error(example.function(*example.args, **example.kwargs), reference)
    Truth(reference, error).check(compiled(*example.args, **example.kwargs))


@pytest.mark.slow
def test_a_network(network: Network) -> None:
    first, compiled = network.first, network.compiled
    truth = network.truth(first)
    truth.check(compiled(*first.args, **first.kwargs))
    assert lamina.counters()["graphs"] == 1
    assert lamina.counters()["breaks"] == 0
    for size in network.workload.variants:
        network.check(network.workload.inputs(size))
    truth.check(compiled(*first.args, **first.kwargs))
    assert lamina.counters()["breaks"] == 0


@pytest.mark.slow
def test_changed_weights_are_seen(network: Network) -> None:
    module, compiled = network.module, network.compiled
    sizes = (network.workload.size, *network.workload.variants)
    inputs = network.workload.inputs(min(sizes, key=math.prod))
    args = inputs.args
    before = compiled(*args).clone()
    state = copy.deepcopy(module.state_dict())
    for parameter in module.parameters():
        parameter.mul_(1.05)
    network.exact.load_state_dict(module.state_dict())
    network.check(inputs)
    assert largest_error(compiled(*args), [before]) > 1e-3
    module.load_state_dict(state)
    assert largest_error(compiled(*args), [before]) < 1e-5


@pytest.mark.parametrize("workload", MICRO, ids=lambda workload: workload.name)
def test_a_micro_program(workload: Workload) -> None:
    lamina.reset()
    example = workload.build()
    compiled = lamina.compile(example.function, fullgraph=True)
    check(compiled, example)
    for size in workload.variants:
        check(compiled, Example(example.function, *workload.inputs(size)))
    assert lamina.counters()["breaks"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2", "unet", "distilbert", "t5-encoder"])
def test_eval_is_right_after_training_mode(name: str) -> None:
    lamina.reset()
    workload = next(each for each in NETWORKS if each.name == name)
    example = workload.build()
    module = example.function
    assert isinstance(module, nn.Module)
    compiled = lamina.compile(module)
    check(compiled, example)
    twin, exact = copy.deepcopy(module), to_double(example)
    runs = ((module, compiled, example.args), (twin, twin, example.args), (exact.function, *exact[:2]))
    for model, function, args in runs:
        model.train()
        torch.manual_seed(3)
        function(*args)
        model.eval()
    # Batch norm's statistics moved as eager's do (dropout draws other numbers in float64, so nets that have
    # it are held to eager's own values), and eval mode uses the moved ones.
    states = (module.state_dict(), twin.state_dict(), exact.function.state_dict())
    for key, ours in states[0].items():
        theirs, truth = states[1][key], states[2][key]
        if "running_" in key:
            error, allowed = (float((each.double() - truth).abs().max()) for each in (ours, theirs))
            # A mean of values of size 1 is known to 1e-6 in float32, however small it is.
            assert error <= 4 * allowed + 1e-6 * max(1.0, float(truth.abs().max())), key
        else:
            assert torch.equal(ours, theirs), key
    check(compiled, example)
