"""Random calls of ATen operations: dtypes, numbers, sizes of 0 and 1, strides of every kind."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import torch

from tests.parity.layouts import choose_strides

aten = torch.ops.aten
SHAPES = [
    (2, 3),
    (2, 3),
    (1, 3),
    (0, 3),
    (3,),
    (),
    (2, 1),
    (1, 1),
    (2, 1, 3),
    (1, 0, 3),
    (2, 3, 1, 2),
    (1, 2, 3, 1),
]
DTYPES = [
    *[torch.float32] * 4,
    torch.float64,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.uint8,
    torch.int32,
]
FACTORY = {"dtype", "layout", "device", "pin_memory", "memory_format"}
VALUES = {
    "number": [False, True, 2, 0, 1, -1, 2.5],
    "int": [0, 1, 2],
    "float": [0.0, 1.0, 0.5],
    "bool": [False, True],
    "rounding_mode": ["floor", "trunc"],
    "approximate": ["none", "tanh"],
}


def overloads() -> Iterator[Any]:
    """All overloads of all ATen operations; `dir` has only those that somebody asked for."""
    names = filter(re.compile("aten::").match, torch._C._dispatch_get_all_op_names())
    for name in sorted({name.removeprefix("aten::").partition(".")[0] for name in names}):
        packet = getattr(aten, name, None)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            yield from (getattr(packet, overload) for overload in packet.overloads())


def make_tensor(shape: tuple[int, ...], dtype: torch.dtype, rng: random.Random) -> torch.Tensor:
    """Ones, in order, with strides of any kind, or expanded."""
    kind = rng.random()
    if kind < 0.1:
        return torch.ones((), dtype=dtype).expand(shape)
    if kind < 0.5:
        return torch.ones(shape, dtype=dtype)
    strides = choose_strides(shape, rng)
    reach = sum(max(0, size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.ones(1 + reach, dtype=dtype).as_strided(shape, strides)


def make_call(func: Any, rng: random.Random) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments for an overload, None where it takes what is not made here."""
    shape, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in func._schema.arguments:
        if argument.name in FACTORY:
            continue
        kind = str(argument.type)
        is_optional = kind.startswith("Optional")
        kind = kind.removeprefix("Optional[").removesuffix("]")
        if (is_optional or argument.has_default_value()) and rng.random() < 0.5:
            if not argument.kwarg_only:
                args.append(argument.default_value)
            continue
        if kind == "Tensor":
            own_shape = shape if rng.random() < 0.75 else rng.choice(SHAPES)
            value: Any = make_tensor(own_shape, dtype if rng.random() < 0.75 else rng.choice(DTYPES), rng)
        elif choices := VALUES.get(argument.name if kind == "str" else kind):
            value = rng.choice(choices)
        elif argument.kwarg_only and (is_optional or argument.has_default_value()):
            continue
        else:
            return None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs
