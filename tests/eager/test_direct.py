"""What fakes know without torch's rules is what eager gives; all else is left to torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from lamina.autograd.fake import below_autograd, to_fakes
from lamina.capture.noting_mode import NotingMode
from lamina.eager.direct import run_directly
from lamina.eager.logs import quiet_fakes

aten = torch.ops.aten
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def ones(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(size, dtype=dtype)


KNOWN: list[Call] = [
    (aten.t.default, (ones(2, 3),), {}),
    (aten.transpose.int, (ones(2, 3, 4), 0, -1), {}),
    (aten.permute.default, (ones(2, 3, 4), [2, 0, 1]), {}),
    (aten.view.default, (ones(2, 6), [3, -1]), {}),
    (aten.select.int, (ones(2, 3), -1, 2), {}),
    (aten.slice.Tensor, (ones(7, 3), 0, 1, 6, 2), {}),
    (aten.unsqueeze.default, (ones(2, 3).t(), 1), {}),
    (aten.expand.default, (ones(2, 1), [4, 2, 3]), {}),
    (aten.mm.default, (ones(2, 3), ones(4, 3).t()), {}),
    (aten.mm.default, (ones(0, 3), ones(3, 4)), {}),
    (aten.bmm.default, (ones(5, 2, 3).transpose(1, 2), ones(5, 2, 4)), {}),
    (aten.addmm.default, (ones(4), ones(2, 3), ones(3, 4)), {}),
    (aten.addmm.default, (ones(4, dtype=torch.float64),) + 2 * (ones(4, 4, dtype=torch.float64),), {}),
    (aten.zeros.default, ([2, 3],), {}),
    (aten.zeros.default, ([],), {"dtype": torch.int64, "device": torch.device("cpu"), "pin_memory": False}),
    (aten.ones.default, ([0, 3],), {"dtype": torch.bool}),
    (aten.empty.memory_format, ([2, 3],), {"layout": torch.strided}),
]
LEFT: list[Call] = [
    (aten.view.default, (ones(2, 3).t(), [6]), {}),
    (aten.select.int, (ones(2, 3), 1, 3), {}),
    (aten.transpose.int, (ones(2, 3), 0, 2), {}),
    (aten.t.default, (ones(2, 3, dtype=torch.complex64),), {}),
    (aten.mm.default, (ones(2, 3), ones(2, 3)), {}),
    (aten.mm.default, (ones(2, 3), ones(3, 4, dtype=torch.float64)), {}),
    (aten.addmm.default, (ones(1), ones(2, 3), ones(3, 4)), {}),
    (aten.addmm.default, (ones(4), ones(2, 3), ones(3, 4)), {"alpha": 2}),
    (aten.addmm.default, (ones(4), ones(2, 3), ones(4, 3)), {}),
    (aten.bmm.default, (ones(1, 2, 3), ones(5, 3, 4)), {}),
    (aten.zeros.default, ([-1],), {}),
    (aten.zeros.default, ([2],), {"layout": torch.sparse_coo}),
    (aten.empty.memory_format, ([1, 2, 3, 4],), {"memory_format": torch.channels_last}),
    (aten.add.Tensor, (ones(2), ones(2)), {}),
]


def to_fake_call(mode: NotingMode, call: Call) -> Call:
    func, *arguments = call
    leaves, spec = pytree.tree_flatten(arguments)
    args, kwargs = pytree.tree_unflatten(to_fakes(mode, leaves), spec)
    return func, args, kwargs


def describe(result: torch.Tensor) -> tuple[Any, ...]:
    place = result.storage_offset(), result.untyped_storage().nbytes()
    return tuple(result.shape), result.stride(), result.dtype, result.device, place


@pytest.mark.parametrize("call", KNOWN, ids=str)
def test_what_is_known_is_what_eager_gives(call: Call) -> None:
    func, args, kwargs = call
    mode = NotingMode()
    _, fake_args, fake_kwargs = to_fake_call(mode, call)
    expected = func(*args, **kwargs)
    with below_autograd():
        found = run_directly(mode, func, fake_args, fake_kwargs)
    assert found is not None
    assert describe(found) == describe(expected)
    shared = [
        each.untyped_storage()._cdata == found.untyped_storage()._cdata
        for each in fake_args
        if isinstance(each, torch.Tensor)
    ]
    assert any(shared) == func.is_view


@pytest.mark.parametrize("call", LEFT, ids=str)
def test_what_is_not_plain_is_left_to_torch(call: Call) -> None:
    mode = NotingMode()
    with quiet_fakes(), below_autograd():
        func, args, kwargs = to_fake_call(mode, call)
        assert run_directly(mode, func, args, kwargs) is None


def test_tensors_of_another_device_are_left_to_torch() -> None:
    mode = NotingMode()
    with mode:
        matrix = torch.empty(2, 2, device="meta")
    assert run_directly(mode, aten.mm.default, (matrix, matrix), {}) is None


def test_a_graph_of_views_and_products_asks_torch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from lamina.capture import trace

    def refuse(*arguments: Any) -> Any:
        raise AssertionError(f"torch was asked for {arguments[1]}")

    monkeypatch.setattr(torch._subclasses.FakeTensorMode, "_cached_dispatch_impl", refuse)
    layer = torch.nn.Linear(5, 7)

    def call(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = layer(x[1:].transpose(0, 1)) @ torch.zeros(7, 2)
        return result

    x = torch.randn(6, 3)
    captured = trace(call, (x,), {}, fullgraph=True)
    assert torch.equal(captured.call((x,), {}), call(x))
