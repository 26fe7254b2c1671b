"""What a kernel costs, in bytes and in seconds, from the measured figures of the machine.

    seconds = launch + max(bytes / bandwidth, operations / speed), both over the cores it can use

Bandwidth is the caches' when what the kernel touches fits the cores' L2. A kernel whose rows do not fit
L2 reads its inputs from memory once for each reduction after the first. Operations count in vector
additions.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.ir.core import Operation, Value
from lamina.ir.machine import Target
from lamina.passes.fusion.atoms import Atom, flatten, resolve, typical_volume
from lamina.passes.fusion.graph import Graph, Node, count_of
from lamina.passes.fusion.groups import Group, Joined

WEIGHTS = {
    "arith.divf": 4.0, "math.sqrt": 4.0, "math.rsqrt": 6.0, "math.exp": 10.0, "math.exp2": 10.0,
    "math.expm1": 14.0, "math.log": 12.0, "math.log2": 12.0, "math.log10": 12.0, "math.log1p": 14.0,
    "math.tanh": 16.0, "math.erf": 16.0, "math.erfc": 24.0, "math.sin": 16.0, "math.cos": 16.0,
    "math.tan": 24.0, "math.powf": 30.0, "math.atan2": 30.0, "arith.divsi": 20.0, "arith.remsi": 20.0,
    "arith.remf": 20.0, "lamina.index": 8.0,
}  # fmt: skip
"""Cost of an element beside that of an addition; other `math` functions count 20, everything else 1."""


def weight(operation: Operation) -> float:
    """Vector additions that one element of the operation costs."""
    found = WEIGHTS.get(operation.name)
    if found is not None:
        return found
    is_simple = operation.name in (
        "math.absf",
        "math.absi",
        "math.floor",
        "math.ceil",
        "math.copysign",
        "math.fma",
    )
    return 20.0 if operation.name.startswith("math.") and not is_simple else 1.0


def work_of(node: Node) -> float:
    """Vector additions that a node costs: weight times elements."""
    if node.kind == "outside":
        return 0.0
    value = node.operation.operand() if node.kind == "reduce" else node.written
    return weight(node.operation) * count_of(value) if node.kind != "copy" else 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted cost of one kernel."""

    bytes: int
    seconds: float


class CostModel:
    """Costs of groups on a target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        # A fused multiply-add counts as two in peak_flops, and elementwise code rarely keeps both ports busy.
        self.speed = target.peak_flops / 4

    def of_group(self, graph: Graph, group: Group) -> Cost:
        contents = Joined(group.inputs, group.outputs, group.work)
        reduced = group.reduced
        parallel = typical_volume(atom for atom in group.domain if atom not in reduced)
        return self._cost(graph, contents, parallel, reduced, group.nodes)

    def of_union(self, graph: Graph, first: Group, second: Group, contents: Joined) -> Cost:
        """The cost of both in one kernel; their atoms must be unified."""
        reduced = first.reduced | second.reduced
        domain = set(resolve(first.atoms)) | set(resolve(second.atoms))
        parallel = typical_volume(domain - reduced)
        return self._cost(graph, contents, parallel, reduced, first.nodes + second.nodes)

    def repeated_work(self, first: Group, second: Group) -> float:
        """What the union computes again because the first walks only a part of the second's dimensions.

        A value is computed once for each turn of the innermost loop that it depends on.
        """
        own, order = set(first.domain), second.domain
        if first.reduced_atoms or not own < set(order):
            return 0.0
        inner = max((k for k, atom in enumerate(order) if atom in own), default=-1)
        turns = typical_volume(order[: inner + 1])
        return first.work * (turns / max(typical_volume(own), 1) - 1.0)

    def _cost(
        self, graph: Graph, contents: Joined, parallel: int, reduced: set[Atom], nodes: list[Node]
    ) -> Cost:
        moved = sum(contents.inputs.values()) + sum(contents.outputs.values())
        share = min(1.0, max(parallel, 1) / self.target.cores)
        is_cached = moved <= self.target.l2_bytes * self.target.cores
        bandwidth = self.target.cache_bandwidth if is_cached else self.target.copy_bandwidth
        walked = moved
        if reduced and not is_cached:
            walked += self._reread(graph, contents, parallel, reduced, nodes)
        memory = walked / (bandwidth * share)
        compute = contents.work / (self.speed * share)
        return Cost(moved, self.target.launch_seconds + max(memory, compute))

    def _reread(
        self, graph: Graph, contents: Joined, parallel: int, reduced: set[Atom], nodes: list[Node]
    ) -> int:
        """Bytes read again because rows leave the cache between stages."""
        domain = parallel * typical_volume(reduced)
        full = [(value, size) for value, size in contents.inputs.items() if count_of(value) >= domain]
        row_bytes = sum(size for _, size in full) / max(parallel, 1)
        if row_bytes <= self.target.l2_bytes / 2:
            return 0
        return (stage_count(graph, nodes, reduced) - 1) * sum(size for _, size in full)


def stage_count(graph: Graph, nodes: list[Node], reduced: set[Atom]) -> int:
    """Passes over a row: one for each reduction of the longest chain, and one if its end meets the row
    again.
    """
    stage: dict[Value, int] = {}
    last = 1
    for node in sorted(nodes, key=lambda node: node.order):
        before = max((stage.get(read.base, 0) for read in node.reads), default=0)
        if node.result is not None:
            stage[node.result] = before + (node.kind == "reduce")
        if node.kind == "reduce" or not reduced.isdisjoint(flatten(node.map)):
            last = max(last, before + 1)
    return last
