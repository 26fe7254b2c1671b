"""`torch._foreach_add` and its like: the operation once for each tensor, as eager does it on a CPU.

torch._foreach_lerp_([a, b], [c, d], 0.1)  =>  a.lerp_(c, 0.1); b.lerp_(d, 0.1)
"""

from __future__ import annotations

from typing import Any

import torch

from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.tensor import TensorValue

PREFIX = "_foreach_"
METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""Methods under another name; these take numbers as well as tensors."""
FUNCTIONS: dict[str, Any] = {"norm": torch.linalg.vector_norm}
FACTORS = {"addcmul": "value", "addcdiv": "value"}
"""Keywords under which the last of four operands is given: a number for each tensor."""
KEYWORDS = frozenset({"alpha", "value", "ord", "dtype", "memory_format", "non_blocking"})


def record_foreach(world: Any, name: str, arguments: Arguments, keywords: Keywords) -> Value:
    """The call of `torch.<name>`, or MISSING where torch is to make it as one."""
    base = name.removeprefix(PREFIX)
    is_in_place = base.endswith("_")
    base = base.removesuffix("_")
    count = count_tensors(arguments)
    if not count or not hasattr(torch.Tensor, METHODS.get(base, base)) or keywords.keys() - KEYWORDS:
        return MISSING
    columns = [spread(each, count, base in FACTORS and place == 3) for place, each in enumerate(arguments)]
    if None in columns:
        return MISSING
    rows = zip(*columns, strict=True)
    results = [record_one(world, base, is_in_place, list(row), dict(keywords)) for row in rows]
    return results if is_in_place else tuple(results)


def record_one(world: Any, base: str, is_in_place: bool, row: list[Value], keywords: Keywords) -> Value:
    """The operation on one tensor."""
    if base in FUNCTIONS:
        return world.builder.call(FUNCTIONS[base], tuple(row), keywords)
    if base in FACTORS and len(row) == 4:
        keywords[FACTORS[base]] = row.pop()
    if type(row[0]) is not TensorValue:
        return world.builder.call(torch.pow, tuple(row), keywords)
    method = METHODS.get(base, base) + ("_" if is_in_place else "")
    return world.builder.call_method(method, tuple(row), keywords)


def count_tensors(arguments: Arguments) -> int:
    """How many tensors there are in the first list of the arguments; 0 where anything else is in it."""
    first = next((each for each in arguments if isinstance(each, (list, tuple))), ())
    return len(first) if all(type(each) is TensorValue for each in first) else 0


def spread(value: Value, count: int, is_factor: bool) -> list[Value] | None:
    """One argument for each tensor; None where there are not as many. A tensor of factors has one each."""
    if isinstance(value, (list, tuple)):
        return list(value) if len(value) == count else None
    if is_factor and type(value) is TensorValue:
        return [value[place] for place in range(count)] if value.fake.shape == (count,) else None
    return [value] * count


def model_group(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """Lists of tensors by the device and type of those in the first list, in torch's order."""
    lists, with_indices = bind_group(*arguments, **keywords)
    likes = [torch.empty(0, dtype=each.fake.dtype, device=each.fake.device) for each in lists[0]]
    return {
        key: ([[each[place] for place in places] if each else [] for each in lists], places * with_indices)
        for key, (_, places) in GROUP([likes], True).items()
    }


def bind_group(tensorlistlist: Value, with_indices: bool = False) -> tuple[Value, bool]:
    return tensorlistlist, with_indices


GROUP: Any = torch._C._group_tensors_by_device_and_dtype
FOREACH_MODELS: dict[Any, Model] = {GROUP: model_group}
