"""Arithmetic on numbers that vary leaves the graph: Python does it before each call, exactly as eager does.

    def f(x, k): return x * (1 - 0.9 ** k) / k        (x, k) => x * n0 / n1        n0, n1 = 1 - 0.9 ** k, k

What is left of it in the graph are floats among the inputs, which `scalars` can pass as tensors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from lamina.driver.scalars import EXACT_FLOATS, is_tensor

Places = Sequence[tuple[int, int | None]]
ARITHMETIC = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
        operator.pow, operator.neg, operator.pos, abs, pow, float, math.sqrt, math.exp, math.log, math.log2,
        math.log10, math.sin, math.cos, math.tanh,
    }
)  # fmt: skip
WITH_FACTOR: dict[str, Any] = {"addcmul": operator.mul, "addcdiv": operator.truediv}
"""x + value * y (operator) z"""


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A graph without arithmetic on numbers. compute: its inputs from those of the original graph."""

    graph_module: fx.GraphModule
    varying: Places
    kinds: list[str] | None
    compute: Callable[[Sequence[Any]], list[Any]]


def hoist_numbers(
    graph_module: fx.GraphModule, varying: Places, kinds: Sequence[str] | None
) -> Hoisted | None:
    """None where the graph has no floats computed of numbers that vary (those with dimension None)."""
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    numbers = {placeholders[index] for index, dimension in varying if dimension is None}
    values = evaluate(graph_module.graph, numbers)
    hoisted = [
        node
        for node, value in values.items()
        if type(value) is float and node not in numbers and any(user not in values for user in node.users)
    ]
    if not hoisted and not any(type(values[number]) is float for number in numbers):
        return None
    graph, made = copy_graph(graph_module.graph, placeholders, hoisted, values)
    present = set(graph.nodes)
    kept = [index for index, node in enumerate(placeholders) if made[node] in present]
    place_of = {index: place for place, index in enumerate(kept)}
    return Hoisted(
        fx.GraphModule(graph_module, graph),
        [(place_of[index], dimension) for index, dimension in varying if index in place_of]
        + [(len(kept) + number, None) for number in range(len(hoisted))],
        None if kinds is None else [kinds[index] for index in kept] + ["input"] * len(hoisted),
        write_compute(placeholders, kept, hoisted, values),
    )


def evaluate(graph: fx.Graph, numbers: set[fx.Node]) -> dict[fx.Node, Any]:
    """The numbers, and what is computed of them and constants alone, with this capture's values."""
    values = {node: node.meta["example_value"] for node in graph.nodes if node in numbers}
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in ARITHMETIC or node.kwargs:
            continue
        if any(each in values for each in node.args) and all(
            each in values if isinstance(each, fx.Node) else type(each) in (int, float) for each in node.args
        ):
            values[node] = node.target(*(values.get(each, each) for each in node.args))
    return values


def copy_graph(
    graph: fx.Graph, placeholders: list[fx.Node], hoisted: list[fx.Node], values: dict[fx.Node, Any]
) -> tuple[fx.Graph, dict[fx.Node, fx.Node]]:
    """The graph with an input for each hoisted number, and its nodes by the original ones."""
    copied = fx.Graph()
    made = {node: copied.node_copy(node) for node in placeholders}
    for node in hoisted:
        made[node] = copied.placeholder(f"number_{node.name}")
        made[node].target = made[node].name
        made[node].meta["example_value"] = values[node]
    for node in graph.nodes:
        if node not in made:
            replaced = write_factor(copied, node, made, values) if node.op != "output" else None
            made[node] = replaced or copied.node_copy(node, made.__getitem__)
    for node in reversed(list(copied.nodes)):
        is_number = node.op == "placeholder" and type(node.meta["example_value"]) in (int, float)
        if not node.users and (is_number or (node.op == "call_function" and node.target in ARITHMETIC)):
            copied.erase_node(node)
    return copied, made


def write_factor(
    graph: fx.Graph, node: fx.Node, made: dict[fx.Node, fx.Node], values: dict[fx.Node, Any]
) -> fx.Node | None:
    """`x.addcdiv_(y, z, value=number)` as products, in which a number can be a tensor; None for others."""
    name = str(getattr(node.target, "__name__", node.target))
    combine = WITH_FACTOR.get(name.removesuffix("_"))
    factor = node.kwargs.get("value")
    if combine is None or list(node.kwargs) != ["value"] or factor not in values or len(node.args) != 3:
        return None
    dtypes = {each.meta["example_value"].dtype for each in node.args if is_tensor(each, EXACT_FLOATS)}  # type: ignore[union-attr]
    if len(dtypes) != 1 or not all(is_tensor(each, EXACT_FLOATS) for each in node.args):
        return None
    first, second, third = (made[each] for each in node.args)  # type: ignore[index]
    product = graph.call_function(operator.mul, (second, made[factor]))  # type: ignore[index]
    term = graph.call_function(combine, (product, third))
    add = operator.iadd if name.endswith("_") else operator.add
    total = graph.call_function(add, (first, term))
    for each in (product, term):
        each.meta["location"] = node.meta.get("location")
    total.meta.update(node.meta)
    return total


def write_compute(
    placeholders: list[fx.Node], kept: list[int], hoisted: list[fx.Node], values: dict[fx.Node, Any]
) -> Callable[[Sequence[Any]], list[Any]]:
    """The function from the inputs of the original graph to those of the hoisted one."""
    names: dict[fx.Node, str] = {node: f"inputs[{index}]" for index, node in enumerate(placeholders)}
    namespace: dict[str, Any] = {}
    lines: list[str] = []
    for node in values:
        if node in names:
            continue
        operands = []
        for each in node.args:
            if isinstance(each, fx.Node):
                operands.append(names[each])
            else:
                operands.append(f"c{len(namespace)}")
                namespace[operands[-1]] = each
        native = f"c{len(namespace)}"
        namespace[native] = node.target
        names[node] = f"v{len(lines)}"
        lines.append(f"    {names[node]} = {native}({', '.join(operands)})")
    given = ", ".join([*(f"inputs[{index}]" for index in kept), *(names[node] for node in hoisted)])
    text = "\n".join(["def compute(inputs):", *lines, f"    return [{given}]", ""])
    exec(compile(text, "<lamina numbers>", "exec"), namespace)
    compute: Callable[[Sequence[Any]], list[Any]] = namespace["compute"]
    return compute
