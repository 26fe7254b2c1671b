"""Transposed reads by tiles: a square of the source is turned in registers and kept in scratch.

    out[w, v] = x[v, w] + y[w, v]      =>      for every tile of 64 x 64:
                                                 scratch[w, v] = x[v, w]
                                                 out[w, v] = scratch[w, v] + y[w, v]

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
from lamina.passes.loops.lanes import Frame, Range, Tile
from lamina.passes.loops.walks import Access


def pack(frame: Frame, access: Access, scratch: Value, tile: Tile, size: tuple[int, int]) -> None:
    """Copy the tile of `access` into `scratch`, rows by vector dimension.

    size: that of the whole dimensions `rows` and `vector`: whether blocks can be left over.
    """
    _Packing(frame, access, scratch, tile).build(size)


class _Packing:
    def __init__(self, frame: Frame, access: Access, scratch: Value, tile: Tile) -> None:
        self.frame = frame
        self.tile = tile
        self.scratch = scratch
        self.memory = frame.flat(access.buffer)
        self.element = as_memref(self.memory.type).element
        self.block = min(frame.lanes, MOST_LANES)
        self.step = access.strides[frame.vector]
        base = frame.number(access.offset)
        for dim, stride in enumerate(access.strides):
            if stride and dim in frame.counters and dim not in (tile.rows, frame.vector):
                base = frame.add(0, frame.scale(0, frame.counters[dim][0], stride), base)
        self.base = base

    def build(self, size: tuple[int, int]) -> None:
        rows, lanes = self.tile.along_rows, self.tile.along_vector
        has_rest = tuple(length % self.block != 0 for length in size)
        row_end = self._whole(rows) if has_rest[0] else rows.last
        lane_end = self._whole(lanes) if has_rest[1] else lanes.last
        self._for(
            lanes.first, lane_end, self.block,
            lambda v: self._for(rows.first, row_end, self.block, lambda w: self._turn(v, w)),
        )  # fmt: skip
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

    def _for(self, first: Value, last: Value, step: int, inside: Callable[[Value], None]) -> None:
        frame = self.frame
        outer = frame.inner
        loop = make_for(outer, first, last, frame.number(step), ())
        frame.push(loop.body)
        inside(loop.body.arguments[0])
        frame.inner.op("scf.yield")
        frame.pop()
        outer.insert(loop)

    def _source(self, v: Value, w: Value) -> Value:
        level = len(self.frame.levels) - 1
        row = self.frame.add(level, self.frame.scale(level, v, self.step), self.base)
        return self.frame.add(level, row, w)

    def _place(self, v: Value, w: Value) -> Value:
        builder, level = self.frame.inner, len(self.frame.levels) - 1
        row = builder.value("arith.subi", (w, self.tile.along_rows.first), index)
        lane = builder.value("arith.subi", (v, self.tile.along_vector.first), index)
        return self.frame.add(level, self.frame.scale(level, row, self.tile.edge), lane)

    def _copy(self, lanes: tuple[Value, Value], rows: tuple[Value, Value]) -> None:
        """Element by element."""

        def move(v: Value, w: Value) -> None:
            value = self.frame.inner.value("memref.load", (self.memory, self._source(v, w)), self.element)
            self.frame.inner.op("memref.store", (value, self.scratch, self._place(v, w)))

        self._for(*lanes, 1, lambda v: self._for(*rows, 1, lambda w: move(v, w)))

    def _turn(self, v: Value, w: Value) -> None:
        """One block: vectors along the rows dimension become vectors along the lanes."""
        builder, level = self.frame.inner, len(self.frame.levels) - 1
        type_ = VectorType.get((self.block,), self.element)
        address = self._source(v, w)
        vectors: list[Value] = []
        for _ in range(self.block):
            vectors.append(builder.value("vector.load", (self.memory, address), type_))
            address = self.frame.add(level, address, self.step)
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
        place = self._place(v, w)
        for vector in vectors:
            builder.op("vector.store", (vector, self.scratch, place))
            place = self.frame.add(level, place, self.tile.edge)
