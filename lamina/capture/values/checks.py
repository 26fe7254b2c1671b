"""Models of `torch._check` and its like on conditions that only the running graph knows."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import torch

from lamina.capture.machine.signals import Value
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.sizes import combine, is_unknown

TORCH: Any = torch
ERRORS = {
    "_check": "RuntimeError",
    "_check_index": "IndexError",
    "_check_value": "ValueError",
    "_check_type": "TypeError",
    "_check_not_implemented": "NotImplementedError",
}
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


CHECK_MODELS: dict[Any, Model] = {
    torch._check_is_size: model_check_is_size,
    **{getattr(TORCH, name): model_check(getattr(TORCH, name), error) for name, error in ERRORS.items()},
}
