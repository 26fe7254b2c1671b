"""Memory of outputs and arenas, reused: a fresh large buffer costs more in page faults than most kernels.

A pool keeps the storages of large outputs. One is free again when nothing but the pool holds it, which the
storage's own reference counts say; so no output needs a finaliser, and views and detached aliases of an
output keep its memory theirs. Storages have exactly the size asked for (`torch.save` writes whole storages).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

SMALLEST = 256 * 1024
"""Outputs of fewer bytes come from torch's allocator, which is fast for them."""
HUGE_PAGE = 2 * 1024 * 1024
HUGE_PAGE_ADVICE = 14
"""MADV_HUGEPAGE of Linux."""


def use_count(storage: torch.UntypedStorage) -> int | None:
    """How many tensors and other C++ holders share a storage (ours is one); None if torch will not say."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return None if count is None else count(storage._cdata)


class Pool:
    """Storages by exact size in bytes. Thread safe.

    limit: most bytes kept that no tensor uses; beyond it, the longest unused ones are given back.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._kept: dict[int, list[_Kept]] = {}

    def storage(self, size: int) -> torch.UntypedStorage:
        """A storage of `size` bytes, its content undefined, that no tensor uses."""
        with self._lock:
            kept = self._kept.get(size)
            if kept is not None:
                for entry in kept:
                    if entry.is_free():
                        return entry.storage
            storage = torch.UntypedStorage(size)  # type: ignore[no-untyped-call]
            advise_huge_pages(storage.data_ptr(), size)
            if use_count(storage) == 1:
                self._kept.setdefault(size, []).append(_Kept(storage))
                self._shrink()
            return storage

    def _shrink(self) -> None:
        """Drop changed storages, and free ones from the oldest on while too many bytes are idle."""
        entries = [entry for kept in self._kept.values() for entry in kept]
        idle = [entry for entry in entries if entry.is_free()]
        excess = sum(entry.size for entry in idle) - self.limit
        dropped = {id(entry) for entry in entries if entry.has_changed()}
        for entry in idle:
            if excess <= 0:
                break
            excess -= entry.size
            dropped.add(id(entry))
        if not dropped:
            return
        for size, kept in list(self._kept.items()):
            self._kept[size] = [entry for entry in kept if id(entry) not in dropped]
            if not self._kept[size]:
                del self._kept[size]

    def idle_bytes(self) -> int:
        """Bytes kept that no tensor uses."""
        with self._lock:
            return sum(e.size for kept in self._kept.values() for e in kept if e.is_free())

    def clear(self) -> None:
        """Forget all storages; those in use stay alive with their tensors."""
        with self._lock:
            self._kept.clear()


class _Kept:
    """A storage of the pool with the address and the reference count it has when only the pool holds it."""

    __slots__ = ("address", "size", "storage")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage
        self.address = storage.data_ptr()
        self.size = storage.nbytes()

    def is_free(self) -> bool:
        # A tensor's storage is one Python object, so a user may hold ours: hence the second count.
        return use_count(self.storage) == 1 and self.references() == ALONE and not self.has_changed()

    def references(self) -> int:
        return sys.getrefcount(self.storage)

    def has_changed(self) -> bool:
        """Whether someone resized it or moved it to shared memory: it is no longer ours to reuse."""
        return self.storage.data_ptr() != self.address or self.storage.nbytes() != self.size


ALONE = _Kept(torch.UntypedStorage(1)).references()  # type: ignore[no-untyped-call]
"""What `references` says when only the pool holds the object: how many it counts itself depends on Python."""


def _limit() -> int:
    """A sixteenth of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16


POOL = Pool(_limit())


def empty_strided(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor with undefined content; large ones on reused memory. Sizes and strides in elements."""
    size = _span(tuple(shape), tuple(strides)) * dtype.itemsize
    if size < SMALLEST:
        return torch.empty_strided(shape, strides, dtype=dtype)
    storage: Any = POOL.storage(size)
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape, strides)


@lru_cache(maxsize=4096)
def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last of a strided tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def arena(size: int) -> torch.Tensor:
    """`size` bytes of scratch memory as a uint8 tensor, on huge pages where that is worth it."""
    tensor = torch.empty(size, dtype=torch.uint8)
    advise_huge_pages(tensor.data_ptr(), size)
    return tensor


def advise_huge_pages(address: int, size: int) -> None:
    """Ask the kernel to back the huge pages that lie within a fresh block; does nothing where it cannot."""
    first = -(-address // HUGE_PAGE) * HUGE_PAGE
    length = (address + size - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length < HUGE_PAGE or not sys.platform.startswith("linux"):
        return
    _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), HUGE_PAGE_ADVICE)


_LIBC = ctypes.CDLL(None)
