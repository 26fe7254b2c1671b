"""Loads and stores of a walk's operands: linear addresses built level by level, for scalars and lanes."""

from __future__ import annotations

from lamina.ir.attributes import Attribute, BoolAttr, FloatAttr, IntegerAttr
from lamina.ir.core import Value
from lamina.ir.ops.memref import as_memref
from lamina.ir.sizes import Size
from lamina.ir.types import ScalarType, VectorType, i1, i32, index
from lamina.passes.loops.frame import Frame, Laned, Lanes, Scalar
from lamina.passes.loops.walks import Access, Walk


class Accesses:
    """`copy` says for which of the vectors side by side."""

    def __init__(self, walk: Walk, frame: Frame) -> None:
        self.walk = walk
        self.frame = frame
        self.copy = 0

    def address(self, access: Access) -> tuple[Value, int]:
        """The linear address of the first lane's element, and the level it is built at."""
        frame = self.frame
        if access in frame.tiled:
            return self._tile_address(), len(frame.levels) - 1
        is_scratch = access.buffer in frame.scratch
        strides = self._scratch_strides(access) if is_scratch else access.strides
        terms = [
            (frame.counters[dim][1], frame.counters[dim][0], dim, stride)
            for dim, stride in enumerate(strides)
            if stride and dim in frame.counters and not (is_scratch and dim < self.walk.parallel)
        ]
        terms.sort(key=lambda term: term[0])
        address: Value | None = frame.number(access.offset) if access.offset else None
        at = 0
        key: tuple[object, ...] = (access.buffer, access.offset)
        for level, counter, dim, stride in terms:
            key = (*key, dim, stride)
            found: Value | None = frame.levels[level].built.get(key)
            if found is None:
                found = frame.scale(level, counter, stride)
                if address is not None:
                    found = frame.add(level, found, address)
                frame.levels[level].built[key] = found
            address, at = found, level
        if address is None:
            address = frame.number(0)
        apart = frame.lanes * self.copy
        if frame.is_across and is_scratch:
            return frame.add(at, address, apart), at
        return frame.add(at, address, apart * strides[frame.vector] if frame.vector >= 0 else 0), at

    def _tile_address(self) -> Value:
        """The place in the scratch of a tile: rows by lanes, counted from the tile's corner."""
        frame, tile = self.frame, self.frame.tile
        assert tile is not None
        row, at = frame.counters[tile.rows]
        built = frame.levels[at].built
        found: Value | None = built.get(tile)
        if found is None:
            builder = frame.levels[at].builder
            steps = builder.value("arith.subi", (row, tile.along_rows.first), index)
            start = frame.scale(at, steps, tile.edge)
            found = built[tile] = builder.value("arith.subi", (start, tile.along_vector.first), index)
        inner = len(frame.levels) - 1
        place = frame.add(inner, frame.counters[frame.vector][0], found)
        return frame.add(inner, place, frame.lanes * self.copy)

    def _scratch_strides(self, access: Access) -> tuple[int, ...]:
        """In scratch the parallel dimensions are gone; across rows, the lanes side by side are innermost."""
        side = self.frame.lanes * self.frame.unroll if self.frame.is_across else 1
        return tuple(
            0 if dim < self.walk.parallel else stride * side for dim, stride in enumerate(access.strides)
        )

    def lane_stride(self, access: Access) -> int:
        if self.frame.lanes == 1:
            return 0
        if access in self.frame.tiled or (access.buffer in self.frame.scratch and self.frame.is_across):
            return 1
        return access.strides[self.frame.vector]

    def buffer(self, access: Access) -> Value:
        tiled = self.frame.tiled.get(access)
        scratch = tiled if tiled is not None else self.frame.scratch.get(access.buffer)
        return scratch if scratch is not None else self.frame.flat(access.buffer)

    def read(self, memory: Value, address: Value, stride: int, level: int) -> Laned:
        """Elements `address + stride * lane`."""
        builder, element = self.frame.levels[level].builder, as_memref(memory.type).element
        if stride == 0:
            return Scalar(builder.value("memref.load", (memory, address), element), level)
        type_ = VectorType.get((self.frame.lanes,), element)
        if stride != 1:
            kind = self._index_type(stride)
            return self.gather(memory, address, self.frame.steps(stride, kind), level)
        mask = self.frame.masks.get(self.copy)
        if mask is None:
            return Lanes(builder.value("vector.load", (memory, address), type_))
        return Lanes(
            builder.value("vector.maskedload", (memory, address, mask, self._nothing(element)), type_)
        )

    def _index_type(self, stride: Size) -> ScalarType:
        """The narrowest type for the places of lanes so far apart."""
        return i32 if isinstance(stride, int) and abs(stride) * self.frame.lanes < 2**31 else index

    def gather(self, memory: Value, address: Value, places: Value, level: int) -> Lanes:
        element = as_memref(memory.type).element
        type_ = VectorType.get((self.frame.lanes,), element)
        operands = (memory, address, places, self._mask(), self._nothing(element))
        return Lanes(self.frame.levels[level].builder.value("vector.gather", operands, type_))

    def _nothing(self, element: ScalarType) -> Value:
        """What a load gives for lanes that do not exist."""
        zero: Attribute = FloatAttr(0.0, element) if element.is_float else IntegerAttr(0, element)
        return self.frame.splat(BoolAttr(False) if element is i1 else zero, element)

    def _mask(self) -> Value:
        mask = self.frame.masks.get(self.copy)
        return mask if mask is not None else self.frame.splat(BoolAttr(True), i1)

    def store(self, access: Access, value: Value) -> None:
        """Store a scalar, or one value a lane, as `lane_stride` says."""
        frame, builder = self.frame, self.frame.inner
        memory, stride = self.buffer(access), self.lane_stride(access)
        address, _ = self.address(access)
        if stride == 0:
            builder.op("memref.store", (value, memory, address))
            return
        mask = frame.masks.get(self.copy)
        if stride != 1:
            kind = self._index_type(stride)
            builder.op("vector.scatter", (memory, address, frame.steps(stride, kind), self._mask(), value))
        elif mask is None:
            streams = access.buffer in frame.streamed
            attributes = {"nontemporal": True, "alignment": frame.lanes * access.element.bytes}
            builder.op("vector.store", (value, memory, address), (), attributes if streams else None)
        else:
            builder.op("vector.maskedstore", (memory, address, mask, value))
