"""Nests: the loop nests of a kernel, before they are written as `linalg.generic`s.

    softmax over the last dimension of [p, r]      =>      nest over p, r
      max = reduce x                                    stage 0: max[p] = reduce over r
      e = exp(x - max)                                  stage 1: sum[p] = reduce e over r; scratch[p, r] = e
      out = e / reduce e                                stage 2: out[p, r] = scratch[p, r] / sum[p]

All stages of a nest share its parallel dimensions; a reduction reduces all of the others. What a kernel
computes that is neither of the domain's shape nor of its parallel part becomes a pointwise nest of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lamina.errors import Unsupported
from lamina.ir.attributes import plain
from lamina.ir.core import Operation, Value
from lamina.ir.types import TensorType
from lamina.passes.loops.expressions import Node, SplitRange, Tracer
from lamina.passes.loops.places import Place, SplitDimension

MOST_RANGES = 12
"""A pointwise nest is cut into at most so many ranges at the seams of concats and pads."""
SHARED_COST = 8
"""A value that later stages need again is kept when computing it takes so many additions."""
MOST_SCRATCH_BYTES = 1 << 18


@dataclass(slots=True)
class Output:
    """Store `node` at linear address `address` of result number `number`."""

    node: Node
    address: Place
    number: int


@dataclass(slots=True)
class Reduction:
    """`operation` reduces `node`; `level` counts the reductions that must come before it."""

    operation: Operation
    node: Node
    level: int

    @property
    def kind(self) -> str:
        kind: str = plain(self.operation.attributes["kind"])
        return kind


@dataclass(slots=True)
class Stage:
    """One walk over all dimensions (`is_full`), or over the parallel ones alone.

    `kept` are values that later stages read again: from an output of this stage, or from scratch.
    """

    is_full: bool
    reductions: list[Reduction] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    kept: list[Node] = field(default_factory=list)

    @property
    def roots(self) -> list[Node]:
        return [reduction.node for reduction in self.reductions] + [output.node for output in self.outputs]


@dataclass(slots=True)
class Nest:
    """`sizes` of all dimensions; `inner` those that are reduced (or walked inside)."""

    sizes: list[int]
    inner: list[bool]
    stages: list[Stage]

    @property
    def parallel(self) -> list[int]:
        return [k for k, is_inner in enumerate(self.inner) if not is_inner]


def plan_nests(
    function: Operation, strides: dict[Value, tuple[int, ...]], results: Sequence[tuple[int, ...]]
) -> list[Nest]:
    """The nests of a kernel function. `strides` of its arguments, `results` those of its results."""
    tracer = Tracer(strides)
    body = function.body
    roots = [
        (number, value) for number, value in enumerate(body.terminator.operands) if 0 not in shape_of(value)
    ]
    needed = _spaces_needed(function)
    nests: list[Nest] = []
    for space, reductions in _by_space(function).items():
        domain, reduced = space
        parallel = tuple(size for k, size in enumerate(domain) if k not in reduced)
        inside = [
            root
            for root in roots
            if shape_of(root[1]) in (domain, parallel) and needed.get(root[1], set()) <= {space}
        ]
        nests.append(_reducing_nest(tracer, reductions, inside, results, domain, reduced))
        roots = [root for root in roots if root not in inside]
    by_shape: dict[tuple[int, ...], list[tuple[int, Value]]] = {}
    for root in roots:
        by_shape.setdefault(shape_of(root[1]), []).append(root)
    for shape, group in by_shape.items():
        nests += _pointwise_nests(tracer, group, results, shape)
    return nests


def shape_of(value: Value) -> tuple[int, ...]:
    if not isinstance(value.type, TensorType):
        raise Unsupported("kernel-form", f"a kernel computes tensors, not {value.type}")
    return value.type.sizes


ReducedSpace: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes of an iteration space, and which of its dimensions are reduced."""


def _space_of(reduction: Operation) -> ReducedSpace:
    return shape_of(reduction.operand()), tuple(plain(reduction.attributes["dims"]))


def _by_space(function: Operation) -> dict[ReducedSpace, list[Operation]]:
    """The reductions of each iteration space: a kernel may hold several that are independent."""
    found: dict[ReducedSpace, list[Operation]] = {}
    for operation in function.body:
        if operation.name == "lamina.reduce":
            found.setdefault(_space_of(operation), []).append(operation)
    return found


def _spaces_needed(function: Operation) -> dict[Value, set[ReducedSpace]]:
    """The spaces whose reductions each value depends on: at most one."""
    needed: dict[Value, set[ReducedSpace]] = {}
    for operation in function.body:
        spaces = {space for value in operation.operands for space in needed.get(value, ())}
        if operation.name == "lamina.reduce":
            spaces.add(_space_of(operation))
        if len(spaces) > 1 and operation.results:
            raise Unsupported("kernel-form", "reductions over different dimensions in one kernel")
        for value in operation.results:
            needed[value] = spaces
    return needed


class _Dimensions:
    """Original dimensions written over those of the nest, which splits and cuts refine."""

    def __init__(self, shape: Sequence[int], reduced: Sequence[int]) -> None:
        self.sizes = list(shape)
        self.inner = [k in reduced for k in range(len(shape))]
        self.places = [Place.dim(k, size) for k, size in enumerate(shape)]

    def split(self, dim: int, inner: int) -> None:
        """Dimension `dim` becomes the outer part; the inner part follows it."""
        outer = self.sizes[dim] // inner
        self.sizes[dim : dim + 1] = [outer, inner]
        self.inner[dim : dim + 1] = [self.inner[dim]] * 2
        parts = Place.dim(dim, outer) * inner + Place.dim(dim + 1, inner)
        replacement = [
            parts if k == dim else Place.dim(k if k < dim else k + 1, 0) for k in range(len(self.sizes) - 1)
        ]
        self.places = [place.with_dims(replacement) for place in self.places]

    def cut(self, dim: int, boundary: int) -> tuple[_Dimensions, _Dimensions]:
        """The ranges below and from `boundary` on."""
        parts = (_Dimensions((), ()), _Dimensions((), ()))
        for part, start, size in zip(
            parts, (0, boundary), (boundary, self.sizes[dim] - boundary), strict=True
        ):
            part.sizes = [*self.sizes[:dim], size, *self.sizes[dim + 1 :]]
            part.inner = list(self.inner)
            replacement = [Place.dim(k, 0) for k in range(len(self.sizes))]
            replacement[dim] = Place.dim(dim, size).plus(start)
            part.places = [place.with_dims(replacement) for place in self.places]
        return parts


def _refine(dimensions: _Dimensions, build: Callable[[], Nest]) -> Nest:
    """Build, splitting dimensions as often as reshapes ask for it."""
    while True:
        try:
            return build()
        except SplitDimension as wish:
            dimensions.split(wish.dim, wish.inner)


def _address(places: Sequence[Place], strides: Sequence[int]) -> Place:
    result = Place(())
    for place, stride in zip(places, strides, strict=True):
        result = result + place * stride
    return result


def _pointwise_nests(
    tracer: Tracer,
    roots: Sequence[tuple[int, Value]],
    results: Sequence[tuple[int, ...]],
    shape: tuple[int, ...],
) -> list[Nest]:
    waiting, nests = [_Dimensions(shape, ())], []
    ranges = 1

    def build(dimensions: _Dimensions) -> Nest:
        tracer.start(dimensions.sizes, may_cut=ranges < MOST_RANGES)
        stage = Stage(is_full=True)
        for number, value in roots:
            node = tracer.read(value, tuple(dimensions.places))
            stage.outputs.append(Output(node, _address(dimensions.places, results[number]), number))
        return Nest(list(dimensions.sizes), [False] * len(dimensions.sizes), [stage])

    while waiting:
        dimensions = waiting.pop(0)
        try:
            nests.append(_refine(dimensions, lambda: build(dimensions)))  # noqa: B023  (called at once)
        except SplitRange as wish:
            ranges += 1
            waiting[:0] = dimensions.cut(wish.dim, wish.boundary)
    return nests


def _reducing_nest(
    tracer: Tracer,
    reductions: Sequence[Operation],
    roots: Sequence[tuple[int, Value]],
    results: Sequence[tuple[int, ...]],
    domain: tuple[int, ...],
    reduced: tuple[int, ...],
) -> Nest:
    dimensions = _Dimensions(domain, reduced)

    def build() -> Nest:
        tracer.start(dimensions.sizes, may_cut=False)
        everywhere = tuple(dimensions.places)
        home = tuple(place for k, place in enumerate(everywhere) if k not in reduced)
        planner = _Stages(home)
        for operation in reductions:
            planner.add_reduction(operation, tracer.read(operation.operand(), everywhere))
        for number, value in roots:
            is_full = shape_of(value) == domain
            places = everywhere if is_full else home
            node = tracer.read(value, places)
            planner.add_output(Output(node, _address(places, results[number]), number), is_full=is_full)
        return Nest(list(dimensions.sizes), list(dimensions.inner), planner.stages())

    nest = _refine(dimensions, build)
    _keep_shared(nest)
    return nest


class _Stages:
    """Orders reductions and outputs: each as early as what it needs is there."""

    def __init__(self, home: tuple[Place, ...]) -> None:
        self.home = home
        self.levels: dict[Operation, int] = {}
        self.full: dict[int, Stage] = {}
        self.outer: dict[int, Stage] = {}

    def _level(self, node: Node) -> int:
        """How many stages must have run before this can be computed."""
        level = 0
        for part in node.walk(set()):
            if part.kind == "reduced":
                if part.places != self.home:
                    raise Unsupported("kernel-form", "a reduction is read at another place than its own")
                level = max(level, self.levels[part.base] + 1)
        return level

    def add_reduction(self, operation: Operation, node: Node) -> None:
        level = self._level(node)
        self.levels[operation] = level
        stage = self.full.setdefault(level, Stage(is_full=True))
        stage.reductions.append(Reduction(operation, node, level))

    def add_output(self, output: Output, *, is_full: bool) -> None:
        stages = self.full if is_full else self.outer
        stages.setdefault(self._level(output.node), Stage(is_full=is_full)).outputs.append(output)

    def stages(self) -> list[Stage]:
        last = max((*self.full, *self.outer), default=-1)
        found: list[Stage] = []
        for level in range(last + 1):
            found += [stages[level] for stages in (self.outer, self.full) if level in stages]
        return found


def _keep_shared(nest: Nest) -> None:
    """Values that several full stages compute, and that cost enough, are kept by the first for the others."""
    inner_dims = {k for k, is_inner in enumerate(nest.inner) if is_inner}
    count = 1
    for k in inner_dims:
        count *= nest.sizes[k]
    computed: dict[Node, Stage] = {}
    for stage in nest.stages:
        if not stage.is_full:
            continue
        seen: set[Node] = set()
        waiting = stage.roots
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            first = computed.get(node)
            if first is not None and _is_worth_keeping(node, first, inner_dims, count):
                if node not in first.kept:
                    first.kept.append(node)
                continue
            waiting += node.children
        for node in seen:
            computed.setdefault(node, stage)


def _is_worth_keeping(node: Node, first: Stage, inner_dims: set[int], count: int) -> bool:
    if node.kind != "apply" or not node.dims & inner_dims:
        return False
    if node in first.kept:
        return True
    stored = any(output.node is node for output in first.outputs)
    if stored:
        return node.cost >= 2
    is_small = isinstance(count, int) and count * node.type.bytes <= MOST_SCRATCH_BYTES
    return node.cost >= SHARED_COST and is_small
