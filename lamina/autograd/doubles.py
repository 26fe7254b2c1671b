"""Floats that vary where torch takes a C double: traced as numbers of their own, then put back.

F.layer_norm(x, (8,), eps=k)     of the node aten.layer_norm the argument eps is k again
F.dropout(x, k)                  of aten.bernoulli.p the argument p is 1.0 - k
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from lamina.autograd.numbers import NumberInput
from lamina.autograd.symbols import OpenSizes
from lamina.eager.doubles import OF_COMPLEX, Double, doubles_of
from lamina.ir.sizes import UndecidedSize

CONSTANTS = frozenset(
    {0.0, 0.1, 0.5, 1.0, 2.0, 1e-6, 1e-8, 1e-12, 9.999999960041972e-13, 2 * math.pi, math.inf}
)
"""What the functions themselves give to operations."""


def find_doubles(name: str, args: Any, kwargs: Any, sizes: OpenSizes) -> dict[Double, NumberInput]:
    """The numbers that vary where a function takes such floats, if no other of its arguments varies."""
    found: dict[Double, NumberInput] = {}
    symbols = {id(each) for each in (*args, *kwargs.values()) if isinstance(each, torch.SymFloat)}
    tensors = (each for each in args if isinstance(each, torch.Tensor))
    doubles = OF_COMPLEX.get(name, ()) if any(map(torch.is_complex, tensors)) else doubles_of(name)
    for double in doubles:
        value = double.find(args, kwargs)
        number = sizes.find_number(value) if isinstance(value, torch.SymFloat) else None
        if number is not None:
            found[double] = number
            symbols.discard(id(value))
    return {} if symbols else found


def replace_doubles(doubles: Mapping[Double, NumberInput], arguments: Any) -> Any:
    """The call's arguments with numbers in place of those that vary, each unlike any other."""
    stand_ins = {id(each.symbol): stand_in(each) for each in doubles.values()}
    return fx.node.map_aggregate(arguments, lambda value: stand_ins.get(id(value), value))


def stand_in(number: NumberInput) -> float:
    """A number near the one at hand that is told from constants, and from others, wherever it arrives."""
    factor = 1 - (0x16A09E667F + (number.position << 14)) * 2.0**-64
    return number.hint * factor if number.hint else factor


def put_back(
    graph: fx.Graph, last: fx.Node, name: str, args: Any, doubles: Mapping[Double, NumberInput]
) -> None:
    """Let the numbers vary in what was recorded behind `last`; args: what the function was called with.

    Raises UndecidedSize where one does not arrive as it is to, or a float elsewhere may come from it.
    """
    expected = [
        {
            (argument, formula(stand_in(number))): formula(number.symbol)
            for argument, formula in double.arrivals
        }
        for double, number in doubles.items()
    ]
    numbers = {place: number for places in expected for place, number in places.items()}
    known = CONSTANTS.union(value for value in args if type(value) is float)
    arrived = set()
    for node in itertools.takewhile(lambda node: node is not last, reversed(graph.nodes)):
        for place in floats_of(node):
            if place in numbers:
                set_argument(node, place[0], numbers[place])
                arrived.add(place)
            elif place[1] not in known:
                raise UndecidedSize(f"{name} needs to know a number that varies")
    if any(arrived.isdisjoint(places) for places in expected):
        raise UndecidedSize(f"{name} needs to know a number that varies")


def floats_of(node: fx.Node) -> list[tuple[str, float]]:
    """The floats among a node's arguments, by the names in the operation's schema."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    names = (each.name for each in node.target._schema.arguments)
    given = (*zip(names, node.args, strict=False), *node.kwargs.items())
    return [(name, value) for name, value in given if type(value) is float]


def set_argument(node: fx.Node, name: str, value: Any) -> None:
    """Give a node another value of an argument."""
    if name in node.kwargs:
        node.kwargs = {**node.kwargs, name: value}
        return
    assert isinstance(node.target, torch._ops.OpOverload)
    names = [each.name for each in node.target._schema.arguments]
    node.args = tuple(value if each == name else old for each, old in zip(names, node.args, strict=False))
