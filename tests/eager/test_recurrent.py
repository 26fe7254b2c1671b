"""What fakes know of recurrent layers without running them is what eager gives; all else is left to torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from lamina.autograd.fake import to_fakes
from lamina.capture import trace
from lamina.capture.noting_mode import NotingMode
from lamina.eager.logs import quiet_fakes
from lamina.eager.recurrent import recurrent_results
from tests.work import count_calls

STEPS, BATCH, FEATURES, UNITS = 7, 2, 3, 5
FACES = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": torch.rnn_tanh}
LAYERS: list[tuple[str, dict[str, Any]]] = [
    (name, {"num_layers": 2, "batch_first": batch_first, "bidirectional": bidirectional, "bias": bias})
    for name in FACES
    for batch_first, bidirectional, bias in ((False, False, True), (True, True, True), (True, False, False))
] + [
    ("LSTM", {"proj_size": 2, "bidirectional": True, "num_layers": 2}),
    ("LSTM", {"dtype": torch.float64, "batch_first": True}),
    ("GRU", {"num_layers": 2, "dropout": 0.5}),
]


def make_call(name: str, options: dict[str, Any], **changes: Any) -> tuple[Any, ...]:
    """The arguments of the torch function that a layer calls."""
    layer = getattr(torch.nn, name)(FEATURES, UNITS, **options)
    directions = 2 if layer.bidirectional else 1
    dtype = layer.weight_ih_l0.dtype
    heights = [layer.proj_size or UNITS, UNITS] if name == "LSTM" else [UNITS]
    states = [torch.zeros(layer.num_layers * directions, BATCH, height, dtype=dtype) for height in heights]
    call = {
        "x": torch.ones(
            (BATCH, STEPS, FEATURES) if layer.batch_first else (STEPS, BATCH, FEATURES), dtype=dtype
        ),
        "states": states if name == "LSTM" else states[0],
        "weights": layer._flat_weights,
        "bias": layer.bias,
        "layers": layer.num_layers,
        "dropout": layer.dropout,
        "train": False,
        "bidirectional": layer.bidirectional,
        "batch_first": layer.batch_first,
    }
    return tuple((call | changes).values())


def run(function: Any, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...] | None:
    leaves, spec = pytree.tree_flatten(args)
    mode = NotingMode()
    fakes = pytree.tree_unflatten(to_fakes(mode, leaves), spec)
    with quiet_fakes(), mode:
        return recurrent_results(mode, function, fakes, {})


def describe(results: Any) -> Any:
    return [
        (tuple(each.shape), each.stride(), each.dtype, each._is_view(), each.requires_grad)
        for each in results
    ]


@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_a_known_result_is_eagers(name, options):
    args = make_call(name, options)
    with torch.no_grad():
        assert describe(run(FACES[name], args)) == describe(FACES[name](*args))


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {"x": torch.ones(STEPS, BATCH, FEATURES + 1)}),
        ({}, {"x": torch.ones(STEPS, BATCH + 1, FEATURES)}),
        ({}, {"x": torch.ones(0, BATCH, FEATURES)}),
        ({}, {"x": torch.ones(STEPS, FEATURES)}),
        ({}, {"layers": 2}),
        ({}, {"bias": False}),
        ({"dtype": torch.bfloat16}, {}),
        ({}, {"dropout": 0.5, "train": True}),
    ],
)
def test_what_is_not_plain_is_left_to_torch(options, changes):
    with torch.no_grad():
        assert run(torch.lstm, make_call("LSTM", options, **changes)) is None


def test_what_autograd_records_is_left_to_torch():
    assert run(torch.lstm, make_call("LSTM", {})) is None


def test_the_steps_of_a_layer_cost_a_capture_nothing():
    layer = torch.nn.GRU(FEATURES, UNITS).eval()

    def count(steps: int) -> int:
        with torch.no_grad():
            return count_calls(lambda: trace(layer, (torch.ones(steps, BATCH, FEATURES),), {}))

    count(1)
    assert count(40) < 1.1 * count(2)
