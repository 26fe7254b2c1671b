"""Control flow, parallel loops, memory views and scratch, compiled and run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lamina.codegen.llvm.build import build
from lamina.ir.attributes import DenseArrayAttr
from lamina.ir.core import Value
from lamina.ir.sizes import SymbolicSize
from lamina.ir.types import MemRefType, f32, i1, i32, i64, index
from lamina.runtime.devices.cpu.library import has_threads
from tests.codegen.programs import Body, function, instruction_sets, memref, run, vector, widest

DYNAMIC = -(1 << 63)


def test_loop_carries_values() -> None:
    def body(b: Body, x: Value, y: Value) -> None:
        def step(inner: Body, k: Value, total: Value, count: Value) -> Sequence[Value]:
            value = inner.load(x, k)
            return inner.binary("arith.addf", total, value), inner.binary(
                "arith.addi", count, inner.number(1, i64)
            )

        total, count = b.loop(0, 10, 1, step, (b.number(0.0, f32), b.number(0, i64)))
        b.store(total, y, b.at(0))
        b.store(b.value("arith.sitofp", (count,), f32), y, b.at(1))

    x, y = np.arange(10, dtype=np.float32), np.zeros(2, np.float32)
    run(function([memref([10], f32), memref([2], f32)], body), x, y)
    assert y.tolist() == [45.0, 10.0]


@pytest.mark.parametrize(
    ("first", "last", "step"), [(0, 0, 1), (5, 3, 1), (0, 1, 1), (0, 7, 3), (2, 10, 8), (0, 3, 8)]
)
def test_loop_bounds(first: int, last: int, step: int) -> None:
    """Constant bounds and loaded ones run the same iterations."""

    def constant(b: Body, bounds: Value, out: Value) -> None:
        b.loop(first, last, step, lambda inner, k: mark(inner, k, out))

    def loaded(b: Body, bounds: Value, out: Value) -> None:
        low, high = (b.value("arith.index_cast", (b.load(bounds, b.at(k)),), index) for k in range(2))
        b.loop(low, high, step, lambda inner, k: mark(inner, k, out))

    def mark(b: Body, k: Value, out: Value) -> Sequence[Value]:
        b.store(b.number(1.0, f32), out, k)
        return ()

    want = np.zeros(16, np.float32)
    want[list(range(first, last, step))] = 1
    for body in (constant, loaded):
        out = np.zeros(16, np.float32)
        run(function([memref([2], i64), memref([16], f32)], body), np.array([first, last]), out)
        np.testing.assert_array_equal(out, want)


def test_if_with_and_without_results() -> None:
    def body(b: Body, x: Value, y: Value) -> None:
        def step(inner: Body, k: Value) -> Sequence[Value]:
            value = inner.load(x, k)
            is_negative = inner.value("arith.cmpf", (value, inner.number(0.0, f32)), i1, {"predicate": 4})
            (result,) = inner.when(
                is_negative,
                lambda then: [then.value("arith.negf", (value,), f32)],
                lambda other: [other.binary("arith.addf", value, value)],
                [f32],
            )
            inner.store(result, y, k)

            def fix(then: Body) -> Sequence[Value]:
                then.store(then.number(-1.0, f32), x, k)
                return ()

            inner.when(is_negative, fix, None)
            return ()

        b.loop(0, 6, 1, step)

    x, y = np.array([1, -2, 3, -4, 0, 5], np.float32), np.zeros(6, np.float32)
    run(function([memref([6], f32)] * 2, body), x, y)
    assert y.tolist() == [2, 2, 6, 4, 0, 10]
    assert x.tolist() == [1, -1, 3, -1, 0, 5]


def rows_sum(rows: int, columns: int, lanes: int) -> object:
    """y[r] = sum of x[r, :], parallel over rows, with a value from before the loop added."""
    form = vector(lanes, f32)

    def body(b: Body, x: Value, extra: Value, y: Value) -> None:
        outside = b.load(extra, b.at(0))
        splat = b.value("vector.broadcast", (outside,), form)

        def row(inner: Body, r: Value) -> None:
            def step(innermost: Body, c: Value, total: Value) -> Sequence[Value]:
                return (innermost.binary("arith.addf", total, innermost.load(x, r, c, type_=form)),)

            (total,) = inner.loop(0, columns, lanes, step, (splat,))
            inner.store(inner.reduce("add", total, outside), y, r)

        b.parallel(0, rows, 1, row)

    return function([memref([rows, columns], f32), memref([1], f32), memref([rows], f32)], body)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [1, 2, 5, 64])
def test_parallel_loop(rows: int, threads: int) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 64)).astype(np.float32)
    extra, y = np.array([0.5], np.float32), np.zeros(rows, np.float32)
    run(rows_sum(rows, 64, 16), x, extra, y, threads=threads)  # type: ignore[arg-type]
    np.testing.assert_allclose(y, x.sum(1) + 0.5 * 17, rtol=1e-5, atol=1e-5)


def test_threads_take_disjoint_parts() -> None:
    """Each iteration runs once, whatever the number of threads."""

    def body(b: Body, x: Value) -> None:
        def step(inner: Body, k: Value) -> None:
            inner.store(inner.binary("arith.addi", inner.load(x, k), inner.number(1, i32)), x, k)

        b.parallel(3, 1000, 7, step)

    want = np.zeros(1000, np.int32)
    want[3:1000:7] = 1
    built = build([function([memref([1000], i32)], body)], widest())
    for threads in (1, 2, 4, 8):
        x = np.zeros(1000, np.int32)
        run(built, x, threads=threads)
        np.testing.assert_array_equal(x, want)


def test_kernels_run_from_many_threads_at_once() -> None:
    built = build([rows_sum(256, 64, 16)], widest())  # type: ignore[list-item]
    x, extra = np.ones((256, 64), np.float32), np.zeros(1, np.float32)

    def call(_: int) -> np.ndarray[object, np.dtype[np.float32]]:
        y = np.zeros(256, np.float32)
        run(built, x, extra, y, threads=2)
        return y

    with ThreadPoolExecutor(4) as pool:
        for y in pool.map(call, range(32)):
            np.testing.assert_array_equal(y, np.full(256, 64, np.float32))


def test_this_process_has_threads() -> None:
    assert has_threads()


def test_nested_parallel_runs_as_loops() -> None:
    def body(b: Body, x: Value) -> None:
        def outer(inner: Body, r: Value) -> Sequence[Value]:
            inner.parallel(0, 4, 1, lambda deep, c: deep.store(deep.number(2.0, f32), x, r, c))
            return ()

        b.loop(0, 3, 1, outer)

    x = np.zeros((3, 4), np.float32)
    run(function([memref([3, 4], f32)], body), x, threads=2)
    assert (x == 2).all()


def test_strided_and_offset_arguments() -> None:
    """A transposed input and one whose type has an offset: the pointer is to the buffer's start."""

    def body(b: Body, x: Value, y: Value, z: Value) -> None:
        def row(inner: Body, r: Value) -> Sequence[Value]:
            def column(deep: Body, c: Value) -> Sequence[Value]:
                deep.store(deep.binary("arith.addf", deep.load(x, r, c), deep.load(y, c)), z, r, c)
                return ()

            inner.loop(0, 5, 1, column)
            return ()

        b.loop(0, 3, 1, row)

    x, y, z = (
        np.arange(15, dtype=np.float32).reshape(5, 3),
        np.arange(9, dtype=np.float32),
        np.zeros((3, 5), np.float32),
    )
    types = [memref([3, 5], f32, [1, 3]), MemRefType.get((5,), f32, (1,), 4), memref([3, 5], f32)]
    run(function(types, body), x, y, z)
    np.testing.assert_array_equal(z, x.T + y[4:])


def test_scratch_and_views() -> None:
    """A row is copied to scratch; a subview and a reinterpreted view read it back."""

    def body(b: Body, x: Value, y: Value) -> None:
        sizes = {"operandSegmentSizes": DenseArrayAttr((0, 0), i32)}

        def row(inner: Body, r: Value) -> None:
            scratch = inner.value("memref.alloca", (), memref([16], f32), sizes)
            part = MemRefType.get((1, 16), f32, (16, 1), SymbolicSize.get("offset"))
            view = inner.value(
                "memref.subview", (x, r), part,
                {"static_offsets": DenseArrayAttr((DYNAMIC, 0)), "static_sizes": DenseArrayAttr((1, 16)),
                 "static_strides": DenseArrayAttr((1, 1)), "operandSegmentSizes": DenseArrayAttr((1, 1, 0, 0), i32)},
            )  # fmt: skip
            form = vector(16, f32)
            inner.store(inner.load(view, inner.at(0), inner.at(0), type_=form), scratch, inner.at(0))
            start = inner.binary("arith.muli", r, inner.at(4))
            window = inner.value(
                "memref.reinterpret_cast", (scratch, start), MemRefType.get((4,), f32, (1,), SymbolicSize.get("start")),
                {"static_offsets": DenseArrayAttr((DYNAMIC,)), "static_sizes": DenseArrayAttr((4,)),
                 "static_strides": DenseArrayAttr((1,)), "operandSegmentSizes": DenseArrayAttr((1, 1, 0, 0), i32)},
            )  # fmt: skip
            inner.store(inner.load(window, inner.at(0), type_=vector(4, f32)), y, r, inner.at(0))

        b.parallel(0, 4, 1, row)

    x, y = np.arange(64, dtype=np.float32).reshape(4, 16), np.zeros((4, 4), np.float32)
    run(function([memref([4, 16], f32), memref([4, 4], f32)], body), x, y, threads=2)
    np.testing.assert_array_equal(y, np.stack([x[r, 4 * r : 4 * r + 4] for r in range(4)]))


@pytest.mark.parametrize("isa", instruction_sets())
def test_softmax_rows(isa: str) -> None:
    """A whole kernel: maximum, sum of exponentials, quotient, in stages over one row."""
    from lamina.passes.loops.expand_math import expand

    rows, columns, lanes = 6, 96, {"avx512": 16, "avx2": 8, "neon": 4, "scalar": 0}[isa]

    def body(b: Body, x: Value, y: Value) -> None:
        form = vector(lanes, f32) if lanes else f32
        width = lanes or 1

        def read(inner: Body, memory: Value, r: Value, c: Value) -> Value:
            return inner.load(memory, r, c, type_=vector(lanes, f32) if lanes else None)

        def spread(inner: Body, value: Value) -> Value:
            return inner.value("vector.broadcast", (value,), form) if lanes else value

        def row(inner: Body, r: Value) -> None:
            def largest(k: Body, c: Value, best: Value) -> Sequence[Value]:
                return (k.binary("arith.maximumf", best, read(k, x, r, c)),)

            (best,) = inner.loop(0, columns, width, largest, (inner.number(-np.inf, form),))
            top = spread(inner, inner.reduce("maximumf", best)) if lanes else best

            def powers(k: Body, c: Value, total: Value) -> Sequence[Value]:
                power = k.value("math.exp", (k.binary("arith.subf", read(k, x, r, c), top),), form)
                k.store(power, y, r, c)
                return (k.binary("arith.addf", total, power),)

            (sums,) = inner.loop(0, columns, width, powers, (inner.number(0.0, form),))
            total = spread(inner, inner.reduce("add", sums)) if lanes else sums

            def quotient(k: Body, c: Value) -> Sequence[Value]:
                k.store(k.binary("arith.divf", read(k, y, r, c), total), y, r, c)
                return ()

            inner.loop(0, columns, width, quotient)

        b.parallel(0, rows, 1, row)

    made = function([memref([rows, columns], f32)] * 2, body)
    expand(made, isa)
    x = np.random.default_rng(0).normal(0, 5, (rows, columns)).astype(np.float32)
    x[1, 3] = np.nan
    y = np.zeros_like(x)
    run(made, x, y, isa=isa, threads=2)
    wide = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(y, wide / wide.sum(1, keepdims=True), rtol=1e-6)
