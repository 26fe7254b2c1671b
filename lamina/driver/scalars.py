"""Numbers that vary from call to call and only scale or shift tensors: passed as tensors of no dimension.

    def f(x, rate): return x - (1 - rate) * 0.5        one program for all rates, not one each

A number and a tensor of no dimension mean the same to an operation whose other operand has dimensions and a
type that the number does not raise, and arithmetic on floats is the same on tensors of float64; where that
does not hold of each use, the number stays one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx

SAME_FOR_BOTH = frozenset(
    {"add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv", "div"}
    | {"add_", "sub_", "mul_", "div_"}
)
"""Operators, functions of torch and methods, by name."""
ARITHMETIC = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.pos})
"""What floats do without an error, as tensors do."""
EXACT_INTEGERS = 2**53
EXACT_FLOATS = (torch.float32, torch.float64)
"""For narrower ones eager keeps a number in f32, but rounds a tensor to their type first."""
WHOLE = (torch.int64, torch.int32)


def scalar_inputs(graph: fx.Graph, varying: Sequence[tuple[int, int | None]]) -> list[int]:
    """Which of the numbers among the inputs can be tensors of no dimension."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    chosen = {placeholders[index]: index for index, dimension in varying if dimension is None}
    while True:
        origins = trace_numbers(graph, chosen)
        refused = {
            number
            for node, numbers in origins.items()
            if not all(user in origins or is_operand_of(node, user) for user in node.users)
            for number in numbers
        }
        if not refused:
            return list(chosen.values())
        chosen = {number: index for number, index in chosen.items() if number not in refused}


def trace_numbers(graph: fx.Graph, numbers: Iterable[fx.Node]) -> dict[fx.Node, frozenset[fx.Node]]:
    """The numbers, and floats computed of them and constants, each with the numbers it comes from."""
    origins = {number: frozenset([number]) for number in numbers}
    floats = {number for number in origins if type(number.meta["example_value"]) is float}
    for node in graph.nodes:
        operands = [each for each in node.args if isinstance(each, fx.Node)]
        if (
            node.op == "call_function"
            and node.target in ARITHMETIC
            and not floats.isdisjoint(operands)
            and all(each in origins if isinstance(each, fx.Node) else is_exact(each) for each in node.args)
        ):
            floats.add(node)
            origins[node] = frozenset().union(*(origins[each] for each in operands))
    return origins


def is_exact(constant: Any) -> bool:
    """Whether a constant is the same number as an operand of a tensor."""
    return type(constant) is float or (type(constant) is int and abs(constant) < EXACT_INTEGERS)


def is_operand_of(number: fx.Node, user: fx.Node) -> bool:
    """Whether `user` is an operation of the number with a tensor that has dimensions and keeps its type."""
    is_integer = type(number.meta.get("example_value")) is int
    allowed = EXACT_FLOATS + WHOLE if is_integer else EXACT_FLOATS
    return (
        user.op in ("call_function", "call_method")
        and getattr(user.target, "__name__", user.target) in SAME_FOR_BOTH
        and len(user.args) == 2
        and not user.kwargs
        and all(each is number or is_tensor(each, allowed) for each in user.args)
        and user.args[0] is not user.args[1]
    )


def is_tensor(value: Any, allowed: tuple[torch.dtype, ...]) -> bool:
    if not isinstance(value, fx.Node):
        return False
    example = value.meta.get("example_value")
    return isinstance(example, torch.Tensor) and example.dim() > 0 and example.dtype in allowed


def taking_scalars(
    run: Callable[[Sequence[Any]], list[Any]], positions: Sequence[int]
) -> Callable[[Sequence[Any]], list[Any]]:
    """`run` for inputs of which those at `positions` are numbers, which it takes as tensors."""
    if not positions:
        return run
    return lambda inputs: run(as_scalars(inputs, positions))


def as_scalars(inputs: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """The inputs with the numbers at `positions` as tensors."""
    made = list(inputs)
    for position in positions:
        number = made[position]
        dtype = torch.float64 if type(number) is float else torch.int64
        made[position] = torch.tensor(number, dtype=dtype)
    return made
