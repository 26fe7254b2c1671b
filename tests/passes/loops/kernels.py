"""Kernels for the tests of the loop passes: built by hand in the form that fusion gives, and at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lamina.ir.attributes import DenseElementsAttr, TypeAttr, integers
from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.types import (
    FunctionType,
    ScalarType,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i64,
)

Strides = Sequence[Sequence[int]]


class KernelBuilder(Builder):
    """Tensor operations by short names."""

    def apply(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """An elementwise operation whose result is like its first operand."""
        return self.value(name, operands, operands[0].type, attributes or None)

    def compare(self, a: Value, b: Value, predicate: int) -> Value:
        name = "arith.cmpf" if tensor(a).element.is_float else "arith.cmpi"
        type_ = TensorType.get(tensor(a).shape, i1)
        return self.value(name, (a, b), type_, {"predicate": predicate})

    def cast(self, name: str, value: Value, element: ScalarType) -> Value:
        return self.value(name, (value,), TensorType.get(tensor(value).shape, element))

    def splat(self, number: float, shape: Sequence[int], element: ScalarType = f32) -> Value:
        type_ = TensorType.get(tuple(shape), element)
        return self.value("arith.constant", (), type_, {"value": DenseElementsAttr.splat(number, type_)})

    def reduce(self, value: Value, kind: str, *dims: int) -> Value:
        shape = tuple(size for k, size in enumerate(tensor(value).shape) if k not in dims)
        element = i64 if kind.startswith("arg") else tensor(value).element
        attributes = {"kind": kind, "dims": integers(*dims)}
        return self.value("lamina.reduce", (value,), TensorType.get(shape, element), attributes)

    def broadcast(self, value: Value, shape: Sequence[int], *dims: int) -> Value:
        type_ = TensorType.get(tuple(shape), tensor(value).element)
        return self.value("lamina.broadcast", (value,), type_, {"dims": integers(*dims)})

    def structure(self, name: str, values: Sequence[Value], shape: Sequence[int], **attributes: Any) -> Value:
        type_ = TensorType.get(tuple(shape), tensor(values[0]).element)
        return self.value(name, values, type_, attributes)


def tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def kernel(
    types: Sequence[TensorType],
    build: Callable[..., Value | Sequence[Value]],
    arg_strides: Strides | None = None,
    result_strides: Strides | None = None,
) -> Operation:
    """A kernel function; `build(builder, *arguments)` gives the result or results."""
    block = Block(types)
    builder = KernelBuilder(block)
    made = build(builder, *block.arguments)
    results = [made] if isinstance(made, Value) else list(made)
    builder.op("func.return", results)
    type_ = FunctionType.get(tuple(types), tuple(value.type for value in results))
    attributes: dict[str, Any] = {"sym_name": "kernel_0", "function_type": TypeAttr(type_)}
    if arg_strides is not None:
        attributes["lamina.arg_strides"] = [list(strides) for strides in arg_strides]
    if result_strides is not None:
        attributes["lamina.result_strides"] = [list(strides) for strides in result_strides]
    return Operation("func.func", (), (), attributes, [Region([block])])


def matrix(rows: int, columns: int, element: ScalarType = f32) -> TensorType:
    return TensorType.get((rows, columns), element)


def softmax(rows: int, columns: int, dim: int = 1, arg_strides: Strides | None = None) -> Operation:
    shape, other = (rows, columns), 1 - dim

    def build(b: KernelBuilder, x: Value) -> Value:
        top = b.broadcast(b.reduce(x, "max", dim), shape, other)
        e = b.apply("math.exp", b.apply("arith.subf", x, top))
        return b.apply("arith.divf", e, b.broadcast(b.reduce(e, "add", dim), shape, other))

    return kernel([matrix(rows, columns)], build, arg_strides)


def layer_norm(rows: int, columns: int, element: ScalarType = f32) -> Operation:
    """Statistics in f32; also gives the means."""
    shape = (rows, columns)

    def build(b: KernelBuilder, given: Value, weight: Value) -> list[Value]:
        x = given if element in (f32, f64) else b.cast("arith.extf", given, f32)
        w = weight if element in (f32, f64) else b.cast("arith.extf", weight, f32)
        wide = tensor(x).element
        share = b.splat(1.0 / columns, (rows,), wide)
        mean = b.apply("arith.mulf", b.reduce(x, "add", 1), share)
        centred = b.apply("arith.subf", x, b.broadcast(mean, shape, 0))
        squares = b.reduce(b.apply("arith.mulf", centred, centred), "add", 1)
        deviation = b.apply("math.sqrt", b.apply("arith.addf", b.apply("arith.mulf", squares, share), share))
        y = b.apply("arith.divf", centred, b.broadcast(deviation, shape, 0))
        y = b.apply("arith.mulf", y, b.broadcast(w, shape, 1))
        return [y if element in (f32, f64) else b.cast("arith.truncf", y, element), mean]

    return kernel([matrix(rows, columns, element), TensorType.get((columns,), element)], build)


def reduction(rows: int, columns: int, kind: str, element: ScalarType, dim: int) -> Operation:
    return kernel([matrix(rows, columns, element)], lambda b, x: b.reduce(x, kind, dim))


def pointwise(
    shape: Sequence[int],
    element: ScalarType = f32,
    arg_strides: Strides | None = None,
    result_strides: Strides | None = None,
) -> Operation:
    def build(b: KernelBuilder, x: Value, y: Value) -> Value:
        names = ("arith.addf", "arith.mulf") if element.is_float else ("arith.addi", "arith.muli")
        return b.apply(names[1], b.apply(names[0], x, y), x)

    return kernel([TensorType.get(tuple(shape), element)] * 2, build, arg_strides, result_strides)


# at random

FLOATS = (f32, f64, f16, bf16)
MOST_POINTS = 4000
"""Of a random kernel: the interpreter takes some time for each."""


class RandomKernel:
    """A random program over one domain: arguments that walk parts of it, operations, reductions, stages."""

    def __init__(self, seed: int, *, with_math: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.with_math = with_math
        rank = int(self.rng.integers(1, 4))
        sizes = [1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 40, 64, 67, 130]
        domain = [int(self.rng.choice(sizes)) for _ in range(rank)]
        while np.prod(domain) > MOST_POINTS:
            domain[int(np.argmax(domain))] //= 2
        self.domain = tuple(domain)
        count = int(self.rng.integers(0, rank + 1))
        self.reduced = tuple(sorted(int(k) for k in self.rng.choice(rank, count, replace=False)))
        self.parallel = tuple(k for k in range(rank) if k not in self.reduced)
        self.element = FLOATS[int(self.rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))]

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(0, len(options)))]

    def make(self) -> Operation:
        self.dims = [self._argument_dims() for _ in range(int(self.rng.integers(1, 4)))]
        types = [TensorType.get(tuple(self.domain[k] for k in dims), self.element) for dims in self.dims]
        strides = [self._strides(type_) for type_ in types]
        results: list[Sequence[int]] = []

        def build(b: KernelBuilder, *arguments: Value) -> list[Value]:
            values = self._values(b, arguments)
            results.extend(self._strides(tensor(value), dense=True) for value in values)
            return values

        return kernel(types, build, strides, None)

    def _argument_dims(self) -> tuple[int, ...]:
        if self.rng.random() < 0.6:
            return tuple(range(len(self.domain)))
        kept = [k for k in range(len(self.domain)) if self.rng.random() < 0.6]
        return tuple(kept)

    def _strides(self, type_: TensorType, *, dense: bool = False) -> Sequence[int]:
        """Of a buffer in a random order of dimensions, with gaps now and then."""
        order = self.rng.permutation(type_.rank)
        strides, step = [0] * type_.rank, 1
        for k in order:
            strides[k] = step
            gap = 0 if dense or self.rng.random() < 0.8 else int(self.rng.integers(1, 4))
            step *= int(type_.shape[k]) + gap  # type: ignore[arg-type]
        return strides

    def _values(self, b: KernelBuilder, arguments: Sequence[Value]) -> list[Value]:
        wide = f32 if self.element in (f16, bf16) else self.element
        full: list[Value] = []
        rows: list[Value] = []
        for value, dims in zip(arguments, self.dims, strict=True):
            if wide is not self.element:
                value = b.cast("arith.extf", value, wide)
            full.append(value if len(dims) == len(self.domain) else b.broadcast(value, self.domain, *dims))
        self.wide = wide
        for _ in range(int(self.rng.integers(1, 9))):
            if self.reduced and self.rng.random() < 0.3:
                rows.append(self._reduce(b, self.pick(full)))
                full.append(b.broadcast(rows[-1], self.domain, *self.parallel))
            elif rows and self.rng.random() < 0.3:
                rows.append(self._combine(b, rows))
            else:
                full.append(self._combine(b, full))
        results = [full[-1]]
        if rows and self.rng.random() < 0.7:
            results.append(rows[-1])
        if self.rng.random() < 0.3:
            results.append(self.pick(full))
        if wide is not self.element:
            results = [b.cast("arith.truncf", value, self.element) for value in results]
        return results

    def _reduce(self, b: KernelBuilder, value: Value) -> Value:
        kinds = ["add", "add", "max", "min"] + (["argmax", "argmin"] if len(self.reduced) == 1 else [])
        kind = self.pick(kinds)
        if kind == "add":
            share = 1.0
            for k in self.reduced:
                share /= self.domain[k]
            result = b.reduce(value, kind, *self.reduced)
            return b.apply("arith.mulf", result, b.splat(share, tensor(result).shape, self.wide))  # type: ignore[arg-type]
        result = b.reduce(value, kind, *self.reduced)
        return b.cast("arith.sitofp", result, self.wide) if kind.startswith("arg") else result

    def _combine(self, b: KernelBuilder, values: Sequence[Value]) -> Value:
        x, y = self.pick(values), self.pick(values)
        names = [
            "addf",
            "subf",
            "mulf",
            "maximumf",
            "minimumf",
            "negf",
            "absf",
            "tanh",
            "select",
            "iota",
            "div",
        ]
        name = self.pick(names)
        shape = tensor(x).shape
        if name == "tanh":
            return b.apply("math.tanh" if self.with_math else "math.absf", x)
        if name == "negf":
            return b.apply("arith.negf", x)
        if name == "absf":
            return b.apply("math.sqrt", b.apply("math.absf", x))
        if name == "select":
            return b.value("arith.select", (b.compare(x, y, int(self.rng.integers(1, 15))), x, y), x.type)
        if name == "iota" and shape:
            type_ = TensorType.get(shape, i64)
            steps = b.value("lamina.iota", (), type_, {"dim": int(self.rng.integers(0, len(shape)))})
            part = b.value("arith.constant", (), type_, {"value": DenseElementsAttr.splat(7, type_)})
            return b.apply(
                "arith.addf", x, b.cast("arith.sitofp", b.apply("arith.remsi", steps, part), self.wide)
            )
        if name == "div":
            one = b.splat(1.5, shape, self.wide)  # type: ignore[arg-type]
            return b.apply("arith.divf", x, b.apply("arith.addf", b.apply("math.absf", y), one))
        if name == "mulf":
            # Values stay within bounds, so that no tolerance has to grow with the program.
            return b.apply("arith.mulf", x, b.splat(float(self.rng.uniform(-1.5, 1.5)), shape, self.wide))  # type: ignore[arg-type]
        if name == "iota":
            return b.apply("arith.negf", x)
        return b.apply(f"arith.{name}", x, y)
