"""The programs whose element traffic must be at most a figure, and how they become tensor-level IR.

They are those of test/inductor/test_perf.py of PyTorch, written anew; each with the elements (4 bytes) that its
kernels and library calls may read plus write.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from lamina.autograd.import_graph import import_graph
from lamina.autograd.trace import trace_inference
from lamina.ir.core import Operation
from lamina.passes.tensor import canonicalize, cse, dce

aten = torch.ops.aten
Make = Callable[[], tuple[Tensor, ...]]


class Program(NamedTuple):
    name: str
    function: Any
    inputs: Make
    elements: int


def floats(*shapes: tuple[int, ...]) -> Make:
    return lambda: tuple(torch.randn(shape) for shape in shapes)


def with_indices(shape: tuple[int, ...], count: int, limit: int) -> Make:
    return lambda: (torch.randn(shape), torch.randint(0, limit, (count,), dtype=torch.int32))


def half_in_the_middle() -> tuple[Tensor, ...]:
    return torch.randn(10, 10), torch.randn(10, 10, dtype=torch.float16), torch.randn(10, 10)


def norm_chain(a: Tensor) -> Tensor:
    for _ in range(3):
        a = a * a.sum(dim=1, keepdim=True)
    return a


def choice_1(a: Tensor) -> Tensor:
    c = a.cos()
    return torch.mm(c, c) + c.cos()


def choice_2(a: Tensor) -> Tensor:
    c = a.cos()
    return torch.mm(c, c) + c.sum(dim=1)


def choice_3(a: Tensor) -> tuple[Tensor, Tensor]:
    c = a.cos()
    e = c + a
    return torch.mm(c, c) + e, e


def choice_4(a: Tensor, b: Tensor, b2: Tensor) -> tuple[Tensor, Tensor]:
    c = a + b
    d = torch.mm(c, c)
    e = c + b + b2
    return d + e + b2, e


def mutate_two(a: Tensor, b: Tensor, c: Tensor) -> None:
    a0 = a.add(c)
    b0 = b.add(a0)
    b.copy_(b0)
    a.copy_(a0)


def scatter_ones(graph: fx.Graph, a: fx.Node, b: fx.Node) -> fx.Node:
    a = graph.call_method("cos", (a,))
    graph.call_function(operator.setitem, (a, b, 1))
    return a


def scatter_columns(graph: fx.Graph, a: fx.Node, b: fx.Node) -> fx.Node:
    graph.call_function(operator.setitem, (a, (slice(None), b), 1))
    return a


def factory_sum(graph: fx.Graph) -> fx.Node:
    a = graph.call_function(torch.ones, (10,))
    b = graph.call_function(torch.ones, (10, 10))
    return graph.call_method("sum", (graph.call_function(operator.add, (a, b)),), {"dim": -1})


def by_hand(build: Callable[..., fx.Node], count: int) -> fx.GraphModule:
    """For what `symbolic_trace` cannot see: assignments to items, factories without inputs."""
    graph = fx.Graph()
    graph.output(build(graph, *(graph.placeholder(f"x{k}") for k in range(count))))
    return fx.GraphModule(torch.nn.Module(), graph)


def import_program(program: Program) -> tuple[Operation, tuple[Tensor, ...]]:
    """The simplified tensor-level module, and inputs."""
    torch.manual_seed(0)
    inputs = program.inputs()
    function = program.function
    traced = function if isinstance(function, fx.GraphModule) else fx.symbolic_trace(function)
    module = import_graph(trace_inference(traced, inputs))
    for simplify in (canonicalize, cse, dce):
        simplify.run(module, None)
    return module, inputs


SQUARE = (10, 10)
CUBE = (10, 10, 10)
PROGRAMS = (
    Program("cos", lambda x: x.cos(), floats((10,)), 20),
    Program("bias", lambda x, y: x + y, floats(SQUARE, (10,)), 210),
    Program("x + x.t()", lambda x: x + x.t(), floats(SQUARE), 200),
    Program("two outputs", lambda a, b, c: (a.cos(), b.sin() + c.sin()), floats((10,), (10,), (10,)), 50),
    Program("sum rows", lambda x: x.sum(dim=1), floats(SQUARE), 110),
    Program("sum columns", lambda x: x.sum(dim=0), floats(SQUARE), 110),
    Program("mm between cos", lambda x: torch.mm(x.cos(), x.cos()).cos(), floats(SQUARE), 600),
    Program("cos and sin into mm", lambda x: torch.mm(x.cos(), x.sin()), floats(SQUARE), 600),
    Program("cat of sin", lambda a, b: torch.cat([a.sin(), b.sin()]), floats((10,), (10,)), 40),
    Program("cat", lambda a, b: torch.cat([a, b]), floats((10,), (10,)), 40),
    Program("cat of cos and sin", lambda a: torch.cat([a.cos(), a.sin()]), floats((10,)), 30),
    Program(
        "cat of 3, + 10", lambda a, b, c: torch.cat((a + 1, b + 2, c + 3)) + 10, floats(*[SQUARE] * 3), 600
    ),
    Program(
        "cat of sums", lambda a, b: torch.cat([a.sum(dim=0), b.sum(dim=0)]) + 10, floats(CUBE, CUBE), 2200
    ),
    Program("index", lambda a, b: a[b], with_indices((10,), 10, 10), 30),
    Program("sum, cos", lambda a: (a.sum(dim=1), a.cos()), floats(SQUARE), 210),
    Program("sum, amax", lambda a: (a.sum(dim=1), a.amax(dim=1)), floats(SQUARE), 120),
    Program("cos + sum", lambda a, b: b.cos() + a.sum(dim=1), floats(SQUARE, (10,)), 120),
    Program("cos + sum of columns", lambda a, b: b.cos() + a.sum(dim=0), floats(SQUARE, (10,)), 120),
    Program("sum * cos", lambda a, b: a.sum(dim=1, keepdim=True) * b.cos(), floats(SQUARE, (10,)), 210),
    Program("cos, sum, cos", lambda a: a.cos().sum(dim=1).cos(), floats(SQUARE), 110),
    Program("norm chain", norm_chain, floats(SQUARE), 200),
    Program("softmax", lambda a: torch.softmax(a, dim=1), floats(SQUARE), 200),
    Program("double softmax", lambda a: torch.softmax(torch.softmax(a, 1), 1), floats(SQUARE), 200),
    Program(
        "layer norm",
        lambda x, w, b: torch.nn.functional.layer_norm(x, (10,), w, b),
        floats(SQUARE, (10,), (10,)),
        220,
    ),
    Program(
        "softmax backward",
        lambda g, o: aten._softmax_backward_data(g, o, 1, torch.float32),
        floats(SQUARE, SQUARE),
        300,
    ),
    Program("neighbor 4", lambda a, b: ((a - b) ** 2).sum(-1).amax(1), floats((10, 1, 4), (1, 10, 4)), 90),
    Program("neighbor 8", lambda a, b: ((a - b) ** 2).sum(-1).amax(1), floats((10, 1, 8), (1, 10, 8)), 170),
    Program("factory reduction", by_hand(factory_sum, 0), lambda: (), 10),
    Program("index, cos", lambda a, b: a[b].cos(), with_indices(SQUARE, 20, 10), 320),
    Program("index, cos, sum", lambda a, b: a[b].cos().sum(dim=1), with_indices(SQUARE, 20, 10), 140),
    Program("two mutations", mutate_two, floats(SQUARE, SQUARE, SQUARE), 500),
    Program("scatter", by_hand(scatter_ones, 2), with_indices((10,), 2, 5), 26),
    Program("scatter columns", by_hand(scatter_columns, 2), with_indices(SQUARE, 2, 5), 42),
    Program("choice 1", choice_1, floats(SQUARE), 700),
    Program("choice 2", choice_2, floats(SQUARE), 620),
    Program("choice 3", choice_3, floats(SQUARE), 800),
    Program("choice 4", choice_4, half_in_the_middle, 1000),
    Program("a + b.t()", lambda a, b: a + b.t(), floats(SQUARE, SQUARE), 300),
    Program("a.t() + b", lambda a, b: a.t() + b, floats(SQUARE, SQUARE), 300),
    Program(
        "three permutes",
        lambda a, b, c: a + b.permute(1, 2, 0) + c.permute(2, 0, 1),
        floats(CUBE, CUBE, CUBE),
        4000,
    ),
    Program("outer softmax", lambda a: torch.softmax(a, dim=0), floats(SQUARE), 200),
    Program("outer sum, cos", lambda a: (a.sum(dim=0), a.cos()), floats(SQUARE), 210),
)
