"""Models of `torch._check` and its like on conditions that only the running graph knows."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import torch

from lamina.capture.machine.signals import Value
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.sizes import combine, is_unknown
from lamina.capture.values.tensor import TensorValue

TORCH: Any = torch
ERRORS = {
    "_check": "RuntimeError",
    "_check_index": "IndexError",
    "_check_value": "ValueError",
    "_check_type": "TypeError",
    "_check_not_implemented": "NotImplementedError",
}
ONE_HOT: Any = torch.nn.functional.one_hot
MESSAGE = "Expected cond to be True, but got False."


def model_check(check: Any, error: str) -> Model:
    """A check; a message of the program's own is made in eager, which the call goes back to when it fails."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        condition: Any = arguments[0] if arguments else keywords.get("cond")
        if not is_unknown(condition) or condition.kind is not bool:
            return world.call_python(check, arguments, keywords)
        return world.builder.reads.require(error, condition, MESSAGE)

    return model


def model_check_is_size(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    size = arguments[0] if arguments else keywords.get("i")
    if not is_unknown(size):
        return world.call_python(torch._check_is_size, arguments, keywords)
    warning = getattr(torch._check_is_size, "__deprecated__", None)
    if warning is not None:
        world.add_effect(warnings.warn, (warning, FutureWarning), {})
    conditions = [(operator.ge, 0)]
    if keywords.get("max") is not None:
        conditions.append((operator.le, keywords["max"]))
    for native, bound in conditions:
        world.builder.reads.require("RuntimeError", combine(native, size, bound), MESSAGE)
    return None


def model_one_hot(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`one_hot` that counts the classes: as many as the largest index says, none of them negative."""
    index: Any = arguments[0] if arguments else keywords.get("self", keywords.get("tensor"))
    count = arguments[1] if len(arguments) > 1 else keywords.get("num_classes", -1)
    builder, fake = world.builder, index.fake if type(index) is TensorValue else None
    is_counted = type(count) is int and count == -1
    if fake is None or not is_counted or fake.dtype is not torch.int64 or fake.numel() == 0:
        return world.call_native(ONE_HOT, arguments, keywords)
    largest, smallest = (builder.call_method(name, (index,), {}) for name in ("max", "min"))
    classes = combine(operator.add, builder.reads.read_number(largest, "one_hot"), 1)
    is_counting = combine(operator.ge, builder.reads.read_number(smallest, "one_hot"), 0)
    builder.reads.require("RuntimeError", is_counting, "Class values must be non-negative.")
    positions = builder.call(torch.arange, (classes,), {"device": fake.device})
    rows = builder.call_method("unsqueeze", (index, -1), {})
    return builder.call_method("long", (builder.call(operator.eq, (rows, positions), {}),), {})


CHECK_MODELS: dict[Any, Model] = {
    ONE_HOT: model_one_hot,
    torch._check_is_size: model_check_is_size,
    **{getattr(TORCH, name): model_check(getattr(TORCH, name), error) for name, error in ERRORS.items()},
}
