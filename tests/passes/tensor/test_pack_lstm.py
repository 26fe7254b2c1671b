"""Packed LSTMs give eager's bits, in eager's strides, and keep up with their weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina.passes.tensor import pack_lstm
from lamina.runtime.library_calls import available_libraries
from tests.passes.tensor.programs import library_calls
from tests.passes.tensor.test_library import prepare

States = tuple[torch.Tensor, torch.Tensor] | None

pytestmark = pytest.mark.skipif("mkldnn" not in available_libraries(), reason="packs for oneDNN")

KINDS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "two layers, batch first": {"num_layers": 2, "batch_first": True},
    "both directions": {"bidirectional": True},
    "three layers, both directions": {"num_layers": 3, "bidirectional": True, "batch_first": True},
}


def flat(result: Any) -> list[torch.Tensor]:
    output, (hidden, cell) = result
    return [output, hidden, cell]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("batch", "length"), [(1, 7), (5, 1)])
def test_equal_in_every_bit(kind: str, batch: int, length: int) -> None:
    options = KINDS[kind]
    network = nn.LSTM(13, 17, **options).eval()
    sizes = (batch, length, 13) if options.get("batch_first") else (length, batch, 13)
    count = network.num_layers * (2 if network.bidirectional else 1)
    strided = torch.randn(13, *sizes[:2]).permute(1, 2, 0)
    states: list[States] = [
        None,
        (torch.randn(count, batch, 17), torch.randn(count, batch, 17)),
        (torch.randn(batch, count, 17).transpose(0, 1), torch.randn(count, 17, batch).transpose(1, 2)),
    ]
    compiled = lamina.compile(network, dynamic=False)
    with torch.no_grad():
        for x in (torch.randn(sizes), strided):
            for state in states:
                for got, wanted in zip(flat(compiled(x, state)), flat(network(x, state)), strict=True):
                    assert torch.equal(got, wanted)
                    assert got.stride() == wanted.stride()


def test_the_weights_are_packed_once() -> None:
    """Two layers are two packings in @prepare, and two calls of a layer in @main."""
    module, _, _ = prepare(nn.Sequential(nn.LSTM(6, 8, num_layers=2)), [torch.randn(4, 3, 6)])
    packings = [name for name in library_calls(module, "prepare") if "reorder" in name]
    assert packings == ["mkldnn._reorder_mkldnn_rnn_layer_weight.default"] * 2
    layers = [name for name in library_calls(module) if "rnn" in name or "lstm" in name]
    assert layers == ["aten.mkldnn_rnn_layer.default"] * 2


def test_packed_again_when_a_weight_changes() -> None:
    network, x = nn.LSTM(6, 8).eval(), torch.randn(4, 3, 6)
    with torch.no_grad():
        compiled = lamina.compile(network)
        compiled(x)
        network.all_weights[0][1].mul_(-2)
        assert torch.equal(compiled(x)[0], network(x)[0])


def test_weights_in_another_order() -> None:
    network, x = nn.LSTM(6, 8).eval(), torch.randn(4, 3, 6)
    network.weight_ih_l0 = nn.Parameter(torch.randn(6, 32).t())
    with torch.no_grad():
        assert torch.equal(lamina.compile(network)(x)[0], network(x)[0])


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (nn.LSTM(6, 8, bias=False), "no biases"),
        (nn.LSTM(6, 8, proj_size=3), "a projection of the state"),
        (nn.LSTM(6, 8).double(), "only f32 is packed"),
    ],
    ids=["biases", "projection", "double"],
)
def test_what_stays(network: nn.LSTM, reason: str) -> None:
    x = torch.randn(4, 3, 6, dtype=network.all_weights[0][0].dtype)
    _, _, context = prepare(nn.Sequential(network), [x])
    assert context.remarks.query(pack_lstm.NAME, "refused", text=reason)
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(network.eval())(x), network(x))
