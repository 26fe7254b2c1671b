"""What a graph with sizes that depend on values checks while it runs.

Nodes without a result:

    require_sizes("u0 == u1", ("u0", "u1"), size, size_1)     what the shape rules took for granted
    require_layout(x, (0, 1))                                 `x` lies in memory as on fakes
    require("RuntimeError", condition, message)               the program's own torch._check
    require_outcome(number, True)                             the program raises where it is false

And of each result (`Expected`) that it has the rank and the sizes that its fake has: torch's shape rules take
a size that they do not know to be neither 0 nor 1.
"""

from __future__ import annotations

import builtins
import functools
import math
from types import CodeType
from typing import Any

import torch

from lamina.capture.fake import print_expression, raw_expression

NAMES = {"math": math, "torch": torch}


def require(error: str, holds: bool, message: str) -> None:
    """`torch._check` with the error class of that name."""
    if not holds:
        raise getattr(builtins, error)(message)


def require_outcome(condition: Any, outcome: bool) -> None:
    """A condition by which the program branches is `outcome`: the other branch raises."""
    if bool(condition) is not outcome:
        raise RuntimeError(f"a condition of the program is not {outcome}")


def require_layout(tensor: torch.Tensor, order: tuple[int, ...]) -> None:
    """The dimensions, listed from outermost to innermost, fill memory without holes."""
    if not tensor.permute(order).is_contiguous():
        raise RuntimeError(f"a result of sizes {tuple(tensor.shape)} has the strides {tensor.stride()}")


def require_sizes(condition: str, names: tuple[str, ...], *values: Any) -> None:
    """A Python expression over sizes and numbers, which have these names and values, is true."""
    if not eval(read_condition(condition), NAMES, dict(zip(names, values, strict=True))):
        raise RuntimeError(f"Runtime assertion failed for expression {condition}")


@functools.lru_cache(maxsize=1024)
def read_condition(text: str) -> CodeType:
    return compile(text, "<lamina check>", "eval")


class Expected:
    """The sizes that a capture took a result to have: ints, symbols by name, expressions over symbols."""

    __slots__ = ("sizes",)

    def __init__(self, example: torch.Tensor) -> None:
        self.sizes = tuple(size if isinstance(size, int) else read_size(size) for size in example.shape)

    def check(self, tensor: torch.Tensor, known: dict[str, int]) -> None:
        """Compare; symbols met for the first time are added to `known`. Raises RuntimeError."""
        shape = tensor.shape
        if len(shape) == len(self.sizes) and all(
            is_as_expected(size, actual, known) for size, actual in zip(self.sizes, shape, strict=True)
        ):
            return
        raise RuntimeError(f"a result of the sizes {tuple(shape)} is not what the capture took it to be")


def read_size(size: Any) -> str | CodeType | None:
    """The name of a symbol, or the code of an expression; None for one without a text."""
    expression = raw_expression(size)
    if expression.is_symbol:
        return str(expression)
    text = print_expression(expression)
    return None if text is None else read_condition(text)


def is_as_expected(size: int | str | CodeType | None, actual: int, known: dict[str, int]) -> bool:
    if isinstance(size, int):
        return size == actual
    if isinstance(size, str):
        return known.setdefault(size, actual) == actual
    try:
        return size is not None and bool(eval(size, NAMES, known) == actual)
    except NameError:
        # A symbol that no tensor has had alone says nothing.
        return True
