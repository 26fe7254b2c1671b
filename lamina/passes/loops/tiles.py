"""Transposed accesses by tiles: a square of memory is turned in registers; in scratch it lies the other way.

    out[w, v] = x[v, w] + y[w, v]      =>      for every tile of 64 x 64:
                                                 scratch[w, v] = x[v, w]
                                                 out[w, v] = scratch[w, v] + y[w, v]

A result that lies the other way is computed into scratch and turned after that.

The copy takes 16 x 16 elements at a time: 16 vectors along w become 16 vectors along v. Transposing a block
of B = 2^n vectors is n rounds of B shuffles, each of which interleaves vector i with vector i + B / 2 (the
perfect shuffle network; D. Fraser, "Array permutation by index-digit permutation", 1976).
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.ir.attributes import integers
from lamina.ir.core import Value
from lamina.ir.ops.memref import as_memref
from lamina.ir.ops.scf import make_for
from lamina.ir.types import VectorType, index
from lamina.passes.loops.costs import MOST_LANES
from lamina.passes.loops.frame import Frame, Range, Tile
from lamina.passes.loops.walks import Access


def pack(frame: Frame, access: Access, tile: Tile, size: tuple[int, int]) -> None:
    """Copy the tile of `access` into its scratch, rows by lanes.

    size: that of the whole dimensions `rows` and `vector`: whether blocks can be left over.
    """
    buffer, scratch = _Buffer(frame, access, tile), _Scratch(frame, frame.tiled[access], tile)
    _Turning(frame, tile, buffer, scratch, rows_first=False).build(size)


def unpack(frame: Frame, access: Access, tile: Tile, size: tuple[int, int]) -> None:
    """The other way around: the scratch of an output into its buffer."""
    buffer, scratch = _Buffer(frame, access, tile), _Scratch(frame, frame.tiled[access], tile)
    _Turning(frame, tile, scratch, buffer, rows_first=True).build(size)


class _Buffer:
    """The memory of an access: contiguous along the rows dimension, `step` apart along the lanes."""

    def __init__(self, frame: Frame, access: Access, tile: Tile) -> None:
        self.frame = frame
        self.memory = frame.flat(access.buffer)
        self.step = access.strides[frame.vector]
        self.base = frame.number(access.offset)
        for dim, stride in enumerate(access.strides):
            if stride and dim in frame.counters and dim not in (tile.rows, frame.vector):
                self.base = frame.add(0, frame.scale(0, frame.counters[dim][0], stride), self.base)

    def place(self, lane: Value, row: Value) -> Value:
        level = len(self.frame.levels) - 1
        start = self.frame.add(level, self.frame.scale(level, lane, self.step), self.base)
        return self.frame.add(level, start, row)


class _Scratch:
    """The tile: contiguous along the lanes, `step` apart along the rows dimension."""

    def __init__(self, frame: Frame, memory: Value, tile: Tile) -> None:
        self.frame = frame
        self.memory = memory
        self.tile = tile
        self.step = tile.edge

    def place(self, lane: Value, row: Value) -> Value:
        builder, level = self.frame.inner, len(self.frame.levels) - 1
        row = builder.value("arith.subi", (row, self.tile.along_rows.first), index)
        lane = builder.value("arith.subi", (lane, self.tile.along_vector.first), index)
        return self.frame.add(level, self.frame.scale(level, row, self.step), lane)


class _Turning:
    """Copies a tile from where it is contiguous one way to where it is contiguous the other way.

    rows_first: the inner loop of blocks walks the lanes (what the target is spread along), else the rows.
    """

    def __init__(
        self,
        frame: Frame,
        tile: Tile,
        source: _Buffer | _Scratch,
        target: _Buffer | _Scratch,
        *,
        rows_first: bool,
    ) -> None:
        self.frame = frame
        self.tile = tile
        self.source = source
        self.target = target
        self.rows_first = rows_first
        self.element = as_memref(source.memory.type).element
        self.block = min(frame.lanes, MOST_LANES)

    def build(self, size: tuple[int, int]) -> None:
        rows, lanes = self.tile.along_rows, self.tile.along_vector
        has_rest = tuple(length % self.block != 0 for length in size)
        row_end = self._whole(rows) if has_rest[0] else rows.last
        lane_end = self._whole(lanes) if has_rest[1] else lanes.last
        over_rows, over_lanes = (rows.first, row_end, self.block), (lanes.first, lane_end, self.block)
        if self.rows_first:
            self._for(over_rows, lambda w: self._for(over_lanes, lambda v: self._turn(v, w)))
        else:
            self._for(over_lanes, lambda v: self._for(over_rows, lambda w: self._turn(v, w)))
        if has_rest[0]:
            self._copy((lanes.first, lane_end), (row_end, rows.last))
        if has_rest[1]:
            self._copy((lane_end, lanes.last), (rows.first, rows.last))

    def _whole(self, part: Range) -> Value:
        """Where the last whole block ends."""
        builder, block = self.frame.inner, self.frame.number(self.block)
        length = builder.value("arith.subi", (part.last, part.first), index)
        rest = builder.value("arith.remui", (length, block), index)
        return builder.value("arith.subi", (part.last, rest), index)

    def _for(self, bounds: tuple[Value, Value, int], inside: Callable[[Value], None]) -> None:
        frame = self.frame
        outer = frame.inner
        loop = make_for(outer, bounds[0], bounds[1], frame.number(bounds[2]), ())
        frame.push(loop.body)
        inside(loop.body.arguments[0])
        frame.inner.op("scf.yield")
        frame.pop()
        outer.insert(loop)

    def _copy(self, lanes: tuple[Value, Value], rows: tuple[Value, Value]) -> None:
        """Element by element."""

        def move(v: Value, w: Value) -> None:
            operands = (self.source.memory, self.source.place(v, w))
            value = self.frame.inner.value("memref.load", operands, self.element)
            self.frame.inner.op("memref.store", (value, self.target.memory, self.target.place(v, w)))

        self._for((*lanes, 1), lambda v: self._for((*rows, 1), lambda w: move(v, w)))

    def _turn(self, v: Value, w: Value) -> None:
        """One block: vectors along one dimension become vectors along the other."""
        builder, level = self.frame.inner, len(self.frame.levels) - 1
        type_ = VectorType.get((self.block,), self.element)
        place = self.source.place(v, w)
        vectors: list[Value] = []
        for _ in range(self.block):
            vectors.append(builder.value("vector.load", (self.source.memory, place), type_))
            place = self.frame.add(level, place, self.source.step)
        half = self.block // 2
        low = [lane for k in range(half) for lane in (k, k + self.block)]
        high = [lane + half for lane in low]
        count = half
        while count:
            pairs = [(vectors[k], vectors[k + half]) for k in range(half)]
            vectors = [
                builder.value("vector.shuffle", pair, type_, {"mask": integers(*mask)})
                for pair in pairs
                for mask in (low, high)
            ]
            count //= 2
        place = self.target.place(v, w)
        for vector in vectors:
            builder.op("vector.store", (vector, self.target.memory, place))
            place = self.frame.add(level, place, self.target.step)
