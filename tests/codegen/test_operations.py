"""Every arith and math operation of the back end against the operation's own NumPy meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lamina.codegen.llvm.tables import TABLE
from lamina.ir.ops import RECORDS
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.types import ScalarType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from tests.codegen.programs import DTYPES, elementwise, from_floats, instruction_sets, run, to_floats, widest

FLOATS, INTEGERS = (f64, f32, f16, bf16), (i8, i16, i32, i64)
FLOAT_OPS = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf", "arith.maximumf", "arith.minimumf",
    "arith.maxnumf", "arith.minnumf", "math.absf", "math.ceil", "math.floor", "math.trunc", "math.round",
    "math.roundeven", "math.sqrt", "math.copysign",
)  # fmt: skip
INTEGER_OPS = (
    "arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.divui", "arith.floordivsi", "arith.remsi",
    "arith.remui", "arith.andi", "arith.ori", "arith.xori", "arith.maxsi", "arith.minsi", "arith.maxui",
    "arith.minui", "math.absi",
)  # fmt: skip
SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")
COUNT = 256
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, 3e4, 6e-8, -6e-8)


def make_floats(element: ScalarType, seed: int) -> Any:
    """Ordinary numbers, with special ones in both halves so that pairs of them meet."""
    random = np.random.default_rng(seed)
    values = random.normal(0, 4, COUNT).astype(np.float32)
    values[:16] = SPECIAL
    values[16 * seed : 16 * seed + 16] = SPECIAL[:16][::-1]
    return from_floats(values, element)


def make_integers(element: ScalarType, seed: int) -> Any:
    limits = np.iinfo(DTYPES[element])
    values = np.random.default_rng(seed).integers(
        limits.min, limits.max, COUNT, DTYPES[element], endpoint=True
    )
    values[:4] = (0, limits.max, limits.min, 1)
    return values


def lanes_for(element: ScalarType) -> int:
    return 512 // max(32, element.bits)


def expected(name: str, element: ScalarType, *arrays: Any, **attributes: Any) -> Any:
    meaning = RECORDS[name].meaning
    assert meaning is not None
    with np.errstate(all="ignore"):
        return meaning(*(to_floats(array, element) for array in arrays), **attributes)


@pytest.mark.parametrize("shape", ["scalar", "vector"])
@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_operation(name: str, element: ScalarType, shape: str) -> None:
    operands = RECORDS[name].operands or 1
    arrays = [make_floats(element, seed) for seed in range(1, operands + 1)]
    result = np.zeros(COUNT, DTYPES[element])
    made = elementwise(
        name, [element] * operands, element, COUNT, lanes_for(element) if shape == "vector" else 0
    )
    run(made, *arrays, result)
    want = from_floats(np.asarray(expected(name, element, *arrays)), element)
    np.testing.assert_array_equal(to_floats(result, element), to_floats(want, element))


@pytest.mark.parametrize("shape", ["scalar", "vector"])
@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_OPS + SHIFTS)
def test_integer_operation(name: str, element: ScalarType, shape: str) -> None:
    operands = RECORDS[name].operands or 1
    arrays = [make_integers(element, seed) for seed in range(1, operands + 1)]
    if "div" in name or "rem" in name:
        # Division by zero and of the least number by -1 are undefined.
        arrays[1][(arrays[1] == 0) | (arrays[1] == -1)] = 3
    if name in SHIFTS:
        arrays[1] %= element.bits
    result = np.zeros(COUNT, DTYPES[element])
    made = elementwise(
        name, [element] * operands, element, COUNT, lanes_for(element) if shape == "vector" else 0
    )
    run(made, *arrays, result)
    np.testing.assert_array_equal(result, expected(name, element, *arrays))


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_float_comparisons(element: ScalarType, isa: str) -> None:
    a, b = make_floats(element, 1), make_floats(element, 2)
    for predicate in range(len(CMPF)):
        result = np.zeros(COUNT, np.bool_)
        lanes = 0 if isa == "scalar" else lanes_for(element)
        run(
            elementwise("arith.cmpf", [element] * 2, i1, COUNT, lanes, {"predicate": predicate}),
            a,
            b,
            result,
            isa=isa,
        )
        want = expected("arith.cmpf", element, a, b, predicate=predicate)
        np.testing.assert_array_equal(result, want, err_msg=CMPF[predicate])


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_integer_comparisons(element: ScalarType) -> None:
    a, b = make_integers(element, 1), make_integers(element, 2)
    b[::3] = a[::3]
    for predicate in range(len(CMPI)):
        result = np.zeros(COUNT, np.bool_)
        made = elementwise(
            "arith.cmpi", [element] * 2, i1, COUNT, lanes_for(element), {"predicate": predicate}
        )
        run(made, a, b, result)
        want = expected("arith.cmpi", element, a, b, predicate=predicate)
        np.testing.assert_array_equal(result, want, err_msg=CMPI[predicate])


@pytest.mark.parametrize("name", ["math.isnan", "math.isinf", "math.isfinite"])
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_float_predicates(name: str, element: ScalarType) -> None:
    a, result = make_floats(element, 1), np.zeros(COUNT, np.bool_)
    run(elementwise(name, [element], i1, COUNT, lanes_for(element)), a, result)
    np.testing.assert_array_equal(result, expected(name, element, a))


CASTS = [
    ("arith.extf", f16, f32), ("arith.extf", bf16, f32), ("arith.extf", f32, f64), ("arith.extf", bf16, f64),
    ("arith.truncf", f32, f16), ("arith.truncf", f32, bf16), ("arith.truncf", f64, f32),
    ("arith.extsi", i8, i32), ("arith.extsi", i32, i64), ("arith.extui", i1, i8), ("arith.extui", i1, i64),
    ("arith.trunci", i64, i32), ("arith.trunci", i32, i8), ("arith.sitofp", i64, f32), ("arith.sitofp", i32, f64),
    ("arith.sitofp", i8, f32), ("arith.sitofp", i32, bf16), ("arith.sitofp", i16, f16), ("arith.uitofp", i1, f32),
    ("arith.fptosi", f32, i32), ("arith.fptosi", f64, i64), ("arith.fptosi", bf16, i32), ("arith.fptosi", f32, i8),
    ("arith.bitcast", f32, i32), ("arith.bitcast", i64, f64),
]  # fmt: skip


@pytest.mark.parametrize(("name", "source", "target"), CASTS, ids=lambda value: str(value))
@pytest.mark.parametrize("shape", ["scalar", "vector"])
def test_cast(name: str, source: ScalarType, target: ScalarType, shape: str) -> None:
    if source is i1:
        values = np.arange(COUNT) % 3 == 0
    elif source.is_float:
        values = make_floats(source, 1)
        if name == "arith.fptosi":
            # Numbers out of range have no defined integer.
            values = from_floats(np.linspace(-100, 100, COUNT), source)
    else:
        values = make_integers(source, 1)
    result = np.zeros(COUNT, DTYPES[target])
    run(elementwise(name, [source], target, COUNT, 8 if shape == "vector" else 0), values, result)
    if name == "arith.bitcast":
        want = values.view(DTYPES[target])
    else:
        with np.errstate(all="ignore"):
            want = from_floats(to_floats(values, source), target)
    np.testing.assert_array_equal(to_floats(result, target), to_floats(want, target))


@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS), ids=str)
def test_select(element: ScalarType) -> None:
    make = make_floats if element.is_float else make_integers
    condition, a, b = np.arange(COUNT) % 3 == 0, make(element, 1), make(element, 2)
    result = np.zeros(COUNT, DTYPES[element])
    made = elementwise("arith.select", [i1, element, element], element, COUNT, lanes_for(element))
    # `elementwise` gives the result the first operand's shape with the result's element type.
    run(made, condition, a, b, result)
    np.testing.assert_array_equal(result, np.where(condition, a, b))


def test_fma_rounds_once() -> None:
    a = np.full(COUNT, 1 + 2**-12, np.float32)
    c = np.full(COUNT, -1 - 2**-11, np.float32)
    result = np.zeros(COUNT, np.float32)
    run(elementwise("math.fma", [f32] * 3, f32, COUNT, 16), a, a, c, result)
    np.testing.assert_array_equal(result, np.full(COUNT, 2.0**-24, np.float32))


def test_bf16_rounds_to_nearest_even_and_keeps_subnormals() -> None:
    bits = np.arange(0, 2**32, 2**32 // 65536 + 7, dtype=np.uint64)[: COUNT * 128].astype(np.uint32)
    values = bits.view(np.float32).copy()
    result = np.zeros(values.size, np.uint16)
    run(elementwise("arith.truncf", [f32], bf16, values.size, 16), values, result)
    np.testing.assert_array_equal(result, from_floats(values, bf16))


def test_every_arith_and_math_record_has_a_rule() -> None:
    names = {name for name in RECORDS if name.startswith(("arith.", "math."))}
    assert sorted(names - TABLE.keys()) == []


def test_the_widest_set_is_one_that_runs() -> None:
    assert widest() in instruction_sets()
