"""Numbers that vary from call to call and only scale or shift tensors: passed as tensors of no dimension.

    def f(x, rate): return x - rate * 0.5        one program for all rates, not one each

A number and a tensor of no dimension mean the same to an operation whose other operand has dimensions and a
type that the number does not raise; where that does not hold of each use, the number stays one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

SAME_FOR_BOTH = frozenset(
    {
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.iadd,
        operator.isub,
        operator.imul,
        operator.itruediv,
    }
)
EXACT_FLOATS = (torch.float32, torch.float64)
"""For narrower ones eager keeps a number in f32, but rounds a tensor to their type first."""
WHOLE = (torch.int64, torch.int32)


def scalar_inputs(graph: fx.Graph, varying: Sequence[tuple[int, int | None]]) -> list[int]:
    """Which of the numbers among the inputs can be tensors of no dimension."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    numbers = [index for index, dimension in varying if dimension is None]
    return [index for index in numbers if is_only_operand(placeholders[index])]


def is_only_operand(number: fx.Node) -> bool:
    """Whether each use is an operation with a tensor that has dimensions and keeps its type."""
    example = number.meta["example_value"]
    allowed = EXACT_FLOATS if type(example) is float else EXACT_FLOATS + WHOLE
    return all(
        user.op == "call_function"
        and user.target in SAME_FOR_BOTH
        and len(user.args) == 2
        and all(each is number or is_tensor(each, allowed) for each in user.args)
        and user.args[0] is not user.args[1]
        for user in number.users
    )


def is_tensor(value: Any, allowed: tuple[torch.dtype, ...]) -> bool:
    if not isinstance(value, fx.Node):
        return False
    example = value.meta.get("example_value")
    return isinstance(example, torch.Tensor) and example.dim() > 0 and example.dtype in allowed


def as_scalars(inputs: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """The inputs with the numbers at `positions` as tensors."""
    made = list(inputs)
    for position in positions:
        number = made[position]
        dtype = torch.float64 if type(number) is float else torch.int64
        made[position] = torch.tensor(number, dtype=dtype)
    return made
