"""Vector memory accesses, masks, reductions and lane operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lamina.codegen.llvm.build import build
from lamina.ir.attributes import UNIT, DenseArrayAttr, IntegerAttr, bf16_to_f32
from lamina.ir.core import Value
from lamina.ir.types import ScalarType, Type, bf16, f16, f32, f64, i1, i8, i16, i32, i64, index
from tests.codegen.programs import (
    DTYPES,
    Body,
    from_floats,
    function,
    instruction_sets,
    memref,
    run,
    vector,
    widest,
)

ELEMENTS = (f64, f32, f16, bf16, i8, i16, i32, i64)
LANES = 16


def numbers(element: ScalarType, count: int) -> Any:
    values = np.random.default_rng(0).normal(0, 50, count)
    return (
        from_floats(values.astype(np.float32), element)
        if element.is_float
        else values.astype(DTYPES[element])
    )


@pytest.mark.parametrize("isa", [isa for isa in instruction_sets() if isa != "scalar"])
@pytest.mark.parametrize("count", [0, 1, 7, 15, 16, 40])
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_masked_tail(element: ScalarType, count: int, isa: str) -> None:
    """A copy of `count` elements in vectors, the last one masked; what lies beyond stays as it is."""

    def body(b: Body, x: Value, y: Value) -> None:
        form, flags = vector(LANES, element), vector(LANES, i1)

        def step(inner: Body, k: Value) -> Sequence[Value]:
            left = inner.binary("arith.subi", inner.at(count), k)
            mask = inner.value("vector.create_mask", (left,), flags)
            value = inner.value("vector.maskedload", (x, k, mask, inner.number(0, form)), form)
            inner.op("vector.maskedstore", (y, k, mask, value))
            return ()

        b.loop(0, count, LANES, step)

    x, y = numbers(element, 64), np.full(64, 3, DTYPES[element])
    want = y.copy()
    want[:count] = x[:count]
    run(function([memref([64], element)] * 2, body), x, y, isa=isa)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("count", [-3, 0, 5, 16, 99])
def test_masks_by_constant_and_loaded_counts(count: int) -> None:
    def body(b: Body, x: Value, y: Value) -> None:
        flags = vector(LANES, i1)
        loaded = b.value("arith.index_cast", (b.load(x, b.at(0)),), index)
        for row, number in enumerate((b.at(count), loaded)):
            mask = b.value("vector.create_mask", (number,), flags)
            b.store(mask, y, b.at(row), b.at(0))

    y = np.zeros((2, LANES), np.bool_)
    run(function([memref([1], i64), memref([2, LANES], i1)], body), np.array([count]), y)
    np.testing.assert_array_equal(y, np.tile(np.arange(LANES) < count, (2, 1)))


def test_constant_mask() -> None:
    def body(b: Body, y: Value) -> None:
        mask = b.value(
            "vector.constant_mask", (), vector(LANES, i1), {"mask_dim_sizes": DenseArrayAttr((5,))}
        )
        b.store(mask, y, b.at(0))

    y = np.zeros(LANES, np.bool_)
    run(function([memref([LANES], i1)], body), y)
    np.testing.assert_array_equal(y, np.arange(LANES) < 5)


@pytest.mark.parametrize("isa", [isa for isa in instruction_sets() if isa != "scalar"])
@pytest.mark.parametrize("positions", [i32, i64, index], ids=str)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_gather_and_scatter(element: ScalarType, positions: ScalarType, isa: str) -> None:
    """y[p[k]] = x[1, p[k]] where the mask is on, 7 into lanes where it is off; strides on the last dimension."""
    dtype = np.int32 if positions is i32 else np.int64
    memory = i64 if positions is index else positions

    def body(b: Body, x: Value, p: Value, mask: Value, y: Value, z: Value) -> None:
        form = vector(LANES, element)
        lanes = b.load(p, b.at(0), type_=vector(LANES, memory))
        if positions is index:
            lanes = b.value("arith.index_cast", (lanes,), vector(LANES, index))
        flags = b.load(mask, b.at(0), type_=vector(LANES, i1))
        start = b.at(0)
        value = b.value("vector.gather", (x, b.at(1), start, lanes, flags, b.number(7, form)), form)
        b.store(value, z, b.at(0))
        b.op("vector.scatter", (y, start, lanes, flags, value))

    x = numbers(element, 128).reshape(2, 64)
    p = np.random.default_rng(1).permutation(32)[:LANES].astype(dtype)
    mask = np.arange(LANES) % 3 != 0
    y, z = np.zeros(32, DTYPES[element]), np.zeros(LANES, DTYPES[element])
    types = [
        memref([2, 32], element, [64, 2]), memref([LANES], memory), memref([LANES], i1), memref([32], element),
        memref([LANES], element),
    ]  # fmt: skip
    run(function(types, body), x, p, mask, y, z, isa=isa)
    seven = from_floats(np.array([7.0]), element)[0] if element.is_float else 7
    want = np.where(mask, x[1, 2 * p], seven).astype(DTYPES[element])
    np.testing.assert_array_equal(z, want)
    scattered = np.zeros(32, DTYPES[element])
    scattered[p[mask]] = want[mask]
    np.testing.assert_array_equal(y, scattered)


def reduction(kind: str, element: ScalarType, has_start: bool) -> Any:
    def body(b: Body, x: Value, start: Value, y: Value) -> None:
        value = b.load(x, b.at(0), type_=vector(LANES, element))
        extra = (b.load(start, b.at(0)),) if has_start else ()
        b.store(b.reduce(kind, value, *extra), y, b.at(0))

    return function([memref([LANES], element), memref([1], element), memref([1], element)], body)


FLOAT_KINDS = {
    "add": np.add, "mul": np.multiply, "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax,
    "minnumf": np.fmin,
}  # fmt: skip
INTEGER_KINDS = {
    "add": np.add, "mul": np.multiply, "maxsi": np.maximum, "minsi": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("has_start", [False, True])
@pytest.mark.parametrize("kind", FLOAT_KINDS)
@pytest.mark.parametrize("element", [f64, f32, bf16], ids=str)
def test_float_reduction(element: ScalarType, kind: str, has_start: bool) -> None:
    x = from_floats(np.random.default_rng(0).uniform(0.5, 1.5, LANES).astype(np.float32), element)
    start = from_floats(np.array([1.25], np.float32), element)
    y = np.zeros(1, DTYPES[element])
    run(reduction(kind, element, has_start), x, start, y)
    wide = np.concatenate([x, start] if has_start else [x])
    wide = (bf16_to_f32(wide) if element is bf16 else wide).astype(np.float64)
    got = bf16_to_f32(y) if element is bf16 else y
    np.testing.assert_allclose(got[0], FLOAT_KINDS[kind].reduce(wide), rtol=1e-2 if element is bf16 else 1e-6)


@pytest.mark.parametrize("position", [0, 7, 15])
@pytest.mark.parametrize("kind", ["add", "maximumf", "minimumf", "maxnumf"])
def test_reduction_meets_nan(kind: str, position: int) -> None:
    x = np.arange(1, LANES + 1, dtype=np.float32)
    x[position] = np.nan
    y = np.zeros(1, np.float32)
    run(reduction(kind, f32, False), x, np.zeros(1, np.float32), y)
    if kind == "maxnumf":
        assert y[0] == np.nanmax(x)
    else:
        assert np.isnan(y[0])


@pytest.mark.parametrize("has_start", [False, True])
@pytest.mark.parametrize("kind", INTEGER_KINDS)
@pytest.mark.parametrize("element", [i8, i16, i32, i64], ids=str)
def test_integer_reduction(element: ScalarType, kind: str, has_start: bool) -> None:
    x = np.random.default_rng(0).integers(-100, 100, LANES).astype(DTYPES[element])
    start, y = np.array([-5], DTYPES[element]), np.zeros(1, DTYPES[element])
    run(reduction(kind, element, has_start), x, start, y)
    with np.errstate(over="ignore"):
        want = INTEGER_KINDS[kind].reduce(np.concatenate([x, start] if has_start else [x]))
    assert y[0] == np.asarray(want).astype(DTYPES[element])


def test_boolean_reductions() -> None:
    def body(b: Body, x: Value, y: Value) -> None:
        flags = b.load(x, b.at(0), type_=vector(LANES, i1))
        for place, kind in enumerate(("or", "and")):
            b.store(b.reduce(kind, flags), y, b.at(place))

    for x in (np.zeros(LANES, np.bool_), np.ones(LANES, np.bool_), np.arange(LANES) == 3):
        y = np.zeros(2, np.bool_)
        run(function([memref([LANES], i1), memref([2], i1)], body), x, y)
        assert y.tolist() == [x.any(), x.all()]


def test_lane_operations() -> None:
    def body(b: Body, x: Value, y: Value, z: Value) -> None:
        form = vector(8, f32)
        value = b.load(x, b.at(0), type_=form)
        third = b.value("vector.extract", (value,), f32, {"static_position": DenseArrayAttr((3,))})
        inserted = b.value("vector.insert", (third, value), form, {"static_position": DenseArrayAttr((0,))})
        b.store(inserted, y, b.at(0), b.at(0))
        order = DenseArrayAttr((8, 0, 9, 1, 10, 2, 11, 3))
        b.store(b.value("vector.shuffle", (value, inserted), form, {"mask": order}), y, b.at(1), b.at(0))
        spread = b.value("vector.broadcast", (third,), form)
        b.store(b.value("vector.fma", (value, spread, spread), form), y, b.at(2), b.at(0))
        step = b.value("vector.step", (), vector(8, index))
        b.store(b.value("arith.index_cast", (step,), vector(8, i64)), z, b.at(0))

    x, y, z = np.arange(8, dtype=np.float32) + 1, np.zeros((3, 8), np.float32), np.zeros(8, np.int64)
    run(function([memref([8], f32), memref([3, 8], f32), memref([8], i64)], body), x, y, z)
    assert y[0].tolist() == [4, 2, 3, 4, 5, 6, 7, 8]
    assert y[1].tolist() == [4, 1, 2, 2, 3, 3, 4, 4]
    assert y[2].tolist() == [4 * k + 4 for k in range(1, 9)]
    assert z.tolist() == list(range(8))


def test_streaming_stores() -> None:
    def body(b: Body, x: Value, y: Value) -> None:
        def step(inner: Body, k: Value) -> Sequence[Value]:
            value = inner.load(x, k, type_=vector(LANES, f32))
            inner.op("vector.store", (value, y, k), (), {"nontemporal": UNIT, "alignment": IntegerAttr(64)})
            return ()

        b.loop(0, 1024, LANES, step)

    x = np.arange(1024, dtype=np.float32)
    buffer = np.zeros(1024 + 16, np.float32)
    y = buffer[(-(buffer.ctypes.data // 4) % 16) :][:1024]
    made = function([memref([1024], f32)] * 2, body)
    built = build([made], widest())
    assert "!nontemporal" in built.text
    assert built.text.count("fence seq_cst") == 1
    run(built, x, y)
    np.testing.assert_array_equal(y, x)


def test_booleans_in_bytes() -> None:
    """Bool buffers as bytes: any byte that is not 0 is true, and 1 is written."""

    def body(b: Body, x: Value, y: Value) -> None:
        form: Type = vector(LANES, i8)
        value = b.load(x, b.at(0), type_=vector(LANES, i8))
        flag = b.value("arith.cmpi", (value, b.number(0, form)), vector(LANES, i1), {"predicate": 1})
        other = b.binary("arith.xori", flag, b.number(True, vector(LANES, i1)))
        b.store(b.value("arith.extui", (other,), form), y, b.at(0))

    x, y = (np.arange(LANES) % 3).astype(np.int8), np.zeros(LANES, np.int8)
    run(function([memref([LANES], i8)] * 2, body), x, y)
    np.testing.assert_array_equal(y, (x == 0).astype(np.int8))
