"""Compiled calls with many guards: identities are asked natively, equal constants and changes are still told apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import lamina
from lamina.capture import guards, identities
from lamina.driver.dispatch import state_of


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.rate = 1.5
        self.steps = 1000

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * self.rate + self.steps


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def captured_of(compiled: Any) -> Any:
    state = state_of(compiled)
    assert state is not None
    return state.root.entries[0].captured


def make() -> tuple[Stack, Any, torch.Tensor]:
    stack, x = Stack(), torch.ones(4)
    compiled = lamina.compile(stack)
    with torch.no_grad():
        compiled(x)
    return stack, compiled, x


def test_what_holds_is_answered_natively() -> None:
    _, compiled, _ = make()
    captured = captured_of(compiled)
    hold = captured.match.__globals__[guards.NATIVELY]
    assert len(captured.guards.list_rows()) > identities.FEWEST and hold()


def test_an_equal_constant_holds_as_well() -> None:
    stack, compiled, x = make()
    assert captured_of(compiled).guards.in_python is None, "compiled only where it is needed"
    stack.layers[3].steps = int("1000")
    before = lamina.counters()["recompiles"]
    with torch.no_grad():
        assert torch.equal(compiled(x), stack(x))
    assert not captured_of(compiled).match.__globals__[guards.NATIVELY]()
    assert captured_of(compiled).guards.in_python is not None
    assert lamina.counters()["recompiles"] == before


@pytest.mark.parametrize(
    "change",
    [
        lambda stack: setattr(stack.layers[2], "rate", 2.5),
        lambda stack: setattr(stack.layers[2], "steps", True),
        lambda stack: setattr(stack.layers[5], "forward", lambda x: x - 1),
        lambda stack: setattr(stack.layers[0], "__class__", torch.nn.Identity),
        lambda stack: stack.layers.append(torch.nn.Tanh()),
        lambda stack: stack.layers[1].register_forward_hook(lambda module, args, output: output - 1),
    ],
)
def test_a_change_is_seen(change: Any) -> None:
    stack, compiled, x = make()
    change(stack)
    with torch.no_grad():
        assert torch.allclose(compiled(x), stack(x))


def test_a_changed_class_is_seen_and_another_class_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, compiled, x = make()
    hold = captured_of(compiled).match.__globals__[guards.NATIVELY]
    assert hold()
    monkeypatch.setattr(torch.nn.Bilinear, "forward", lambda self, x: x)
    assert hold()
    monkeypatch.setattr(Layer, "forward", lambda self, x: x * self.weight - 1)
    assert not hold()
    with torch.no_grad():
        assert torch.allclose(compiled(x), stack(x))


def test_a_property_in_the_class_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, compiled, x = make()
    monkeypatch.setattr(Layer, "rate", property(lambda self: 0.5), raising=False)
    with torch.no_grad():
        assert torch.allclose(compiled(x), stack(x))


def test_layers_of_a_broken_loop_are_told_apart_without_trying_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places behind a break have a variant a layer; a call tries that of its own layer only."""
    layers = [torch.nn.Linear(4, 4) for _ in range(6)]

    def program(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x)
            lamina.graph_break()
            x = layer(x).relu()
        return x

    compiled, x = lamina.compile(program), torch.ones(4)
    with torch.no_grad():
        assert torch.allclose(compiled(x), program(x))
    state = state_of(compiled)
    assert state is not None
    tried = []
    for site in state.sites:
        for entry in site.entries:
            match = entry.captured.match
            entry.captured.match = lambda *call, match=match: (
                tried.append(match(*call) is not None) or match(*call)
            )
    with torch.no_grad():
        assert torch.allclose(compiled(x), program(x))
    assert len(tried) >= len(layers) and all(tried)
