"""Each equation is its own test: both sides, evaluated on every value of a 16-bit type or a hard sample."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from lamina.ir.attributes import STORAGE, bf16_to_f32, decode_scalar, encode_scalar, round_to_bf16
from lamina.ir.ops import record
from lamina.ir.types import ScalarType, bf16, f16, f32, f64, i8, i16, i64
from lamina.passes.tensor.algebra import EQUATIONS
from lamina.passes.tensor.equations import Call, Equation, Literal, Term, Variable, parse_term

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-8, -1e-8, 65504.0, 6e-8, np.inf, -np.inf, np.nan]
"""Second operands and constants of float equations."""
CONSTANTS = [1.0, -1.0, 2.0, -0.5, 4.0, 1024.0, 3.0, 0.1, 2.0**-14, 2.0**-24, 2.0**15, 0.0, np.inf, np.nan]


def names_of(term: Term) -> set[str]:
    if isinstance(term, Variable):
        return {term.name}
    return set().union(*map(names_of, term.arguments)) if isinstance(term, Call) else set()


def every_half(element: ScalarType) -> Any:
    bits = np.arange(1 << 16, dtype=np.uint16)
    return bf16_to_f32(bits) if element is bf16 else bits.view(np.float16)


def sample(element: ScalarType) -> Any:
    """All values of a 16-bit type; of wider ones their half values, neighbours of powers of two and noise."""
    if element in (f16, bf16):
        return every_half(element)
    dtype = np.dtype(STORAGE[element.name])
    if dtype.kind == "f":
        noise = np.frombuffer(np.random.default_rng(0).bytes(8 << 12), dtype)
        return np.concatenate([every_half(f16).astype(dtype), noise])
    if dtype.itemsize <= 2:
        return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    edges = np.array([0, 1, -1, 2, -2, 7, 64, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    return np.concatenate([edges, np.frombuffer(np.random.default_rng(0).bytes(8 << 10), dtype)])


def evaluate(term: Term, values: dict[str, Any], element: ScalarType, dtype: Any) -> Any:
    match term:
        case Literal(value):
            boolean = isinstance(value, bool)
            return np.array(value, bool) if boolean else np.array(value).astype(dtype)
        case Variable(name):
            return values[name]
    arguments = [evaluate(argument, values, element, dtype) for argument in term.arguments]
    meaning = record(term.name).meaning
    attributes = {} if term.predicate is None else {"predicate": term.predicate}
    with np.errstate(all="ignore"):
        if term.name.startswith("math.") and dtype.kind == "f" and element is not f64:
            result = meaning(*(a.astype(np.float64) for a in arguments), **attributes)
        else:
            result = meaning(*arguments, **attributes)
        if np.asarray(result).dtype.kind != "f":
            return np.asarray(result)
        if element is bf16:
            return bf16_to_f32(round_to_bf16(np.asarray(result, np.float32)))
        return np.asarray(result, dtype)


def assert_same_bits(left: Any, right: Any) -> None:
    left, right = np.broadcast_arrays(left, right)
    if left.dtype.kind == "f":
        both = np.isnan(left) & np.isnan(right)
        same = both | ((left == right) & (np.signbit(left) == np.signbit(right)))
        wrong = np.flatnonzero(~same)
        assert not wrong.size, f"{left.flat[wrong[0]]} against {right.flat[wrong[0]]}, {wrong.size} in all"
    else:
        np.testing.assert_array_equal(left, right)


def check(equation: Equation, element: ScalarType) -> None:
    dtype = np.dtype(np.float32) if element is bf16 else np.dtype(STORAGE[element.name])
    before, after = parse_term(equation.before), parse_term(equation.after)
    names = sorted(names_of(before) | names_of(after) - set(equation.compute))
    capitals = [name for name in names if name.isupper()]
    small = [name for name in names if not name.isupper() and name not in ("c", "x")]
    choices = CONSTANTS if dtype.kind == "f" else [0, 1, -1, 2, 3, 8, 64, -5, 100]
    rounded = [decode_scalar(encode_scalar(value, element), element) for value in choices]
    others = SPECIAL if dtype.kind == "f" else [0, 1, -1, 5, np.iinfo(dtype).max, np.iinfo(dtype).min]
    others = [decode_scalar(encode_scalar(value, element), element) for value in others]
    held = 0
    for constants in itertools.product(rounded, repeat=len(capitals)):
        numbers: dict[str, Any] = dict(zip(capitals, constants, strict=True))
        if equation.where is not None and not equation.where(numbers, element):
            continue
        held += 1
        for name, make in equation.compute.items():
            numbers[name] = make(numbers, element)
        for pair in itertools.product(others, repeat=len(small)):
            values = {name: np.array(number).astype(dtype) for name, number in numbers.items()}
            values |= {name: np.array(number).astype(dtype) for name, number in zip(small, pair, strict=True)}
            values["x"] = sample(element)
            values["c"] = np.arange(values["x"].size) % 3 == 0
            left = evaluate(before, values, element, dtype)
            assert_same_bits(left, evaluate(after, values, element, dtype))
    assert held, "the condition never holds: nothing was tested"


CASES = [
    (equation, element)
    for equation in EQUATIONS
    for element in {"float": (f16, bf16, f32, f64), "integer": (i8, i16, i64)}.get(equation.domain, ())
]


@pytest.mark.parametrize(("equation", "element"), CASES, ids=[f"{e} in {t}" for e, t in CASES])
def test_equation_holds_on_every_value(equation: Equation, element: ScalarType) -> None:
    check(equation, element)


BOOLEANS = [equation for equation in EQUATIONS if equation.domain == "boolean"]


@pytest.mark.parametrize("equation", BOOLEANS, ids=map(str, BOOLEANS))
def test_boolean_equation_holds(equation: Equation) -> None:
    before, after = parse_term(equation.before), parse_term(equation.after)
    names = sorted(names_of(before) | names_of(after))
    for values in itertools.product((np.array(False), np.array(True)), repeat=len(names)):
        bound = dict(zip(names, values, strict=True))
        left = evaluate(before, bound, f32, np.dtype(bool))
        np.testing.assert_array_equal(left, evaluate(after, bound, f32, np.dtype(bool)))


@pytest.mark.parametrize(
    ("before", "after"),
    [("addf(x, 0.0)", "x"), ("mulf(x, 0.0)", "0.0"), ("subf(x, x)", "0.0"), ("subf(addf(x, y), y)", "x"),
     ("subf(0.0, x)", "negf(x)"), ("divf(x, x)", "1.0"), ("maximumf(x, inf)", "inf")],
)  # fmt: skip
def test_wrong_equation_is_caught(before: str, after: str) -> None:
    with pytest.raises(AssertionError):
        check(Equation(before, after, "float"), f16)
    assert all((equation.before, equation.after) != (before, after) for equation in EQUATIONS)
