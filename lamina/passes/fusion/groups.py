"""Groups of nodes, each to become one kernel: iteration space, what is read and written, and joining two
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lamina.ir.core import Value
from lamina.passes.fusion.atoms import Atom, flatten, resolve, volume
from lamina.passes.fusion.graph import Graph, Node, Read, bytes_of


@dataclass(eq=False, slots=True)
class Group:
    """Nodes in one kernel. `atoms` may be stale: use `domain` and `reduced`.

    `inputs` maps each value read from memory to the bytes read; `outputs` are the nodes whose result is
    written. A bundle has its groups in `parts`, each with an iteration space of its own; the first is the
    one the bundle is named for.
    """

    nodes: list[Node]
    atoms: list[Atom]
    reduced_atoms: list[Atom]
    inputs: dict[Value, int] = field(default_factory=dict)
    outputs: dict[Node, int] = field(default_factory=dict)
    work: float = 0.0
    version: int = 0
    is_outside: bool = False
    parts: list[Group] = field(default_factory=list)

    @property
    def domain(self) -> list[Atom]:
        return resolve(self.atoms)

    @property
    def reduced(self) -> set[Atom]:
        return set(resolve(self.reduced_atoms))

    @property
    def has_reduction(self) -> bool:
        return any(node.kind == "reduce" for node in self.nodes)

    @property
    def first(self) -> int:
        """Place in the program of the first node; nodes are in program order."""
        return self.nodes[0].order

    @property
    def last(self) -> int:
        return self.nodes[-1].order

    def successors(self) -> Iterator[Group]:
        """The groups that need something of this one (with repeats)."""
        # Only what is written is needed elsewhere.
        for node in self.nodes if self.is_outside else self.outputs:
            for other in node.feeds:
                if other.group is not self and other.group is not None:
                    yield other.group

    def name(self) -> str:
        """For remarks: the operations, at most four spelled out."""
        names = [node.name for node in self.nodes[:4]]
        more = f" and {len(self.nodes) - 4} more" if len(self.nodes) > 4 else ""
        return ", ".join(names) + more


def group_of_node(graph: Graph, node: Node, work: float) -> Group:
    """A group of its own for a node."""
    if node.kind == "outside":
        group = Group([node], [], [], is_outside=True)
    elif node.kind == "reduce":
        atoms = flatten(node.operand_map)
        kept = set(flatten(node.map))
        group = Group([node], atoms, [atom for atom in atoms if atom not in kept])
    else:
        group = Group([node], flatten(node.map), [])
    group.work = work
    node.group = group
    for read in node.reads:
        group.inputs[read.base] = max(group.inputs.get(read.base, 0), bytes_read(read))
    if node.kind != "outside":
        group.outputs[node] = bytes_of(node.written)
    return group


def bytes_read(read: Read) -> int:
    """Distinct bytes of memory that a read touches: a gather reads at most what it gives."""
    total = bytes_of(read.base)
    if read.node.kind == "index" and read.position == 0 and read.node.result is not None:
        total = min(total, bytes_of(read.node.result))
    return total


def parallel_count(group: Group) -> int:
    """The number of independent iterations: the product of the dimensions that are not reduced."""
    reduced = group.reduced
    return volume(atom for atom in group.domain if atom not in reduced)


def is_read_elsewhere(graph: Graph, node: Node, inside: tuple[Group, ...]) -> bool:
    """Whether the node's value must be written when the kernel holds these groups."""
    if node.is_needed_outside or node.result is None:
        return True
    return any(read.node.group not in inside for read in graph.readers.get(node.result, ()))


@dataclass(slots=True)
class Joined:
    """What the union of two groups reads, writes and computes."""

    inputs: dict[Value, int]
    outputs: dict[Node, int]
    work: float


def join_contents(graph: Graph, producer: Group, consumer: Group) -> Joined:
    """Inputs, outputs and work of the union, without changing either."""
    pair = (producer, consumer)
    outputs = {
        node: size
        for group in pair
        for node, size in group.outputs.items()
        if is_read_elsewhere(graph, node, pair)
    }
    made = {node.result for group in pair for node in group.outputs if node.result is not None}
    inputs: dict[Value, int] = {}
    for group in pair:
        for value, size in group.inputs.items():
            if value not in made:
                inputs[value] = max(inputs.get(value, 0), size)
    return Joined(inputs, outputs, producer.work + consumer.work)


def join(producer: Group, consumer: Group, joined: Joined) -> None:
    """Make `consumer` the union of both (their atoms are already unified)."""
    atoms = list(dict.fromkeys(resolve(producer.atoms + consumer.atoms)))
    reduced = list(dict.fromkeys(resolve(producer.reduced_atoms + consumer.reduced_atoms)))
    for node in producer.nodes:
        node.group = consumer
    in_order = producer.last <= consumer.first
    nodes = producer.nodes + consumer.nodes
    consumer.nodes = nodes if in_order else sorted(nodes, key=lambda node: node.order)
    consumer.atoms, consumer.reduced_atoms = atoms, reduced
    consumer.inputs, consumer.outputs, consumer.work = joined.inputs, joined.outputs, joined.work
    consumer.version += 1
    producer.version += 1
    producer.nodes = []


def reads_between(graph: Graph, producer: Group, consumer: Group) -> list[Read]:
    """The reads by `consumer` of values that `producer` computes."""
    return [
        read
        for node in producer.outputs
        if node.result is not None
        for read in graph.readers.get(node.result, ())
        if read.node.group is consumer
    ]
