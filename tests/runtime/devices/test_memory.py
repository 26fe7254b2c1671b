"""The pool of output memory: reused only when nobody can see it any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from lamina.runtime.devices.cpu import memory

SHAPE, STRIDES = (512, 512), (512, 1)


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    memory.POOL.clear()
    yield
    memory.POOL.clear()


def make() -> torch.Tensor:
    return memory.empty_strided(SHAPE, STRIDES, torch.float32)


def test_memory_is_reused_when_the_output_is_gone() -> None:
    first = make()
    address = first.data_ptr()
    assert make().data_ptr() != address
    del first
    assert make().data_ptr() == address


@pytest.mark.parametrize("keep", ["view", "detached", "storage", "numpy", "set"])
def test_memory_is_kept_while_anything_shows_it(keep: str) -> None:
    output = make()
    address = output.data_ptr()
    holders: dict[str, Callable[[torch.Tensor], object]] = {
        "view": lambda tensor: tensor.view(-1)[7:],
        "detached": lambda tensor: tensor.detach(),
        "storage": lambda tensor: tensor.untyped_storage(),
        "numpy": lambda tensor: tensor.numpy(),
        "set": lambda tensor: torch.empty(0).set_(tensor),
    }
    holder = holders[keep](output)
    del output
    assert make().data_ptr() != address
    del holder
    assert address in {make().data_ptr() for _ in range(2)} | {
        tensor.data_ptr() for tensor in [make(), make()]
    }


def test_a_resized_output_is_not_reused() -> None:
    output = make()
    output.resize_(2048, 2048)
    del output
    fresh = make()
    assert fresh.untyped_storage().nbytes() == 512 * 512 * 4


def test_a_shared_output_is_not_reused() -> None:
    output = make()
    output.share_memory_()
    address = output.data_ptr()
    del output
    assert make().data_ptr() != address


def test_storages_have_the_size_asked_for() -> None:
    """`torch.save` writes whole storages."""
    assert make().untyped_storage().nbytes() == 512 * 512 * 4


def test_layouts_and_small_outputs() -> None:
    tensor = memory.empty_strided((300, 700), (1, 300), torch.float64)
    assert tensor.shape == (300, 700)
    assert tensor.stride() == (1, 300)
    assert tensor.dtype == torch.float64
    small = memory.empty_strided((3, 0, 2), (0, 2, 1), torch.int64)
    assert small.numel() == 0
    assert memory.empty_strided((), (), torch.bool).shape == ()
    assert memory.POOL.idle_bytes() == 0


def test_outputs_are_like_any_tensor() -> None:
    output = make().fill_(1)
    output.requires_grad_()
    (output * 2).sum().backward()
    assert output.grad is not None
    assert output.is_contiguous()
    assert output.data_ptr() % 64 == 0


def test_idle_memory_is_bounded() -> None:
    pool = memory.Pool(limit=3 << 20)
    for step in range(40):
        del_me = pool.storage((1 << 20) + 64 * step)
        assert del_me.nbytes() == (1 << 20) + 64 * step
        del del_me
    assert pool.idle_bytes() <= (4 << 20) + 64 * 40


def test_threads_never_get_the_same_memory() -> None:
    def work(number: int) -> bool:
        for _ in range(50):
            output = make().fill_(number)
            if not bool((output == number).all()):
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_without_use_counts_plain_memory_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_storage_Use_Count")
    first = make()
    address = first.data_ptr()
    second = make()
    assert second.data_ptr() != address
    assert memory.POOL.idle_bytes() == 0


def test_arena() -> None:
    arena = memory.arena(5 << 20)
    assert arena.numel() == 5 << 20
    assert arena.dtype == torch.uint8
    assert arena.data_ptr() % 64 == 0
