"""Largest errors of the elementary functions, in ulp of the result, over a dense sweep of all f32 numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lamina.ir.types import ScalarType, bf16, f16, f64
from lamina.passes.loops.expand_math import BOTH, NARROW
from tests.codegen.programs import from_floats, instruction_sets, run_math, to_floats, widest

F32_BOUNDS = {
    "exp": 1.0, "exp2": 1.0, "expm1": 1.7, "log": 1.0, "log2": 1.0, "log10": 1.0, "log1p": 1.5, "tanh": 1.6,
    "sinh": 2.2, "cosh": 1.6, "asinh": 1.8, "acosh": 2.0, "atanh": 2.2, "sin": 1.6, "cos": 1.6, "tan": 2.0,
    "asin": 2.1, "acos": 1.3, "atan": 1.5, "erf": 1.5, "erfc": 3.5, "cbrt": 0.51,
}  # fmt: skip
"""Largest error in ulp of each f32 function."""
F64_BOUNDS = {
    "exp": 1.0, "exp2": 1.0, "expm1": 1.9, "log": 1.0, "log2": 1.0, "log10": 1.0, "log1p": 1.5, "tanh": 2.5,
    "sinh": 2.5, "cosh": 1.6, "asinh": 1.8, "acosh": 1.8, "atanh": 2.2, "sin": 1.8, "cos": 1.8, "tan": 2.8,
}  # fmt: skip
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
               "atanh": "arctanh", "powf": "power", "atan2": "arctan2"}  # fmt: skip
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        1e-45,
        -1e-45,
        1.1754944e-38,
        3.4e38,
        -3.4e38,
        0.5,
        -0.5,
        88.7,
        -104,
    ],
    np.float32,
)
SWEEP_STEP = 1021
"""Every so many'th of the 2^32 bit patterns."""


def reference(name: str, *arrays: Any) -> Any:
    with np.errstate(all="ignore"):
        if name in ("erf", "erfc"):
            return np.vectorize(getattr(math, name))(arrays[0].astype(np.float64))
        return getattr(np, NUMPY_NAMES.get(name, name))(*(array.astype(np.float64) for array in arrays))


def ulp_errors(got: Any, want: Any) -> Any:
    """Distances in ulp of the f32 nearest to `want`; 0 where both are the same inf or nan, else inf."""
    nearest = want.astype(np.float32)
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(nearest)).astype(np.float64)
        errors = np.abs(got.astype(np.float64) - want) / spacing
    same = (np.isnan(got) & np.isnan(want)) | (got == nearest)
    errors = np.where(same & ~np.isfinite(errors), 0, errors)
    # Rounding past the largest number is a step of one ulp, not an infinite error.
    top = np.float32(np.finfo(np.float32).max)
    close = np.isinf(got) & (np.abs(want) > top * (1 - 2.0**-23)) & (np.sign(got) == np.sign(want))
    return np.where(close, 0, np.where(np.isnan(errors), np.inf, errors))


def sweep(step: int = SWEEP_STEP) -> Any:
    bits = np.arange(0, 2**32, step, dtype=np.uint32)
    values = np.concatenate([SPECIAL, bits.view(np.float32)])
    return values[: values.size // 16 * 16].copy()


@pytest.mark.parametrize("name", F32_BOUNDS)
def test_f32_error(name: str) -> None:
    with np.errstate(all="ignore"):
        x = sweep(SWEEP_STEP * 8 if name in ("erf", "erfc") else SWEEP_STEP)
        errors = ulp_errors(run_math(f"math.{name}", widest(), x), reference(name, x))
    worst = errors.argmax()
    assert errors[worst] <= F32_BOUNDS[name], f"{name}({x[worst]!r})"


@pytest.mark.parametrize("isa", instruction_sets()[:-1])
@pytest.mark.parametrize("name", F32_BOUNDS)
def test_f32_error_with_fewer_instructions(name: str, isa: str) -> None:
    with np.errstate(all="ignore"):
        x = sweep(SWEEP_STEP * 32)
        errors = ulp_errors(run_math(f"math.{name}", isa, x), reference(name, x))
    assert errors.max() <= F32_BOUNDS[name]


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "log1p", "expm1"])
def test_sign_of_zero(name: str) -> None:
    x = np.tile(np.array([0.0, -0.0], np.float32), 8)
    got = run_math(f"math.{name}", widest(), x)
    want = reference(name, x)
    if name in ("exp", "log"):
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


def pairs() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    special = np.concatenate([SPECIAL[:9], np.array([2, -2, 3, -3, 2.5, 1e10, -7], np.float32)])
    a, b = (grid.ravel() for grid in np.meshgrid(special, special))
    ordinary = np.exp(random.normal(0, 3, 100_000)).astype(np.float32)
    exponents = random.normal(0, 8, ordinary.size).astype(np.float32)
    any_bits = [random.integers(0, 2**32, 100_000, np.uint32).view(np.float32) for _ in range(2)]
    x = np.concatenate([a, ordinary, -ordinary, any_bits[0]])
    y = np.concatenate([b, exponents, np.round(exponents), any_bits[1]])
    count = x.size // 16 * 16
    return x[:count].copy(), y[:count].copy()


@pytest.mark.parametrize(("name", "bound"), [("powf", 0.51), ("atan2", 1.8)])
def test_f32_error_of_two_arguments(name: str, bound: float) -> None:
    x, y = pairs()
    got = run_math(f"math.{name}", widest(), x, y)
    with np.errstate(all="ignore"):
        want = reference(name, x, y)
        errors = ulp_errors(got, want)
    worst = errors.argmax()
    assert errors[worst] <= bound, f"{name}({x[worst]!r}, {y[worst]!r})"
    signs = np.signbit(got) == np.signbit(want)
    assert (signs | np.isnan(got)).all()


@pytest.mark.parametrize("name", F64_BOUNDS)
def test_f64_error(name: str) -> None:
    """Against the C library's long double (80 bits on x86), through NumPy."""
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("long double is no wider than f64 here")
    random = np.random.default_rng(1)
    x = np.concatenate(
        [random.normal(0, 1, 4096), random.normal(0, 50, 4096), np.exp(random.uniform(-30, 30, 4096)),
         random.uniform(-1, 1, 4096)]
    )  # fmt: skip
    lowest, highest = {"log": (1e-300, 1e300), "log2": (1e-300, 1e300), "log10": (1e-300, 1e300),
                       "log1p": (-0.99999, 1e300), "acosh": (1.0, 1e300), "atanh": (-0.9999, 0.9999),
                       "sin": (-1e6, 1e6), "cos": (-1e6, 1e6), "tan": (-1e6, 1e6)}.get(name, (-700.0, 700.0))  # fmt: skip
    x = x[(x >= lowest) & (x <= highest)]
    x = x[: x.size // 16 * 16].copy()
    got = run_math(f"math.{name}", widest(), x, element=f64)
    want = getattr(np, NUMPY_NAMES.get(name, name))(x.astype(np.longdouble))
    errors = np.abs(got - want) / np.spacing(np.abs(want.astype(np.float64)))
    assert errors.max() <= F64_BOUNDS[name], x[errors.argmax()]


@pytest.mark.parametrize("name", ["asin", "atan", "erf", "erfc", "cbrt"])
def test_f64_through_the_c_library(name: str) -> None:
    x = np.linspace(-0.99, 0.99, 64)
    got = run_math(f"math.{name}", widest(), x, element=f64)
    np.testing.assert_allclose(got, reference(name, x), rtol=4e-16)


@pytest.mark.parametrize("element", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "log", "sin"])
def test_half_precision_is_computed_in_f32(name: str, element: ScalarType) -> None:
    values = np.linspace(0.05, 4, 256).astype(np.float32)
    x = from_floats(values, element)
    got = to_floats(run_math(f"math.{name}", widest(), x, element=element), element)
    want = reference(name, to_floats(x, element).astype(np.float32))
    unit = 2.0**-8 if element is bf16 else 2.0**-11
    assert (np.abs(got - want) <= unit * 1.01 * np.abs(want)).all()


@pytest.mark.parametrize("name", ["sin", "exp", "erf"])
def test_unexpanded_operations_call_the_c_library(name: str) -> None:
    x = np.linspace(-3, 3, 64).astype(np.float32)
    got = run_math(f"math.{name}", widest(), x, expanded=False)
    assert ulp_errors(got, reference(name, x)).max() <= 1.0


def test_every_expansion_is_measured() -> None:
    narrow = {name.removeprefix("math.") for name in (BOTH | NARROW)}
    assert narrow == set(F32_BOUNDS) | {"powf", "atan2"}
    assert {name.removeprefix("math.") for name in BOTH} == set(F64_BOUNDS)


def test_f32_in_scalar_code_equals_vector_code() -> None:
    """On this machine's widest vectors and one by one: the same bits, but for how 2^n is multiplied in."""
    x = np.linspace(-20, 20, 4096).astype(np.float32)
    for name in ("exp", "tanh", "erf"):
        vectors, scalars = (run_math(f"math.{name}", isa, x) for isa in (widest(), "scalar"))
        np.testing.assert_array_equal(vectors, scalars, err_msg=name)
