"""Which sizes and numbers a capture leaves open: those seen to vary, and those that the user marked.

dynamic=None   a dimension, or an int or float, that had another value in an earlier capture
dynamic=True   all dimensions of arguments, all int and float arguments
dynamic=False  none, unless marked
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch

from lamina.capture.layouts import SMALLEST_DYNAMIC, bounds_of_int
from lamina.capture.sources import Source
from lamina.errors import UserError

Bounds = tuple[int, int | None]
MOST_CLOSED = 4
"""Containers of one place that had to be brought in with their items before all others are."""
MARK = "_lamina_dynamic"
"""The attribute under which `mark_dynamic` notes dimension -> bounds on a tensor."""


@dataclass(slots=True)
class SizeHistory:
    """What one compiled callable was captured with, by path. A new capture asks it and adds to it."""

    dynamic: bool | None = None
    shapes: dict[Any, tuple[int, ...]] = field(default_factory=dict)
    varying: dict[Any, set[int]] = field(default_factory=dict)
    """Dimensions seen with two sizes."""
    numbers: dict[Any, int | float] = field(default_factory=dict)
    varying_numbers: set[Any] = field(default_factory=set)
    tuples: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    varying_tuples: set[Any] = field(default_factory=set)
    """Paths to tuples of constants at which there was another one in an earlier capture."""
    walked: dict[Any, int] = field(default_factory=dict)
    """How many captures walked the iterator at a path."""
    lengths: dict[Any, int] = field(default_factory=dict)
    varying_containers: set[Any] = field(default_factory=set)
    closed_containers: set[Any] = field(default_factory=set)
    """Containers whose items the program needs, however many they are."""

    @property
    def has_varied(self) -> bool:
        """Whether a capture may leave something open."""
        return self.dynamic is True or bool(self.varying_numbers) or any(self.varying.values())

    def dimensions(self, tensor: torch.Tensor, source: Source) -> dict[int, Bounds]:
        """The dimensions of `tensor` to leave open, with their bounds."""
        marked = read_marks(tensor)
        open_dimensions = set(marked) | self._seen_to_vary(tensor, source)
        if not open_dimensions or not can_be_dynamic(tensor):
            return {}
        found = {}
        for dimension in sorted(open_dimensions):
            size = tensor.shape[dimension]
            if size < SMALLEST_DYNAMIC or dimension in read_static_marks(tensor):
                continue
            low, high = marked.get(dimension, (SMALLEST_DYNAMIC, None))
            if low == high == size:
                continue
            is_within = low <= size and (high is None or size <= high)
            found[dimension] = (max(low, SMALLEST_DYNAMIC), high) if is_within else (SMALLEST_DYNAMIC, None)
        return found

    def _seen_to_vary(self, tensor: torch.Tensor, source: Source) -> set[int]:
        if self.dynamic is False or isinstance(tensor, torch.nn.Parameter):
            return set()
        if self.dynamic and not source.is_fixed:
            return set(range(tensor.dim()))
        key, shape = source.key, tuple(tensor.shape)
        earlier = self.shapes.get(key, shape)
        self.shapes[key] = shape
        if len(earlier) != len(shape):
            return set()
        varying = self.varying.setdefault(key, set())
        varying.update(k for k, size in enumerate(shape) if size != earlier[k])
        return {k for k in varying if k < len(shape)}

    def bounds_of_number(self, value: int | float, source: Source) -> Bounds | None:
        """Whether the number at `source` is to be left open: the bounds of its kind of value, or None."""
        if self.dynamic is False:
            return None
        key = (source.key, type(value))
        if not self.dynamic or source.is_fixed:
            if value != self.numbers.setdefault(key, value):
                self.varying_numbers.add(key)
            if key not in self.varying_numbers:
                return None
        if isinstance(value, float):
            return (0, None) if math.isfinite(value) else None
        return bounds_of_int(value)

    def is_replaced(self, value: tuple[Any, ...], source: Source) -> bool:
        """Whether the tuple of constants at `source` is another one in some captures."""
        if self.tuples.setdefault(source.key, value) is not value:
            self.varying_tuples.add(source.key)
        return source.key in self.varying_tuples

    def is_open_container(self, length: int, source: Source) -> bool:
        """Whether a container of this length is to be brought in without its items."""
        key = source.key
        if length != self.lengths.setdefault(key, length):
            self.varying_containers.add(key)
        is_open = key in self.varying_containers and key not in self.closed_containers
        return is_open and len(self.closed_containers) < MOST_CLOSED


_current: ContextVar[SizeHistory | None] = ContextVar("history", default=None)


@contextlib.contextmanager
def remembering(history: SizeHistory | None) -> Iterator[None]:
    """Captures made inside ask `history` what to leave open; None: nothing."""
    token = _current.set(history)
    try:
        yield
    finally:
        _current.reset(token)


def current_history() -> SizeHistory | None:
    return _current.get()


def can_be_dynamic(tensor: torch.Tensor) -> bool:
    """Whether a fake made of sizes and strides alone stands for `tensor`."""
    if not tensor.is_leaf and tensor.requires_grad:
        return False
    return not (tensor.dtype.is_complex and (tensor.is_conj() or tensor.is_neg()))


def read_marks(tensor: torch.Tensor) -> dict[int, Bounds]:
    """Dimensions that `lamina.dynamic` or torch's `mark_dynamic` marked, with bounds."""
    own = getattr(tensor, "__dict__", None)
    if not own:
        return {}
    found: dict[int, Bounds] = {}
    for name in ("_dynamo_weak_dynamic_indices", "_dynamo_dynamic_indices"):
        found.update(dict.fromkeys(own.get(name, ()), (SMALLEST_DYNAMIC, None)))
    for each in own.get("_dynamo_dynamic_range", ()):
        if each.dim in found:
            found[each.dim] = (each.min or SMALLEST_DYNAMIC, each.max)
    found.update(own.get(MARK, {}))
    return {dimension: bounds for dimension, bounds in found.items() if dimension < tensor.dim()}


def read_static_marks(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions that torch's `mark_static` marked."""
    own = getattr(tensor, "__dict__", None)
    return frozenset(own.get("_dynamo_static_indices", ())) if own else frozenset()


def mark_dynamic(tensor: Any, dimension: int, low: int | None, high: int | None) -> Any:
    """Note on `tensor` that a dimension varies between two bounds (None: unbounded)."""
    if not isinstance(tensor, torch.Tensor):
        raise UserError(f"lamina.dynamic takes a tensor, got a {type(tensor).__qualname__}")
    if not -tensor.dim() <= dimension < tensor.dim():
        raise UserError(f"a tensor of {tensor.dim()} dimensions has no dimension {dimension}")
    if low is not None and high is not None and low > high:
        raise UserError(f"min={low} is above max={high}", hint="sizes from min to max, both included")
    marks: dict[int, Bounds] = dict(getattr(tensor, MARK, {}))
    marks[dimension % tensor.dim()] = (SMALLEST_DYNAMIC if low is None else low, high)
    setattr(tensor, MARK, marks)
    return tensor
