"""Put the operations of @main into kernels.

    %0 = math.exp %x                                 %2 = lamina.kernel(%x) ({
    %1 = lamina.reduce %0 {kind = "add", dims}         ^bb0(%a): %0 = math.exp %a
    %2 = aten.mm %1, %w                       =>                 %1 = lamina.reduce %0 ...
                                                                 lamina.yield %1 })
                                                     %3 = aten.mm %2, %w

What stays outside kernels: library calls, views of values in memory, constants, concatenations (of pieces
that kernels write into place). Which operations share a kernel is decided in `decide`; the form of a
kernel is told in the package's own text.
"""

from __future__ import annotations

import heapq
from typing import Protocol

from lamina.ir.attributes import UNIT
from lamina.ir.core import Builder, Operation, Value, lookup
from lamina.ir.machine import Target
from lamina.ir.remarks import Remarks
from lamina.options import Options
from lamina.passes.fusion.bundle import bundle
from lamina.passes.fusion.decide import Decision
from lamina.passes.fusion.emit import emit_kernel
from lamina.passes.fusion.graph import VIEWS, Graph
from lamina.passes.fusion.groups import Group
from lamina.passes.fusion.layouts import Layouts
from lamina.passes.fusion.rewrites import prepare
from lamina.passes.fusion.scatter_in_place import scatter_in_place

NAME = "fuse"


class Context(Protocol):
    """What this pass needs of the pipeline's context."""

    @property
    def options(self) -> Options: ...

    @property
    def target(self) -> Target: ...

    @property
    def remarks(self) -> Remarks: ...


def run(module: Operation, context: Context) -> None:
    """The pass: `fuse` with the context's target and remarks."""
    fuse(module, context.target, context.remarks, is_joining=context.options.fusion)


def fuse(
    module: Operation, target: Target, remarks: Remarks, source: str = "main", *, is_joining: bool = True
) -> None:
    """Replace the computing operations of `func.func @source` by kernels, in place.

    is_joining: False gives each operation a kernel of its own.
    """
    function = lookup(module, source)
    prepare(function.body)
    graph = Graph(function.body)
    decision = Decision(graph, target, remarks)
    if is_joining:
        groups = bundle(graph, decision.run(), target, remarks)
        decision.explain_refusals(groups)
    else:
        groups = decision.groups
    _Rewriting(graph, function).run(groups)
    scatter_in_place(function)


class _Rewriting:
    """Rebuilds the block of @main in an order in which every value is made before it is used."""

    def __init__(self, graph: Graph, function: Operation) -> None:
        self.graph = graph
        self.function = function
        self.block = function.body
        self.layouts = Layouts(function)
        self.current: dict[Value, Value] = {}
        self.old = list(self.block)

    def run(self, groups: list[Group]) -> None:
        for operation in self.old:
            operation.detach()
        for group in in_dependence_order(groups):
            if group.is_outside:
                self._place(group.nodes[0].operation)
            else:
                self._emit(group)
        for operation in reversed(self.old):
            if operation.parent is None:
                operation.erase()

    def _place(self, operation: Operation) -> None:
        """Put an old operation into the block, after the views and constants that it needs."""
        for position, value in enumerate(operation.operands):
            stored = self.stored(value)
            if stored is not value:
                operation.set_operand(position, stored)
        self.block.append(operation)

    def stored(self, value: Value) -> Value:
        """The value in memory that stands for an old one."""
        found = self.current.get(value)
        if found is not None:
            return found
        operation = value.defining_op
        if operation is not None and operation.parent is None:
            if operation.name not in VIEWS and operation.name != "arith.constant":
                raise ValueError(f"{operation.name} is used before its kernel")
            self._place(operation)
        return value

    def _emit(self, group: Group) -> None:
        builder = Builder(self.block, location=group.nodes[-1].location)
        for node, value in emit_kernel(self.graph, self.function, self.layouts, group, builder, self.stored):
            if node.place is None:
                self.current[node.written] = value
            else:
                concat, piece = node.place
                concat.set_operand(piece, value)
                concat.attributes["lamina.placed"] = UNIT


def in_dependence_order(groups: list[Group]) -> list[Group]:
    """Each group after those it needs, otherwise as the program has them."""
    needed: dict[Group, set[Group]] = {group: set() for group in groups}
    for group in groups:
        for successor in group.successors():
            needed[successor].add(group)
    waiting = {group: len(before) for group, before in needed.items()}
    followers: dict[Group, list[Group]] = {group: [] for group in groups}
    for group, before in needed.items():
        for source in before:
            followers[source].append(group)
    ready = [(group.last, position, group) for position, group in enumerate(groups) if not waiting[group]]
    positions = {group: position for position, group in enumerate(groups)}
    heapq.heapify(ready)
    ordered: list[Group] = []
    while ready:
        _, _, group = heapq.heappop(ready)
        ordered.append(group)
        for follower in followers[group]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (follower.last, positions[follower], follower))
    if len(ordered) != len(groups):
        raise ValueError("groups depend on each other in a cycle")
    return ordered
