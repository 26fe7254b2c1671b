"""Prepared values are made once a version of the weights, also where they depend on no weight at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import lamina
from lamina.driver.prepared import Prepared
from lamina.runtime.devices.cpu import resident
from lamina.runtime.devices.cpu.fingerprint import Fingerprint
from lamina.runtime.devices.cpu.identities import make_check


@pytest.mark.parametrize("arguments", [(), (1,)])
def test_prepared_once_a_version(arguments: tuple[int, ...]) -> None:
    calls: list[int] = []

    def prepare(weights: Sequence[Any]) -> list[Any]:
        calls.append(len(weights))
        return [sum(weights, torch.ones(3)) * 2]

    run = Prepared(lambda inputs: [inputs[0] + inputs[2]], prepare, arguments)
    x, weight = torch.randn(3), torch.randn(3)

    def expected() -> torch.Tensor:
        return x + (torch.ones(3) + (weight if arguments else 0)) * 2

    for _ in range(3):
        assert torch.equal(run([x, weight])[0], expected())
    assert calls == [len(arguments)]
    weight.mul_(3)
    assert torch.equal(run([x, weight])[0], expected())
    assert len(calls) == 1 + len(arguments)


@pytest.mark.parametrize(("folds", "users"), [(False, {"guards"}), (True, {"guards", "fingerprint"})])
def test_the_compilers_pages_go_after_all_is_made(
    folds: bool, users: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def used(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            made.append(name)
            resident.note_use()
            return make(*arguments)

        return call

    monkeypatch.setattr("lamina.driver.site.make_check", used("guards", make_check))
    monkeypatch.setattr("lamina.driver.prepared.Fingerprint", used("fingerprint", Fingerprint))
    net = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(8))).eval()
    with torch.no_grad():
        lamina.compile(net, options={"fold_weights": folds})(torch.randn(8, 128))
    assert users == set(made)
    assert not resident._was_used
