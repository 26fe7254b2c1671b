"""The workloads in plain PyTorch: they build, repeat, take other sizes, and no signal dies on the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.accuracy import largest_error, reference_of
from bench.workloads import NETWORKS, WORKLOADS, Workload, get

CHEAP = (
    "t5-encoder",
    "vit",
    "mobilenetv2",
    "dlrm",
    "mlp",
    "unet",
    "lstm",
    "cross-entropy",
    "causal-attention",
    "add-one",
)


@pytest.fixture(autouse=True)
def without_gradients() -> Any:
    with torch.no_grad():
        yield


def test_the_list_is_the_agreed_one() -> None:
    assert len(NETWORKS) == 17
    assert len(WORKLOADS) == 31


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(KeyError, match="there are: bert, distilbert"):
        get("brt")


@pytest.mark.parametrize("name", CHEAP)
def test_builds_are_repeatable_and_exact(name: str) -> None:
    workload = get(name)
    first, second = workload.build(), workload.build()
    results = [example.function(*example.args, **example.kwargs) for example in (first, second)]
    assert torch.equal(*results)
    assert results[0].dtype == torch.float32
    assert largest_error(results[0], reference_of(first)) < 1e-5


@pytest.mark.parametrize("name", CHEAP)
def test_results_depend_on_inputs_and_other_sizes_run(name: str) -> None:
    workload: Workload = get(name)
    function, args, kwargs = workload.build()
    result = function(*args, **kwargs)
    other = workload.inputs(seed=7)
    assert largest_error(function(*other.args, **other.kwargs), [result]) > 0.01
    for size in workload.variants:
        inputs = workload.inputs(size)
        assert torch.isfinite(function(*inputs.args, **inputs.kwargs)).all()


def test_building_leaves_the_random_state_alone() -> None:
    state = torch.get_rng_state()
    get("mlp").build()
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.slow
def test_the_decode_step_repeats_its_position() -> None:
    example = get("gpt2-decode").build()
    function, args, _ = example
    assert isinstance(function, nn.Module)
    first = function(*args)
    assert torch.equal(first, function(*args))
    assert largest_error(first, reference_of(example)) < 1e-5
