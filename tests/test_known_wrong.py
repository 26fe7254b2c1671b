"""Programs that other compilers get wrong or refuse: closures, aliases, overlapping arguments, dtypes, loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lamina
from tests.work import count_calls


@pytest.fixture(autouse=True)
def fresh_counters() -> None:
    lamina.reset()


def both(program: Callable[..., Any], *make: Callable[[], Any], calls: int = 2) -> Any:
    """The compiled call's results after `calls` calls; each must be eager's, arguments included."""
    fast = lamina.compile(program)
    result = None
    for _ in range(calls):
        expected_arguments, arguments = [each() for each in make], [each() for each in make]
        expected = program(*expected_arguments)
        result = fast(*arguments)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(arguments, expected_arguments)
    return result


def ramp(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    count = torch.Size(shape).numel()
    return lambda: torch.arange(count, dtype=dtype).reshape(shape) - count // 2


def test_a_dict_changed_by_a_method_of_a_local_class() -> None:
    def program(x: Tensor) -> tuple[Tensor, dict[str, Any]]:
        seen: dict[str, Any] = {"calls": 0}

        class Recorder:
            def note(self, value: Tensor) -> Tensor:
                seen["calls"] += 1
                seen["last"] = value
                return value + seen["calls"]

        recorder = Recorder()
        return recorder.note(recorder.note(x)), seen

    both(program, ramp(3))


def test_a_dict_of_the_caller_changed_by_a_method_of_a_local_class() -> None:
    notes: dict[str, Any] = {}

    def program(x: Tensor) -> Tensor:
        class Recorder:
            def note(self, value: Tensor) -> None:
                notes[f"at {len(notes)}"] = value * 2

        Recorder().note(x)
        return x + len(notes)

    fast = lamina.compile(program)
    x = torch.randn(3)
    for count in (1, 2):
        torch.testing.assert_close(fast(x), x + count)
        assert list(notes) == [f"at {k}" for k in range(count)]
        torch.testing.assert_close(notes[f"at {count - 1}"], x * 2)


@pytest.mark.parametrize(
    "alias",
    [
        lambda x: F.dropout(x, 0.5, False),
        lambda x: F.alpha_dropout(x, 0.5, False),
        lambda x: x.contiguous(),
        lambda x: x.to(torch.float32),
        lambda x: x.float(),
        lambda x: x.reshape(x.shape),
        lambda x: x.expand_as(x),
        lambda x: nn.Identity()(x),
        lambda x: torch.flatten(x),
        lambda x: x.view_as(x),
        lambda x: x.type_as(x),
    ],
)
def test_what_is_the_input_itself_is_changed_with_it(alias: Callable[[Tensor], Tensor]) -> None:
    def program(x: Tensor) -> Tensor:
        y = alias(x)
        y += y
        return y

    both(program, ramp(5))


def test_arguments_that_overlap_on_a_later_call() -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    fast = lamina.compile(program)
    fast(torch.randn(4), torch.randn(4))
    for cut in (
        lambda base: (base[:4], base[1:5]),
        lambda base: (base[:4], base[:4]),
        lambda base: (base[1:5], base[:4]),
    ):
        one, other = torch.arange(6.0), torch.arange(6.0)
        torch.testing.assert_close(fast(*cut(one)), program(*cut(other)))
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int16])
def test_a_dtype_view_read_after_a_later_change(dtype: torch.dtype) -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        bits = x.view(dtype)
        x.mul_(2)
        before = bits + 0
        bits.zero_()
        return before, x + 1

    both(program, ramp(4))


def test_products_of_small_integers_keep_their_dtype() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.bmm(x, y), x @ y, torch.baddbmm(x, x, y), torch.einsum("bij,bjk->bik", x, y)

    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32):
        results = both(program, ramp(2, 3, 3, dtype=dtype), ramp(2, 3, 3, dtype=dtype))
        assert {each.dtype for each in results} == {dtype}


def test_large_integers_do_not_wrap_at_32_bits() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        steps = torch.arange(8, dtype=torch.int64)
        return (
            steps * 10**9,
            (steps * 10**9).sum(),
            steps * (2**40) + x,
            torch.full((3,), 2**33) * 4,
            steps << 40,
        )

    both(program, ramp(8, dtype=torch.int64))


def adam(weight: Tensor, gradient: Tensor, state: dict[str, Tensor]) -> None:
    """A step whose numbers come from tensors."""
    state["step"] += 1
    step = state["step"].item()
    state["mean"].lerp_(gradient, 0.1)
    state["square"].mul_(0.99).addcmul_(gradient, gradient, value=0.01)
    size = 0.1 * (1 - 0.99**step) ** 0.5 / (1 - 0.9**step)
    weight.addcdiv_(state["mean"], state["square"].sqrt().add_(1e-8), value=-size)


def test_adam_driven_by_item() -> None:
    def start() -> tuple[Tensor, dict[str, Tensor]]:
        state = {"step": torch.tensor(0.0), "mean": torch.zeros(6), "square": torch.zeros(6)}
        return torch.linspace(-1, 1, 6), state

    fast = lamina.compile(adam)
    (weight, state), (expected, expected_state) = start(), start()
    for number in range(12):
        gradient = torch.sin(torch.arange(6.0) + number)
        fast(weight, gradient, state)
        adam(expected, gradient, expected_state)
        torch.testing.assert_close((weight, state), (expected, expected_state))


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor


def test_twelve_instances_of_one_class() -> None:
    x = torch.randn(2, 4)
    for number in range(12):
        module = Scaled(number + 0.5).eval()
        fast = lamina.compile(module, fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(fast(x), module(x))


def test_twelve_instances_through_one_function() -> None:
    modules = [Scaled(number + 0.5).eval() for number in range(12)]

    @lamina.compile
    def apply(module: nn.Module, x: Tensor) -> Tensor:
        return module(x) + 1

    x = torch.randn(2, 4)
    with torch.no_grad():
        for module in (*modules, *modules):
            torch.testing.assert_close(apply(module, x), module(x) + 1)


def fibonacci_chain(x: Tensor, steps: int) -> Tensor:
    one, other = x, x + 1
    for _ in range(steps):
        one, other = other, one * other * 0.1 + one * 0.5
    return other


def long_loop(x: Tensor, steps: int) -> Tensor:
    weight = torch.eye(8) * 0.5
    for _ in range(steps):
        x = torch.tanh(x @ weight) + x
    return x


@pytest.mark.parametrize(("program", "steps"), [(fibonacci_chain, 6), (long_loop, 40)])
def test_compiling_is_linear_in_the_program(program: Callable[[Tensor, int], Tensor], steps: int) -> None:
    def work(steps: int) -> int:
        return count_calls(
            lambda: both(
                lambda x: program(x, steps), lambda: torch.linspace(-0.1, 0.1, 32).reshape(4, 8), calls=1
            )
        )

    work(2)
    assert work(4 * steps) < 5 * work(steps)


def test_state_dict_keys_are_the_modules_own() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    fast = lamina.compile(module)
    assert list(fast.state_dict()) == list(module.state_dict())
    assert [name for name, _ in fast.named_parameters()] == [name for name, _ in module.named_parameters()]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_padded_and_indexed_constants(value: float) -> None:
    def program(x: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        constant = torch.full((2, 3), value)
        return (
            F.pad(constant, (1, 2), value=7.0) * x,
            constant[:, positions] + x[:, :3],
            constant.flip(0) - x[:, :3],
        )

    both(program, ramp(2, 6), lambda: torch.tensor([2, 0, 1]))


def test_attention_weights_that_are_not_asked_for() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    def program(x: Tensor) -> tuple[Tensor, int]:
        out, weights = layer(x, x, x, need_weights=False)
        return out, 0 if weights is None else 1

    with torch.no_grad():
        assert both(program, ramp(2, 3, 8))[1] == 0


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_nothing(training: bool) -> None:
    module = nn.BatchNorm1d(5).train(training)
    fast = lamina.compile(module)
    with torch.no_grad():
        assert fast(torch.empty(0, 5, 9)).shape == (0, 5, 9)
    assert module.running_mean is not None and not module.running_mean.any()


def test_torchs_encoder_with_padding() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    padding = torch.tensor([[False, False, True], [False, True, True]])
    with torch.no_grad():
        both(lambda x: encoder(x, src_key_padding_mask=padding), ramp(2, 3, 8))


def test_a_layer_loop_with_breaks_compiles_each_layer(recwarn):
    """Twenty layers, a break in each round: every layer has a variant, no limit is met."""

    class Layered(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(20))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
                lamina.graph_break()
            return x

    model, x = Layered(), torch.randn(2, 4)
    fast = lamina.compile(model)
    with torch.no_grad():
        lamina.reset()
        assert torch.allclose(fast(x), model(x))
        graphs = lamina.counters()["graphs"]
        assert graphs == 20
        assert torch.allclose(fast(x), model(x)) and lamina.counters()["graphs"] == graphs
    assert not [warning for warning in recwarn if "compiled variants" in str(warning.message)]
