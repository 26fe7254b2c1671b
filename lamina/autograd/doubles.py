"""Floats that vary where torch takes a C double: traced as this call's value, then put back.

F.layer_norm(x, (8,), eps=k)     of the node aten.layer_norm the argument eps is k again
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import fx

from lamina.autograd.numbers import NumberInput
from lamina.autograd.symbols import OpenSizes
from lamina.eager.doubles import DOUBLES
from lamina.ir.sizes import UndecidedSize


def find_double(name: str, args: Any, kwargs: Any, sizes: OpenSizes) -> NumberInput | None:
    """The number that varies where a function takes such a float, if no other of its arguments varies."""
    value = DOUBLES[name].find(args, kwargs) if name in DOUBLES else None
    symbols = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.SymFloat)]
    return sizes.find_number(value) if len(symbols) == 1 and symbols[0] is value else None


def put_back(graph: fx.Graph, last: fx.Node, name: str, number: NumberInput) -> None:
    """Let the number vary in what was recorded behind `last`.

    Raises UndecidedSize where it is not the argument of one operation, or a float elsewhere may come from it.
    """
    recorded = list(itertools.takewhile(lambda node: node is not last, reversed(graph.nodes)))
    places = [node for node in recorded if set_argument(node, DOUBLES[name].argument, number)]
    others = (
        value for node in recorded if node not in places for value in (*node.args, *node.kwargs.values())
    )
    if len(places) != 1 or any(type(value) is float for value in others):
        raise UndecidedSize(f"{name} needs to know a number that varies")


def set_argument(node: fx.Node, argument: str, number: NumberInput) -> bool:
    """Whether a node has the number as this argument; it varies from now on."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    names = [each.name for each in node.target._schema.arguments]
    position = names.index(argument) if argument in names else len(node.args)
    if position >= len(node.args) or node.args[position] != number.hint:
        return False
    node.args = (*node.args[:position], number.symbol, *node.args[position + 1 :])
    return True
