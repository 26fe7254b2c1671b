"""Random tensor-level programs: elementwise chains, reductions, views, gathers, concatenations, library calls."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from lamina.ir.attributes import UNIT, DenseElementsAttr, integers
from lamina.ir.core import Block, Builder, Operation, Region, Value, make_module
from lamina.ir.types import FunctionType, TensorType, f32, i64
from lamina.passes.fusion.graph import shape_of, tensor_type
from lamina.passes.fusion.layouts import contiguous
from lamina.passes.tensor.reshape import reshape

Shape = tuple[int, ...]
Step = Callable[[Value], Value | None]
SIZES = (1, 2, 3, 4, 6, 8, 12)
UNARY = ("math.tanh", "math.sin", "arith.negf", "math.absf")
BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf")


class Maker:
    """Grows one program; every value stays small in magnitude, so that results can be compared."""

    def __init__(self, seed: int, inputs: int = 3, steps: int = 14) -> None:
        self.random = random.Random(seed)
        shapes = [self._shape() for _ in range(inputs)]
        self.block = Block(TensorType.get(shape, f32) for shape in shapes)
        self.builder = Builder(self.block)
        self.values: list[Value] = list(self.block.arguments)
        for _ in range(steps):
            self._grow()

    def _shape(self) -> Shape:
        return tuple(self.random.choice(SIZES) for _ in range(self.random.randint(1, 3)))

    def _pick(self) -> Value:
        # Late values are picked more often: chains rather than bushes.
        return self.values[-1 - min(int(self.random.expovariate(0.3)), len(self.values) - 1)]

    def _grow(self) -> None:
        steps: tuple[Step, ...] = (
            self._unary, self._binary, self._binary, self._binary, self._reduce, self._reduce_back, self._permute,
            self._reshape, self._slice, self._concat, self._broadcast, self._gather, self._pad, self._reverse,
            self._library,
        )  # fmt: skip
        picked = self._pick()
        if not shape_of(picked):
            steps = (self._unary, self._binary, self._broadcast, self._library)
        made = self.random.choice(steps)(picked)
        if made is not None:
            self.values.append(made)

    def _same(self, name: str, *operands: Value) -> Value:
        return self.builder.value(name, operands, operands[0].type)

    def _unary(self, x: Value) -> Value:
        return self._same(self.random.choice(UNARY), x)

    def _binary(self, x: Value) -> Value:
        others = [value for value in self.values if value.type is x.type]
        small = [value for value in self.values if self._fits(value, x)]
        other = (
            self.random.choice(small) if small and self.random.random() < 0.5 else self.random.choice(others)
        )
        made = self._same(self.random.choice(BINARY), x, self._to_shape(other, shape_of(x)))
        return self._same("math.sin", made) if self.random.random() < 0.5 else made

    @staticmethod
    def _fits(small: Value, large: Value) -> bool:
        """Whether one broadcasts to the other, from the right as in NumPy."""
        one, other = shape_of(small), shape_of(large)
        pairs = zip(one[::-1], other[::-1], strict=False)
        return len(one) <= len(other) and all(size in (1, whole) for size, whole in pairs)

    def _to_shape(self, x: Value, shape: Shape) -> Value:
        if shape_of(x) == shape:
            return x
        dims = range(len(shape) - len(shape_of(x)), len(shape))
        return self._broadcast_to(x, shape, list(dims))

    def _broadcast_to(self, x: Value, shape: Shape, dims: list[int]) -> Value:
        attributes = {"dims": integers(*dims)}
        return self.builder.value("lamina.broadcast", (x,), TensorType.get(shape, f32), attributes)

    def _reduce(self, x: Value) -> Value:
        shape = shape_of(x)
        dims = sorted(self.random.sample(range(len(shape)), self.random.randint(1, len(shape))))
        kind = self.random.choice(("add", "max", "min"))
        kept = tuple(size for k, size in enumerate(shape) if k not in dims)
        attributes = {"kind": kind, "dims": integers(*dims)}
        made = self.builder.value("lamina.reduce", (x,), TensorType.get(kept, f32), attributes)
        return self._same("math.sin", made)

    def _reduce_back(self, x: Value) -> Value:
        """Subtract what a reduction over some dimensions gives, as softmax and layer norm do."""
        shape = shape_of(x)
        dim = self.random.randrange(len(shape))
        kept = [k for k in range(len(shape)) if k != dim]
        attributes = {"kind": self.random.choice(("add", "max")), "dims": integers(dim)}
        type_ = TensorType.get(tuple(shape[k] for k in kept), f32)
        reduced = self.builder.value("lamina.reduce", (x,), type_, attributes)
        made = self._same("arith.subf", x, self._broadcast_to(reduced, shape, kept))
        return self._same("math.tanh", made)

    def _permute(self, x: Value) -> Value:
        perm = list(range(len(shape_of(x))))
        self.random.shuffle(perm)
        type_ = TensorType.get(tuple(shape_of(x)[k] for k in perm), f32)
        return self.builder.value("lamina.permute", (x,), type_, {"perm": integers(*perm)})

    def _reshape(self, x: Value) -> Value:
        total = int(np.prod(shape_of(x)))
        sizes, left = [], total
        while left > 1 and len(sizes) < 3:
            size = self.random.choice([k for k in range(1, left + 1) if left % k == 0])
            sizes.append(size)
            left //= size
        if left > 1 or not sizes:
            sizes.append(left)
        return reshape(self.builder, x, sizes)

    def _slice(self, x: Value) -> Value:
        offsets, sizes, strides = [], [], []
        for size in shape_of(x):
            start = self.random.randrange(size)
            step = self.random.choice((1, 1, 2))
            offsets.append(start)
            strides.append(step)
            sizes.append(self.random.randint(1, (size - start + step - 1) // step))
        attributes = {
            "static_offsets": integers(*offsets),
            "static_sizes": integers(*sizes),
            "static_strides": integers(*strides),
        }
        return self.builder.value("tensor.extract_slice", (x,), TensorType.get(tuple(sizes), f32), attributes)

    def _concat(self, x: Value) -> Value | None:
        shape = shape_of(x)
        dim = self.random.randrange(len(shape))
        others = [
            value
            for value in self.values
            if len(shape_of(value)) == len(shape)
            and all(k == dim or size == shape[k] for k, size in enumerate(shape_of(value)))
        ]
        pieces = [x, *(self.random.choice(others) for _ in range(self.random.randint(1, 2)))]
        total = sum(shape_of(piece)[dim] for piece in pieces)
        if total > 40:
            return None
        type_ = TensorType.get((*shape[:dim], total, *shape[dim + 1 :]), f32)
        return self.builder.value("tensor.concat", pieces, type_, {"dim": dim})

    def _broadcast(self, x: Value) -> Value | None:
        shape = list(shape_of(x))
        place = self.random.randint(0, len(shape))
        shape.insert(place, self.random.choice((2, 3)))
        if len(shape) > 4:
            return None
        return self._broadcast_to(x, tuple(shape), [k for k in range(len(shape)) if k != place])

    def _gather(self, x: Value) -> Value:
        shape = shape_of(x)
        dim, count = self.random.randrange(len(shape)), self.random.choice((2, 5))
        positions = self.builder.value("lamina.iota", (), TensorType.get((count,), i64), {"dim": 0})
        last = self._number(shape[dim] - 1, positions)
        positions = self._same("arith.minsi", positions, last)
        type_ = TensorType.get((*shape[:dim], count, *shape[dim + 1 :]), f32)
        return self.builder.value("lamina.index", (x, positions), type_, {"dims": integers(dim)})

    def _number(self, number: int, like: Value) -> Value:
        value = DenseElementsAttr.splat(number, tensor_type(like))
        return self.builder.value("arith.constant", (), like.type, {"value": value})

    def _pad(self, x: Value) -> Value:
        amounts = [(self.random.randint(0, 2), self.random.randint(0, 1)) for _ in shape_of(x)]
        shape = tuple(size + low + high for size, (low, high) in zip(shape_of(x), amounts, strict=True))
        type_ = TensorType.get((), f32)
        constant = {"value": DenseElementsAttr.splat(0.5, type_)}
        filling = self.builder.value("arith.constant", (), type_, constant)
        attributes = {
            side: integers(*(pair[k] for pair in amounts)) for k, side in enumerate(("low", "high"))
        }
        return self.builder.value("lamina.pad", (x, filling), TensorType.get(shape, f32), attributes)

    def _reverse(self, x: Value) -> Value:
        dim = self.random.randrange(len(shape_of(x)))
        return self.builder.value("lamina.reverse", (x,), x.type, {"dims": integers(dim)})

    def _library(self, x: Value) -> Value:
        attributes = {"args": [UNIT], "result_strides": [list(contiguous(shape_of(x)))]}
        return self.builder.op("aten.neg.default", (x,), (x.type,), attributes).result

    def module(self) -> Operation:
        """@main returns the values that nothing uses, and one that something does."""
        used = [value for value in self.values if value.uses and value not in self.block.arguments]
        returned = [value for value in self.values if not value.uses]
        returned += self.random.sample(used, min(1, len(used)))
        self.builder.op("func.return", returned)
        inputs = tuple(argument.type for argument in self.block.arguments)
        results = tuple(value.type for value in returned)
        attributes = {"sym_name": "main", "function_type": FunctionType.get(inputs, results)}
        function = Operation("func.func", attributes=attributes, regions=[Region([self.block])])
        module = make_module()
        module.body.append(function)
        return module

    def inputs(self) -> list[np.ndarray]:
        chosen = np.random.default_rng(0)
        return [chosen.uniform(-1, 1, shape_of(value)).astype(np.float32) for value in self.block.arguments]
