"""What torch announces to the classes that intercept its functions, and in which order it asks them.

    torch.add(a, b)     a: Metric, b: Scaled(Metric)     Scaled is asked first, told (Scaled, Metric)

Found out by making the call once on probes, whose classes derive from one another as the real ones do: torch
itself applies its rules for the order and Python its own for operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from lamina.capture.values.attributes import find_in_type

INTERCEPTOR = "__torch_function__"
OFF: Any = torch._C.DisableTorchFunctionSubclass
DISABLED: Any = torch._C._disabled_torch_function_impl
"""The interceptor of classes that do not intercept, such as `torch.nn.Parameter`."""


class Announced(Exception):  # noqa: N818  carries an answer
    """What a probe was asked: the function, the classes, arguments."""


class Probe(torch.Tensor):
    """Stands for a tensor of a subclass."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Announced(func, types, args, kwargs or {})


class ProbeObject:
    """Stands for an object that is no tensor and intercepts torch functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Announced(func, types, args, kwargs or {})


def make_probe(kind: type) -> Any:
    """An object of a class that `probe_classes` made."""
    if not issubclass(kind, torch.Tensor):
        return kind()
    with OFF():
        return torch.empty(0).as_subclass(kind)


def probe_classes(kinds: Iterable[type]) -> dict[type, type]:
    """For each of some classes one that derives from those of the others as it does itself."""
    distinct = sorted(dict.fromkeys(kinds), key=lambda kind: len(kind.__mro__))
    root: dict[type, type] = {
        kind: Probe if issubclass(kind, torch.Tensor) else ProbeObject for kind in distinct
    }
    if len(distinct) == 1:
        return root
    made: dict[type, type] = {}
    for kind in distinct:
        above = [each for each in kind.__mro__[1:] if each in made]
        nearest = [
            each for each in above if not any(issubclass(other, each) for other in above if other is not each)
        ]
        bases = [made[each] for each in nearest]
        if not any(issubclass(each, root[kind]) for each in bases):
            bases.append(root[kind])
        made[kind] = type(kind.__name__, tuple(bases), {})
    return made


def does_intercept(kind: type) -> bool:
    """Whether torch asks a class that it meets among relevant arguments."""
    return getattr(kind, INTERCEPTOR, DISABLED) is not DISABLED


def is_silent(kind: type) -> bool:
    """Whether a class of tensors says that it does not intercept."""
    return find_in_type(kind, INTERCEPTOR) is DISABLED


def order_classes(kinds: Sequence[type]) -> list[type]:
    """The classes in the order in which torch asks them: as they come, but one before what it derives from.

    The rule is that of `torch.overrides._get_overloaded_args`.
    """
    found: list[type] = []
    for kind in kinds:
        if kind not in found and does_intercept(kind):
            places = [place for place, each in enumerate(found) if issubclass(kind, each)]
            found.insert(places[0] if places else len(found), kind)
    return found
