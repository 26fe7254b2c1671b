"""Packed sequences stay in one graph, whatever the lengths; results, gradients and errors are eager's."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import lamina

KINDS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)


class Encoder(torch.nn.Module):
    """Packs padded sequences, runs a recurrent layer over them and pads the result."""

    def __init__(self, kind: type[torch.nn.RNNBase], total: int | None = None, **options: object) -> None:
        super().__init__()
        self.layer = kind(5, 6, batch_first=True, **options)
        self.total = total

    def forward(self, x: torch.Tensor, lengths: torch.Tensor | list[int]) -> tuple[torch.Tensor, ...]:
        packed = pack_padded_sequence(torch.tanh(x * 2), lengths, batch_first=True, enforce_sorted=False)
        steps, last = self.layer(packed)
        padded, counts = pad_packed_sequence(steps, batch_first=True, total_length=self.total)
        last = last[0] if isinstance(last, tuple) else last
        return torch.relu(padded) * 2, counts + 1, last.sum(0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.nn.LSTM, {}),
        (torch.nn.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 3}),
        (torch.nn.GRU, {"total": 9}),
        (torch.nn.RNN, {"nonlinearity": "relu"}),
    ],
)
def test_one_graph_for_all_lengths(kind, options) -> None:
    model = Encoder(kind, **options).requires_grad_(False)
    lamina.reset()
    fast = lamina.compile(model, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for lengths in ([7, 3, 5], [4, 4, 2], [2, 7, 7], [6, 2, 3], [1, 1, 1]):
            x, counts = torch.randn(3, 7, 5), torch.tensor(lengths)
            got, expected = fast(x, counts), model(x, counts)
            torch.testing.assert_close(got, expected)
            assert [each.stride() for each in got] == [each.stride() for each in expected]
    assert lamina.counters()["graphs"] == 1


def test_lengths_in_a_list_vary() -> None:
    model = Encoder(torch.nn.GRU).requires_grad_(False)
    lamina.reset()
    fast = lamina.compile(model, fullgraph=True)
    for lengths in ([7, 3, 5], [4, 4, 2], [5, 7, 7], [6, 2, 3]):
        x = torch.randn(3, 7, 5)
        torch.testing.assert_close(fast(x, lengths), model(x, lengths))
    assert lamina.counters()["graphs"] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_sequence_from_outside(kind) -> None:
    layer = kind(5, 6, num_layers=2).requires_grad_(False)

    def program(packed):
        steps, last = layer(packed)
        padded, counts = pad_packed_sequence(steps)
        return padded * 2, counts, last[0] if isinstance(last, tuple) else last

    lamina.reset()
    fast = lamina.compile(program, fullgraph=True)
    for is_sorted, lengths in ((True, [7, 3]), (True, [5, 5, 4]), (True, [6, 2, 1]), (False, [2, 7])):
        x = torch.randn(7, len(lengths), 5)
        packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=is_sorted)
        torch.testing.assert_close(fast(packed), program(packed))
    assert lamina.counters()["graphs"] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_eagers(kind) -> None:
    model = Encoder(kind, bidirectional=True)
    fast = lamina.compile(model, fullgraph=True, backend=lambda module, inputs: module)
    for lengths in ([7, 3, 5], [4, 4, 2]):
        x, counts = torch.randn(3, 7, 5, requires_grad=True), torch.tensor(lengths)
        results = fast(x, counts), model(x, counts)
        assert [each.requires_grad for each in results[0]] == [each.requires_grad for each in results[1]]
        torch.testing.assert_close(*results)
        sources = [x, *model.parameters()]
        got, expected = (torch.autograd.grad(each[0].sum() + each[2].sum(), sources) for each in results)
        torch.testing.assert_close(got, expected)


def test_states_from_outside_and_errors() -> None:
    layer = torch.nn.LSTM(5, 6).requires_grad_(False)

    def program(x, lengths, h, n):
        n.add_(1)
        steps, last = layer(pack_padded_sequence(x, lengths), (h, h * 2))
        return steps.data * 2, last

    fast = lamina.compile(program)
    for count, lengths, width in (
        (2, [7, 3], 2),
        (2, [4, 4], 2),
        (2, [3, 4], 2),
        (2, [3, 0], 2),
        (2, [3, 2], 1),
    ):
        arguments = torch.randn(7, count, 5), torch.tensor(lengths), torch.randn(1, width, 6)
        outcomes = []
        for function in (program, fast):
            n = torch.zeros(2)
            try:
                outcomes.append(function(*arguments, n))
            except RuntimeError as error:
                outcomes.append(str(error))
            assert torch.equal(n, torch.ones(2))
        if isinstance(outcomes[1], str):
            assert outcomes[0] == outcomes[1]
        else:
            torch.testing.assert_close(*outcomes)


def test_dropout_between_layers_draws_eagers_numbers() -> None:
    layer = torch.nn.LSTM(5, 6, num_layers=2, dropout=0.5).requires_grad_(False)

    def program(x, lengths):
        steps, _ = layer(pack_padded_sequence(torch.rand_like(x), lengths))
        return steps.data + torch.rand_like(steps.data)

    fast, results = lamina.compile(program, fullgraph=True), []
    for function in (program, fast):
        torch.manual_seed(3)
        results.append((function(torch.zeros(7, 2, 5), torch.tensor([7, 3])), torch.rand(2)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("is_grad_enabled", [False, True])
def test_mixed_precision(kind, is_grad_enabled) -> None:
    layer = kind(5, 6, num_layers=2, bidirectional=True)

    def program(x, lengths):
        packed = pack_padded_sequence(x * 2, lengths, enforce_sorted=False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            steps, last = layer(packed)
            padded, _ = pad_packed_sequence(steps)
            return padded @ torch.ones(12, 2), last + 1

    fast = lamina.compile(program, fullgraph=True)
    with torch.set_grad_enabled(is_grad_enabled):
        for lengths in ([7, 3, 5], [4, 4, 4], [1, 7, 2]):
            arguments = torch.randn(7, 3, 5), torch.tensor(lengths)
            torch.testing.assert_close(fast(*arguments), program(*arguments))


def test_mixed_precision_of_an_lstm_is_a_break() -> None:
    """In eager its result is bfloat16 where all lengths are the same, else float32; always that on torch 2.11."""
    model = Encoder(torch.nn.LSTM).requires_grad_(False)
    fast, x = lamina.compile(model), torch.randn(3, 7, 5)
    types = set()
    with torch.autocast("cpu"):
        for lengths in ([7, 3, 5], [7, 7, 7]):
            expected = model(x, torch.tensor(lengths))
            torch.testing.assert_close(fast(x, torch.tensor(lengths)), expected)
            types.add(expected[0].dtype)
        breaks = lamina.explain(fast, x, torch.tensor(lengths)).breaks
    depends = any("depends on the lengths" in each["message"] for each in breaks)
    assert depends == (len(types) > 1)


def test_batch_sizes_that_were_written_to() -> None:
    def program(x, lengths):
        counts = pack_padded_sequence(x, lengths).batch_sizes
        counts[0] = 1
        return torch.zeros(counts[0], 3), counts[0].item() + 1

    fast = lamina.compile(program)
    x, lengths = torch.randn(4, 3, 5), torch.tensor([4, 3, 2])
    torch.testing.assert_close(fast(x, lengths), program(x, lengths))


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
