"""Choose the loops of every nest: what runs in parallel, where the vector lanes go, how far to unroll.

    linalg.generic ... {lamina.nest = [0, 1]}
 => linalg.generic ... {lamina.nest = [0, 1], lamina.schedule = {outer = [0], parallel = 1, chunk = 0,
                        across = -1, inner = [1], lanes = 16, unroll = 4}}

- `outer`: the parallel dimensions that are loops, outer first; the first `parallel` of them are collapsed
  into one `scf.parallel` (0: the work is too small to share). With `chunk` > 0 the vector dimension of a
  pointwise nest is shared too, in pieces of so many elements.
- `across` = -1: the lanes walk the last of the `inner` dimensions of each walk, and a reduction ends with a
  sum over lanes. Otherwise the lanes walk the parallel dimension `across`, `unroll` vectors at a time, and
  every lane reduces by itself over the `inner` loops.
- `rows` >= 0: a pointwise nest accesses something contiguous along that dimension, across the lanes; it then
  goes by tiles of `chunk` elements along `rows` and along the lanes (see tiles.py). `is_serial`: one thread.
- `lanes` = 1: scalar code. `stream`: results go around the caches, where they are aligned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lamina.ir.attributes import attribute, plain
from lamina.ir.core import Operation
from lamina.ir.machine import Target
from lamina.ir.sizes import hint, is_static
from lamina.ir.types import ScalarType, index
from lamina.passes.loops.costs import MOST_LANES, body_cost
from lamina.passes.loops.walks import Access, LoopNest, Walk, read_nests

NAME = "schedule"
STRIDED = 6.0
"""What an element costs that is gathered, against one of a contiguous vector."""
LANE_SUM = 12.0
"""What a sum over the lanes of a vector costs, in vector operations."""
ROUNDS = 8
"""A parallel loop should have at least so many iterations for each core, so that shares are even."""
CHUNK_BYTES = 1 << 15
"""A piece of a long pointwise loop that one parallel iteration takes, in bytes of its widest element."""
MOST_SCRATCH = 1 << 19
"""Bytes of scratch on the stack of one thread."""
SMALLEST_TILED = 16
"""Dimensions shorter than this are not worth tiles."""
STREAM = 16
"""Results of more than so many times the second cache are gone from it before anyone reads them."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """See the head of the file; dimensions are numbers of the walk's."""

    outer: tuple[int, ...]
    parallel: int
    chunk: int
    across: int
    inner: tuple[int, ...]
    lanes: int
    unroll: int
    stream: bool
    rows: int
    is_serial: bool


def schedule(function: Operation, target: Target) -> Operation:
    """Write the choices into a linalg-level kernel's generics."""
    for nest in read_nests(function):
        is_open = any(not is_static(walk.sizes) for walk in nest.walks)
        choices = choose_open(nest, target) if is_open else choose(nest, target)
        for walk, choice in zip(nest.walks, choices, strict=True):
            walk.operation.attributes["lamina.schedule"] = attribute(asdict(choice))
    return function


def read_schedule(operation: Operation) -> Schedule:
    """The choice written on a generic."""
    entries: dict[str, Any] = plain(operation.attributes["lamina.schedule"])
    for name in ("outer", "inner"):
        entries[name] = tuple(entries[name])
    return Schedule(**entries)


def choose_open(nest: LoopNest, target: Target) -> list[Schedule]:
    """Schedules of a nest whose sizes are known at run time: right for all sizes, good for `TYPICAL` ones.

    Whether it is worth several threads is decided when it is launched.
    """
    typical = LoopNest([_typical(walk) for walk in nest.walks])
    choices = choose(typical, target, is_shared=True)
    # Scalar code has no masks for what is left of vectors side by side.
    return [replace(choice, unroll=1) if choice.lanes == 1 else choice for choice in choices]


def _typical(walk: Walk) -> Walk:
    def with_hints(accesses: list[Access]) -> list[Access]:
        return [replace(access, strides=tuple(map(hint, access.strides))) for access in accesses]

    sizes = tuple(map(hint, walk.sizes))
    return replace(walk, sizes=sizes, inputs=with_hints(walk.inputs), outputs=with_hints(walk.outputs))


def choose(nest: LoopNest, target: Target, *, is_shared: bool = False) -> list[Schedule]:
    """One schedule for each walk; those of a nest agree in everything but `inner`, `lanes` and `unroll`.

    is_shared: several threads take part, however small the work is.
    """
    is_large = target.cores > 1 and (is_shared or _is_large(nest, target))
    if nest.is_pointwise:
        return _choose_pointwise(nest, target, is_large)
    full = [walk for walk in nest.walks if walk.is_full]
    inner_cost = sum(min(_lane_cost(walk, dim, target) for dim in _inner(walk)) for walk in full)
    best, across = inner_cost, -1
    for dim in range(len(nest.sizes)):
        cost = sum(_lane_cost(walk, dim, target) for walk in full)
        if cost < best and _scratch_fits(full, target):
            best, across = cost, dim
    return _reducing_schedules(nest, across, target, is_large)


def _inner(walk: Walk) -> range:
    return range(walk.parallel, len(walk.sizes))


def _names(walk: Walk) -> Iterable[str]:
    return (operation.name for operation in walk.block)


def _lane_cost(walk: Walk, dim: int, target: Target) -> float:
    """Time for one element of the walk when the lanes walk `dim`, in vector operations for a full vector."""
    lanes = full_lanes(walk, target)
    if lanes == 1:
        return sum(1.0 if access.strides[dim] in (0, 1) else 1.5 for access in walk.memory)
    access = sum(_access_cost(access.strides[dim]) for access in walk.memory)
    size = walk.sizes[dim]
    filled = size / (-(-size // lanes) * lanes) if size else 1.0
    cost = (access + 0.5 * body_cost(_names(walk))) / filled
    if dim >= walk.parallel:
        inner = math.prod(walk.sizes[walk.parallel :])
        cost += LANE_SUM * sum(1 for kind in walk.kinds if kind) * lanes / max(inner, 1)
    return cost


def _access_cost(stride: int) -> float:
    return 0.1 if stride == 0 else 1.0 if stride == 1 else STRIDED


def _scratch_fits(walks: Sequence[Walk], target: Target) -> bool:
    """Across rows, the scratch holds a row for every lane."""
    return max(_scratch_bytes(walk) * full_lanes(walk, target) for walk in walks) <= MOST_SCRATCH


def _scratch_bytes(walk: Walk) -> int:
    """What a walk keeps of one row for later walks."""
    inner = math.prod(walk.sizes[walk.parallel :])
    kept = [access for access in walk.outputs if access.is_temporary and len(access.dims) > walk.parallel]
    return sum(inner * access.element.bytes for access in kept)


def widest_bits(walk: Walk) -> int:
    """The width of the elements that the body mostly computes with."""
    found: list[ScalarType] = [access.element for access in walk.memory]
    for operation in walk.block:
        found += [value.type for value in operation.results if isinstance(value.type, ScalarType)]
    floats = [type_.bits for type_ in found if type_.is_float]
    if floats:
        return max(floats)
    return max((type_.bits for type_ in found if type_ is not index), default=32)


def full_lanes(walk: Walk, target: Target) -> int:
    return max(1, target.vector_bits // max(widest_bits(walk), 8))


def _fitting_lanes(walk: Walk, size: int, target: Target) -> int:
    """Lanes for a loop of `size`: no more than the next power of two."""
    return min(full_lanes(walk, target), 1 << max(0, (size - 1).bit_length()))


def _unroll(walk: Walk, count: int) -> int:
    """How many vectors a loop of `count` vector steps takes at once."""
    cost = body_cost(_names(walk))
    wanted = 1
    if walk.reduces:
        wanted = 4 if cost <= 16 else 2
    elif cost <= 8:
        wanted = 2
    return max(1, min(wanted, count))


# reducing nests


def _reducing_schedules(nest: LoopNest, across: int, target: Target, is_large: bool) -> list[Schedule]:
    order = [dim for dim in _by_stride(nest.walks, range(len(nest.sizes))) if dim != across]
    lanes = unroll = 1
    if across >= 0:
        full = [walk for walk in nest.walks if walk.is_full]
        lanes = min(_fitting_lanes(walk, nest.sizes[across], target) for walk in full)
        rows = math.prod(nest.sizes[dim] for dim in order)
        unroll = _unroll_across(full, nest.sizes[across], lanes, rows, target)
    counts = [nest.sizes[dim] for dim in order]
    if across >= 0:
        order, counts = [*order, across], [*counts, -(-nest.sizes[across] // (lanes * unroll))]
    parallel = _parallel_count(counts, target) if is_large else 0
    found: list[Schedule] = []
    for walk in nest.walks:
        inner = tuple(_by_stride([walk], _inner(walk)))
        if across < 0 and walk.is_full:
            vector = min(_inner(walk), key=lambda dim: _lane_cost(walk, dim, target))
            inner = (*(dim for dim in inner if dim != vector), vector)
            lanes = _fitting_lanes(walk, walk.sizes[vector], target)
            unroll = _unroll(walk, walk.sizes[vector] // lanes)
        found.append(
            Schedule(
                tuple(order),
                parallel,
                0,
                across,
                inner,
                lanes,
                unroll,
                _streams(walk, target),
                -1,
                not parallel,
            )
        )
    return found


def _unroll_across(walks: Sequence[Walk], size: int, lanes: int, rows: int, target: Target) -> int:
    """Vectors side by side: independent accumulators, and long pieces of every row for the prefetcher.

    A column sum of 4096 x 4096 took 9.7, 6.6, 4.5, 4.2 ms with 2, 4, 8, 16 vectors of 512 bits.
    """
    cost = max(body_cost(_names(walk)) for walk in walks)
    wanted = 4 if cost <= 16 else 2 if cost <= 40 else 1
    steps = -(-size // lanes)
    if cost <= 4 and len(walks) == 1 and lanes > 1:
        wanted = 16 if target.vector_bits >= 512 else 8
        while wanted > 4 and rows * -(-steps // wanted) < 2 * target.cores:
            wanted //= 2
    while wanted > 1 and wanted * lanes * sum(map(_scratch_bytes, walks)) > MOST_SCRATCH:
        wanted //= 2
    if lanes == 1:
        return math.gcd(wanted, size)  # scalar code has no masks for what is left
    while wanted > 1 and (steps < wanted or -(-steps // wanted) * wanted > steps * 1.25):
        wanted //= 2
    return wanted


def _by_stride(walks: Sequence[Walk], dims: Iterable[int]) -> list[int]:
    """Dimensions in the order of memory: the largest strides first, of the first access that has them."""
    accesses: list[Access] = []
    for walk in walks:
        accesses += [access for access in walk.outputs if not access.is_temporary]
    for walk in walks:
        accesses += [access for access in walk.inputs if not access.is_temporary]

    def key(dim: int) -> tuple[int, int]:
        strides = [abs(access.strides[dim]) for access in accesses if dim < len(access.strides)]
        return -next((stride for stride in strides if stride), 0), dim

    return sorted(dims, key=key)


def _parallel_count(counts: Sequence[int], target: Target) -> int:
    """How many of the outer loops to collapse so that every core gets enough iterations."""
    total = 1
    for position, count in enumerate(counts):
        total *= count
        if total >= ROUNDS * target.cores:
            return position + 1
    return len(counts)


def _is_large(nest: LoopNest, target: Target) -> bool:
    """Whether the work is worth several threads."""
    if target.cores < 2:
        return False
    seconds = 0.0
    for walk in nest.walks:
        points = math.prod(walk.sizes)
        lanes = full_lanes(walk, target)
        moved = sum(
            math.prod(walk.sizes[dim] for dim in access.dims) * access.element.bytes for access in walk.memory
        )
        steps = points / lanes * (1 + body_cost(_names(walk)))
        seconds += serial_seconds(moved, steps, target)
    return seconds > WORTH_LAUNCHES * target.launch_seconds


def serial_seconds(moved: float, steps: float, target: Target) -> float:
    """What one core takes for so many bytes and vector operations, about."""
    return max(moved * target.cores / target.cache_bandwidth, steps / STEPS_A_SECOND)


def is_worth_sharing(moved: float, steps: float, target: Target) -> bool:
    """Whether several threads should do so many bytes and vector operations."""
    return serial_seconds(moved, steps, target) > WORTH_LAUNCHES * target.launch_seconds


WORTH_LAUNCHES = 4
"""Work that takes longer than so many launches is shared."""
STEPS_A_SECOND = 3e9
"""Vector operations that one core does in a second, about."""


# pointwise nests


def _choose_pointwise(nest: LoopNest, target: Target, is_large: bool) -> list[Schedule]:
    walks = [walk for walk in nest.walks if not walk.is_initialization]
    rank = len(nest.sizes)
    order = _by_stride(walks, range(rank))
    vector = min(
        reversed(order), key=lambda dim: sum(_lane_cost(walk, dim, target) for walk in walks), default=-1
    )
    rows = _tiled_rows(walks, vector, target)
    outer = [dim for dim in order if dim not in (vector, rows)]
    counts = [nest.sizes[dim] for dim in outer]
    parallel = _parallel_count(counts, target) if is_large else 0
    chunk = 0
    if rows >= 0:
        parallel = len(outer) if is_large else 0
        chunk = 64 if max(access.element.bytes for access in walks[0].memory) <= 4 else 32
    elif is_large and vector >= 0 and math.prod(counts) < ROUNDS * target.cores:
        chunk = _chunk(walks, nest.sizes[vector], max(1, math.prod(counts)), target)
    found: list[Schedule] = []
    for walk in nest.walks:
        lanes = _fitting_lanes(walk, walk.sizes[vector], target) if vector >= 0 else 1
        unroll = _unroll(walk, walk.sizes[vector] // lanes) if vector >= 0 else 1
        inner = tuple(dim for dim in (rows, vector) if dim >= 0)
        found.append(
            Schedule(
                tuple(outer),
                parallel,
                chunk,
                -1,
                inner,
                lanes,
                unroll,
                _streams(walk, target),
                rows,
                not is_large,
            )
        )
    return found


def _tiled_rows(walks: Sequence[Walk], vector: int, target: Target) -> int:
    """The dimension that accesses across the lanes are contiguous in; -1 when tiles would not help."""
    if vector < 0 or len(walks) != 1:
        return -1
    walk = walks[0]
    if min(full_lanes(walk, target), MOST_LANES) < 4 or walk.sizes[vector] < SMALLEST_TILED:
        return -1
    outputs = [access for access in walk.outputs if not access.is_temporary]
    for access in [access for access in walk.inputs if access.scalar.uses] + outputs:
        if access.strides[vector] in (0, 1):
            continue
        for dim, stride in enumerate(access.strides):
            if stride == 1 and walk.sizes[dim] >= SMALLEST_TILED:
                return dim
    return -1


def _streams(walk: Walk, target: Target) -> bool:
    """Whether to store past the caches: it saves reading every line before it is written."""
    written = sum(
        math.prod(walk.sizes[dim] for dim in access.dims) * access.element.bytes
        for access in walk.outputs
        if not access.is_temporary
    )
    return not walk.reduces and written >= STREAM * target.l2_bytes


def _chunk(walks: Sequence[Walk], size: int, rows: int, target: Target) -> int:
    """Elements of the vector dimension that one parallel iteration takes: a multiple of every step."""
    widest = max(access.element.bytes for walk in walks for access in walk.memory)
    chunk = CHUNK_BYTES // widest
    while chunk > 1024 and rows * (size // chunk) < ROUNDS * target.cores:
        chunk //= 2
    return chunk if chunk < size else 0
