"""Packed sequences: what reads their batch sizes is a break, what lies between is compiled."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import lamina

PACKED = "runs over a packed sequence"


class Encoder(torch.nn.Module):
    """Packs padded sequences, runs a recurrent layer over them and pads the result."""

    def __init__(self, kind: type[torch.nn.RNNBase], **options: object) -> None:
        super().__init__()
        self.layer = kind(5, 6, batch_first=True, **options).requires_grad_(False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        packed = pack_padded_sequence(torch.tanh(x * 2), lengths, batch_first=True, enforce_sorted=False)
        steps, last = self.layer(packed)
        padded, counts = pad_packed_sequence(steps, batch_first=True)
        last = last[0] if isinstance(last, tuple) else last
        return torch.relu(padded) * 2, counts + 1, last.sum(0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.nn.LSTM, {}),
        (torch.nn.LSTM, {"num_layers": 2, "bidirectional": True}),
        (torch.nn.GRU, {}),
        (torch.nn.RNN, {"nonlinearity": "relu"}),
    ],
)
def test_results_are_eagers_for_all_lengths(kind, options) -> None:
    model = Encoder(kind, **options)
    fast = lamina.compile(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for lengths in ([7, 3, 5], [4, 4, 2], [2, 7, 7], [6, 2, 3]):
            x, counts = torch.randn(3, 7, 5), torch.tensor(lengths)
            torch.testing.assert_close(fast(x, counts), model(x, counts))
    breaks = lamina.explain(fast, x, counts).breaks
    assert {each["code"] for each in breaks} == {"data-dependent"}
    assert sum(PACKED in each["message"] for each in breaks) >= 3


def test_the_parts_of_a_packed_sequence_stay_in_one_graph() -> None:
    def program(packed):
        return PackedSequence(packed.data * 2 + 1, *packed[1:])

    fast = lamina.compile(program, fullgraph=True)
    for lengths in ([7, 3], [5, 5], [6, 2]):
        packed = pack_padded_sequence(torch.randn(7, 2, 5), torch.tensor(lengths), enforce_sorted=False)
        got, expected = fast(packed), program(packed)
        assert type(got) is PackedSequence
        torch.testing.assert_close(tuple(got), tuple(expected))


def test_padded_sequences_do_not_break() -> None:
    layer = torch.nn.GRU(5, 6, batch_first=True).requires_grad_(False)
    fast, x = lamina.compile(layer, fullgraph=True), torch.randn(3, 7, 5)
    torch.testing.assert_close(fast(x), layer(x))
