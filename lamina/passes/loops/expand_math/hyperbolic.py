"""tanh, sinh, cosh and their inverses, from the pieces of the exponential and the logarithm."""

from __future__ import annotations

import math

from lamina.ir.core import Value
from lamina.passes.loops.expand_math.exponential import EXP, reduce, reduced_expm1
from lamina.passes.loops.expand_math.expressions import Math
from lamina.passes.loops.expand_math.logarithm import log1p

TANH = (
    -0.33333316445350647,
    0.13332544267177582,
    -0.0538475476205349,
    0.02105071395635605,
    -0.00624284939840436,
)
"""(tanh x - x) / x^3 in x^2, |x| < 0.55; error 1.1e-9 of tanh."""
TANH_LIMIT = 0.55


def tanh(m: Math, x: Value) -> Value:
    """f32: a polynomial near 0, else 1 - 2 / (e^(2 |x|) + 1). f64: t / (t + 2) with t = e^(2 |x|) - 1.

    Beyond the limit the result is 1 to all bits.
    """
    size = m.absolute(x)
    reduced = m.at_most(size, 20.0 if m.is_wide else 10.0)
    whole, r = reduce(m, m.add(reduced, reduced))
    power = m.power_of_two(whole)
    if m.is_wide:
        t = m.fma(reduced_expm1(m, r), power, m.subtract(power, 1.0))
        return m.copysign(m.divide(t, m.add(t, 2.0)), x)
    grown = m.multiply(m.polynomial(r, EXP), power)
    high = m.subtract(1.0, m.divide(2.0, m.add(grown, 1.0)))
    square = m.multiply(x, x)
    low = m.fma(m.multiply(m.polynomial(square, TANH), square), size, size)
    return m.copysign(m.select(m.compare("olt", size, TANH_LIMIT), low, high), x)


def _quarter_exponential(m: Math, size: Value) -> tuple[Value, Value]:
    """(e^r - 1, h) with e^size / 4 = e^r h, for size >= 0: h is finite wherever sinh and cosh are."""
    whole, r = reduce(m, m.at_most(size, 710.6 if m.is_wide else 89.6))
    return reduced_expm1(m, r), m.power_of_two(m.on_bits("subi", whole, 2))


def sinh(m: Math, x: Value) -> Value:
    """(t + t / (t + 1)) / 2 with t = e^|x| - 1, from q = t / 4."""
    grown, h = _quarter_exponential(m, m.absolute(x))
    q = m.fma(grown, h, m.subtract(h, 0.25))
    # For large q the second term is 1/2 to all bits, and 4 q would overflow.
    is_large = m.compare("ogt", q, 2.0**60)
    second = m.divide(m.add(q, q), m.fma(m.select(is_large, 1.0, q), 4.0, 1.0))
    second = m.select(is_large, 0.5, second)
    result = m.copysign(m.fma(q, 2.0, second), x)
    return m.select(m.compare("olt", m.absolute(x), 2.0 ** -(m.format.fraction // 2 + 2)), x, result)


def cosh(m: Math, x: Value) -> Value:
    """2 q + 1 / (8 q) with q = e^|x| / 4."""
    grown, h = _quarter_exponential(m, m.absolute(x))
    q = m.fma(grown, h, h)
    return m.fma(q, 2.0, m.divide(0.125, q))


LARGE, LARGE_WIDE = 2.0**30, 2.0**60
"""From here on a + 1 and sqrt(a^2 + 1) are a to all bits, and below it a^2 does not overflow."""


def asinh(m: Math, x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|; for large a, log1p(a) + log 2."""
    a = m.absolute(x)
    limit = LARGE_WIDE if m.is_wide else LARGE
    small = m.at_most(a, limit)
    root = m.sqrt(m.fma(small, small, 1.0))
    near = m.add(small, m.divide(m.multiply(small, small), m.add(root, 1.0)))
    is_large = m.compare("ogt", a, limit)
    result = log1p(m, m.select(is_large, a, near))
    return m.copysign(m.select(is_large, m.add(result, math.log(2.0)), result), x)


def acosh(m: Math, x: Value) -> Value:
    """log1p(t + sqrt(2 t + t^2)), t = x - 1; for large x, log1p(x) + log 2; nan below 1."""
    limit = LARGE_WIDE if m.is_wide else LARGE
    t = m.subtract(m.at_most(x, limit), 1.0)
    near = m.add(t, m.sqrt(m.fma(t, t, m.add(t, t))))
    is_large = m.compare("ogt", x, limit)
    result = log1p(m, m.select(is_large, x, near))
    result = m.select(is_large, m.add(result, math.log(2.0)), result)
    return m.select(m.compare("olt", x, 1.0), math.nan, result)


def atanh(m: Math, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2, a = |x|."""
    a = m.absolute(x)
    result = log1p(m, m.divide(m.add(a, a), m.subtract(1.0, a)))
    return m.copysign(m.multiply(result, 0.5), x)
