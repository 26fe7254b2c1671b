"""Shape rules of operations over packed sequences, which torch's fakes lack: they read the batch sizes.

    data, batch_sizes = _pack_padded_sequence(x, lengths)              (u0, 5), (u1,)
    output, h, c = lstm(data, batch_sizes, (h, c), weights, ...)       (u0, 6), h and c as they come in
    padded, lengths = _pad_packed_sequence(output, batch_sizes, ...)   (u1, n, 6), (n,)

How many steps there are depends on values. The first of the batch sizes is the number n of sequences: it is
kept with the fake of `batch_sizes`, so that `batch_sizes[0]` is a size that is known. Of batch sizes from
outside it is what the first operation made of it that took `batch_sizes[0]` for a size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lamina.capture.fake import make_unknown_size
from lamina.capture.machine.signals import stop

Tensor = torch.Tensor
SELECT: Any = torch.ops.aten.select.int
FIRST = "_lamina_first"
"""The attribute of a fake that holds its version and its first element."""
OWNER = "_lamina_owner"
"""The attribute of a fake that holds the one whose first element it is."""
ITEM: Any = torch.ops.aten._local_scalar_dense.default
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def find_rule(target: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Callable[..., Any] | None:
    """The rule of a torch function, which takes the fake mode and the arguments; None for other functions."""
    if target not in LAYERS:
        return RULES.get(target)
    sizes = arguments[1] if len(arguments) > 1 else keywords.get("batch_sizes")
    # Over padded sequences it takes no tensor there, or the first state.
    is_packed = isinstance(sizes, Tensor) and sizes.dtype is torch.int64
    return functools.partial(run_recurrent, LAYERS[target]) if is_packed else None


def pack(mode: Any, input: Tensor, lengths: Tensor, batch_first: bool = False) -> tuple[Tensor, Tensor]:
    """Rows of all sequences' first steps, then of all second steps; and how many rows each step has."""
    batch, *rest = (input.shape[0], *input.shape[2:]) if batch_first else input.shape[1:]
    if lengths.shape[0] != batch:
        raise RuntimeError("Expected `len(lengths)` to be equal to batch_size")
    total, steps = (make_unknown_size(mode.shape_env, least=1) for _ in range(2))
    data = make_result((total, *rest), input, (input,))
    batch_sizes = torch.empty((steps,), dtype=torch.int64)
    keep_first(batch_sizes, batch)
    return data, batch_sizes


def pad(
    mode: Any, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: Any
) -> tuple[Tensor, Tensor]:
    """The packed rows as sequences of the same length, and the lengths that they had."""
    batch = find_first(batch_sizes)
    if batch is None:
        batch = make_unknown_size(mode.shape_env)
        keep_first(batch_sizes, batch)
    padded = make_result((total_length, batch, *data.shape[1:]), data, (data,))
    return padded.transpose(0, 1) if batch_first else padded, torch.empty((batch,), dtype=torch.int64)


def run_recurrent(
    layer: Callable[..., Any],
    mode: Any,
    data: Tensor,
    batch_sizes: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    """A recurrent layer: its outputs, packed alike, and its states behind the last steps."""
    states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
    used = (data, *states, *params)
    flags = (has_biases, num_layers, dropout, train, bidirectional)
    dtypes = find_types(layer, data, states, params, flags)
    if find_first(batch_sizes) is None:
        # Others than those of the first batch size are an error of the layer's.
        keep_first(batch_sizes, states[0].shape[1])
    mode.has_effect = bool(train and dropout and num_layers > 1)
    width = states[0].shape[2] * (2 if bidirectional else 1)
    sizes = ((data.shape[0], width), *(tuple(state.shape) for state in states))
    return tuple(make_result(size, data, used, dtype) for size, dtype in zip(sizes, dtypes, strict=True))


def find_types(
    layer: Callable[..., Any],
    data: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    flags: tuple[Any, ...],
) -> list[torch.dtype]:
    """The types of a layer's results. In mixed precision it runs over zeros: torch's casts decide.

    Those of LSTMs depend on whether all sequences have the same length: there the trace stops.
    """
    if not torch.is_autocast_enabled("cpu") and all(each.dtype == data.dtype for each in (*states, *params)):
        return [data.dtype] * (1 + len(states))
    if not all(type(size) is int for each in (*states, *params) for size in (*each.shape[2:], data.shape[1])):
        stop("data-dependent", "a recurrent layer of unknown width runs in mixed precision")
    alike, unlike = (probe(layer, counts, data, states, params, flags) for counts in ([2, 2], [2, 1]))
    if alike != unlike:
        stop("data-dependent", "the type of a recurrent layer's result depends on the lengths of sequences")
    return alike


def probe(
    layer: Callable[..., Any],
    counts: list[int],
    data: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    flags: tuple[Any, ...],
) -> list[torch.dtype]:
    """The types that a layer's results have for zeros in place of the tensors, with these batch sizes."""
    python: Any = torch._C
    with python._DisableTorchDispatch(), python._DisablePythonDispatcher(), torch.no_grad():
        rows = torch.zeros(sum(counts), data.shape[1], dtype=data.dtype)
        before = [torch.zeros(each.shape[0], counts[0], each.shape[2], dtype=each.dtype) for each in states]
        weights = [torch.zeros(each.shape, dtype=each.dtype) for each in params]
        given = before if len(before) > 1 else before[0]
        with torch.random.fork_rng(devices=()):
            return [each.dtype for each in layer(rows, torch.tensor(counts), given, weights, *flags)]


def faces(name: str) -> tuple[Any, ...]:
    """A function of torch's, and the operators that it stands for."""
    packet = getattr(torch.ops.aten, name)
    return (getattr(torch, name), packet, *(getattr(packet, overload) for overload in packet.overloads()))


RULES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(faces("_pack_padded_sequence"), pack),
    **dict.fromkeys(faces("_pad_packed_sequence"), pad),
}
LAYERS = {face: getattr(torch, name) for name in RECURRENT for face in faces(name)}


def make_result(
    sizes: tuple[Any, ...], like: Tensor, sources: Sequence[Tensor], dtype: torch.dtype | None = None
) -> Tensor:
    """A contiguous fake, of the type of `like` by default; it needs a gradient if one of its sources does."""
    needs_gradient = torch.is_grad_enabled() and any(each.requires_grad for each in sources)
    made = torch.empty(sizes, dtype=dtype or like.dtype, device=like.device, requires_grad=needs_gradient)
    # What an operation gives is no leaf.
    return made.clone() if needs_gradient else made


def keep_first(values: Tensor, first: Any) -> None:
    """Note the first element of a fake until it is written to."""
    if not values.is_inference():
        setattr(values, FIRST, (values._version, first))


def find_first(values: Tensor) -> Any:
    """The first element of a fake, or None."""
    version, first = getattr(values, FIRST, (-1, None))
    return first if version >= 0 and values._version == version else None


def follow_element(func: Any, result: Any, values: Any, dimension: int = 0, index: Any = 0) -> None:
    """Note what is known of `values[0]`, and what an operation makes of it."""
    if func is ITEM:
        if OWNER in vars(values) and find_first(values.__dict__[OWNER]) is None:
            keep_first(values, result)
            keep_first(values.__dict__[OWNER], result)
        return
    if values.dim() != 1 or values.dtype is not torch.int64 or type(index) is not int or index != 0:
        return
    setattr(result, OWNER, values)
    first = find_first(values)
    if first is not None:
        result.item_memo = first
        keep_first(result, first)
