"""Give LSTMs with constant weights to oneDNN layer by layer, with weights in the order that it wants.

    %1:3 = aten.lstm(%x, ..)   =>   %0:2 = mkldnn._reorder_mkldnn_rnn_layer_weight(%w_ih, %w_hh, ..)
                                    %1:3 = aten.mkldnn_rnn_layer(%x, %0#0, %0#1, %b_ih, %b_hh, %h, %c, ..)

Torch makes the same calls inside `aten.lstm` and reorders the weights in each: as much memory traffic as a
step of a batch of one. Packing is weights-only work: `prepare` moves it out. The results are equal in every
bit. Measured: see the note at the foot.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops.aten import arguments
from lamina.ir.passes import Context
from lamina.ir.sizes import is_static
from lamina.ir.types import TensorType, f32
from lamina.passes.tensor.library import MKLDNN, call, call_for_several, libraries
from lamina.passes.tensor.reshape import extract_slice, reshape, static_shape
from lamina.passes.tensor.twins import permute
from lamina.passes.tensor.weights import main_to_fold, weight_values

NAME = "pack_lstm"
LSTM = "aten.lstm.input"
MODE = 2
"""What torch calls an LSTM among its recurrent networks."""
WEIGHTS_A_LAYER = 4
"""Of input and state, and their biases; a projection would be a fifth."""
TURNED = (1, 0, 2)
"""Length first from batch first, and back."""


@dataclass(frozen=True, slots=True)
class Network:
    """The arguments of `aten.lstm`, shapes as torch documents `nn.LSTM`'s."""

    x: Value
    states: list[Value]
    weights: list[Value]
    has_biases: bool
    layers: int
    is_training: bool
    is_bidirectional: bool
    batch_first: bool

    @property
    def directions(self) -> int:
        return 2 if self.is_bidirectional else 1

    @property
    def width(self) -> int:
        """Features of the state."""
        return static_shape(self.states[0])[2]


def run(module: Operation, context: Context) -> None:
    """Pack in @main, every f32 LSTM whose weights are weights."""
    function = main_to_fold(module, context)
    if function is None:
        return
    weights = weight_values(function)
    for operation in function.body:
        if operation.name != LSTM:
            continue
        network = _read(operation)
        reason = _refusal(network, weights) if MKLDNN in libraries(context) else "no oneDNN"
        if reason is not None:
            context.remarks.add(NAME, operation.location, reason, "refused")
            continue
        operation.replace_with(_pack(operation, network))
        text = f"{network.layers} layers with packed weights"
        context.remarks.add(NAME, operation.location, text, "applied", layers=network.layers)


def _read(operation: Operation) -> Network:
    args, _ = arguments(operation)
    x, states, weights, has_biases, layers, _, is_training, is_bidirectional, batch_first = args
    return Network(x, states, weights, has_biases, layers, is_training, is_bidirectional, batch_first)


def _refusal(network: Network, weights: set[Value]) -> str | None:
    """Why an LSTM stays as it is."""
    if not all(weight in weights for weight in network.weights):
        return "the weights are not constant"
    if any(_tensor(value).element is not f32 for value in (network.x, *network.states, *network.weights)):
        return "only f32 is packed"
    if network.is_training:
        return "a training call keeps what its gradient needs"
    if not network.has_biases:
        return "no biases"
    if len(network.weights) != WEIGHTS_A_LAYER * network.layers * network.directions:
        return "a projection of the state"
    if not is_static(static_shape(network.x)) or not is_static(static_shape(network.states[0])):
        return "sizes vary: weights are packed for one batch and length"
    return "empty" if 0 in (*static_shape(network.x), network.width) else None


def _pack(operation: Operation, network: Network) -> list[Value]:
    builder = Builder.before_op(operation)
    x = _contiguous(builder, permute(builder, network.x, TURNED) if network.batch_first else network.x)
    last: list[list[Value]] = [[], []]
    for layer in range(network.layers):
        outputs = []
        for direction in range(network.directions):
            output, *states = _layer(builder, network, x, layer * network.directions + direction)
            outputs.append(output)
            for kept, state in zip(last, states, strict=True):
                kept.append(state)
        x = outputs[0] if len(outputs) == 1 else _join(builder, outputs)
    stacked = [
        _stack(builder, states) if result.uses else states[0]
        for states, result in zip(last, operation.results[1:], strict=True)
    ]
    return [permute(builder, x, TURNED) if network.batch_first else x, *stacked]


def _layer(builder: Builder, network: Network, x: Value, place: int) -> list[Value]:
    """One direction of one layer: its output (length, batch, width), last hidden and last cell state."""
    first = WEIGHTS_A_LAYER * place
    w_ih, w_hh, b_ih, b_hh = network.weights[first : first + WEIGHTS_A_LAYER]
    is_reversed = network.is_bidirectional and place % 2 == 1
    length, batch, features = static_shape(x)
    width = network.width
    packed = call_for_several(
        builder,
        "mkldnn._reorder_mkldnn_rnn_layer_weight.default",
        [
            _contiguous(builder, w_ih), _contiguous(builder, w_hh), width, is_reversed, True, False,
            [length, batch, features],
        ],
        [_tensor(w_ih), _tensor(w_hh)],
        opaque=True,
    )  # fmt: skip
    states = [_slice(builder, state, place) for state in network.states]
    flags = [is_reversed, [], MODE, width, network.layers, True, network.is_bidirectional, False, False]
    state_type = TensorType.get((batch, width), f32)
    return list(
        call_for_several(
            builder,
            "aten.mkldnn_rnn_layer.default",
            [x, *packed, b_ih, b_hh, *states, *flags],
            [TensorType.get((length, batch, width), f32), state_type, state_type],
            returned=[True, True, True, False],
        )
    )


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _contiguous(builder: Builder, value: Value) -> Value:
    """oneDNN reads its operands by address, as row-major memory."""
    keywords = {"memory_format": "torch.contiguous_format"}
    return call(builder, "aten.clone.default", [value], _tensor(value), kwargs=keywords)


def _slice(builder: Builder, states: Value, place: int) -> Value:
    """The state (batch, width) of one direction of one layer."""
    _, batch, width = static_shape(states)
    taken = extract_slice(builder, states, (place, 0, 0), (1, batch, width))
    return _contiguous(builder, reshape(builder, taken, (batch, width)))


def _join(builder: Builder, outputs: list[Value]) -> Value:
    """Both directions, one behind the other."""
    length, batch, width = static_shape(outputs[0])
    type_ = TensorType.get((length, batch, width * len(outputs)), f32)
    return call(builder, "aten.cat.default", [outputs, 2], type_)


def _stack(builder: Builder, states: list[Value]) -> Value:
    batch, width = static_shape(states[0])
    return call(builder, "aten.stack.default", [states, 0], TensorType.get((len(states), batch, width), f32))


"""Measured with two threads of a Xeon (2 MB of L2 a core), torch 2.11, f32, 256 features, two layers of 512,
64 steps, medians in milliseconds: aten.lstm / a layer at a time / with packed weights.

    batch 1    11.2 / 10.6 /  6.6
    batch 8    28.1 / 27.5 / 26.9
"""
