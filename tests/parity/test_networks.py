"""Every workload under `lamina.compile`: whole, as exact as eager, also with other sizes, other weights, other modes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from bench.accuracy import largest_error, reference_of
from bench.workloads import MICRO, NETWORKS, Example, Workload, to_double

ROUNDING = (
    1e-7  # a result may be this far off where eager happens to be closer to the truth than float32 can tell
)


@pytest.fixture(autouse=True)
def one_thread_without_gradients() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lamina.reset()
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def check(compiled: Any, example: Example) -> None:
    """As close to float64 as eager is, within a factor of two."""
    reference = reference_of(example)
    eager = largest_error(example.function(*example.args, **example.kwargs), reference)
    ours = largest_error(compiled(*example.args, **example.kwargs), reference)
    assert ours <= 2 * eager + ROUNDING, f"error {ours:.2e}, eager's {eager:.2e}"


def sized(workload: Workload, example: Example) -> Iterator[Example]:
    """The example with inputs of each of the workload's other sizes."""
    for size in workload.variants:
        yield Example(example.function, *workload.inputs(size))


@pytest.mark.slow
@pytest.mark.parametrize("workload", NETWORKS, ids=lambda workload: workload.name)
def test_a_network(workload: Workload) -> None:
    example = workload.build()
    module = example.function
    assert isinstance(module, nn.Module)
    compiled = lamina.compile(module, fullgraph=True)
    check(compiled, example)
    assert lamina.counters()["graphs"] == 1
    assert lamina.counters()["breaks"] == 0
    for other in sized(workload, example):
        check(compiled, other)
    check(compiled, example)
    assert lamina.counters()["breaks"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("workload", NETWORKS, ids=lambda workload: workload.name)
def test_changed_weights_are_seen(workload: Workload) -> None:
    example = workload.build()
    module = example.function
    assert isinstance(module, nn.Module)
    compiled = lamina.compile(module, fullgraph=True)
    before = compiled(*example.args).clone()
    state = copy.deepcopy(module.state_dict())
    for parameter in module.parameters():
        parameter.mul_(1.05)
    check(compiled, example)
    assert largest_error(compiled(*example.args), [before]) > 1e-3
    module.load_state_dict(state)
    check(compiled, example)
    assert largest_error(compiled(*example.args), [before]) < 1e-5


@pytest.mark.parametrize("workload", MICRO, ids=lambda workload: workload.name)
def test_a_micro_program(workload: Workload) -> None:
    example = workload.build()
    compiled = lamina.compile(example.function, fullgraph=True)
    check(compiled, example)
    for other in sized(workload, example):
        check(compiled, other)
    assert lamina.counters()["breaks"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2", "unet", "distilbert", "t5-encoder"])
def test_eval_is_right_after_training_mode(name: str) -> None:
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
