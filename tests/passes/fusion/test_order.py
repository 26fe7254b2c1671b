"""The order of groups stays one in which each comes after those it needs, and finds every path."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import lamina
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.fuse import fuse
from lamina.passes.fusion.groups import Group
from lamina.passes.fusion.order import Order
from tests.passes.fusion.form import TARGET
from tests.passes.fusion.random_programs import Maker


def leads_to(source: Group, target: Group) -> bool:
    """Whether a path of three and more groups leads there, all paths looked at."""
    seen, waiting = {source, target}, [group for group in source.successors() if group is not target]
    while waiting:
        group = waiting.pop()
        if group in seen:
            continue
        seen.add(group)
        following = list(group.successors())
        if target in following:
            return True
        waiting += following
    return False


@pytest.mark.parametrize("seed", range(40))
def test_every_path_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    find, contract = Order.find_between, Order.contract
    asked = []

    def checked_find(order: Order, first: Group, second: Group) -> Group | None:
        found = find(order, first, second)
        assert (found is not None) == (leads_to(first, second) or leads_to(second, first))
        asked.append(found)
        return found

    def checked_contract(order: Order, gone: Group, kept: Group) -> None:
        for group, place in order._places.items():
            assert all(place < order._places[other] for other in group.successors())
        contract(order, gone, kept)

    monkeypatch.setattr(Order, "find_between", checked_find)
    monkeypatch.setattr(Order, "contract", checked_contract)
    fuse(Maker(seed).module(), TARGET, Remarks())
    assert asked


def two_norms(x: Tensor) -> tuple[Tensor, Tensor]:
    """Their lines are interleaved: a group's last line may lie behind the first line of one it needs."""
    return F.rms_norm(x, (8,)), F.group_norm(x, 2)


def test_interleaved_groups() -> None:
    x = torch.randn(6, 8)
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(two_norms)(x), two_norms(x))
    assert lamina.counters()["kernels"] > 0
