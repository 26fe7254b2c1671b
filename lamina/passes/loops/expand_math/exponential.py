"""exp, exp2, expm1: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r, then a scaling by 2^n.

The reduction takes ln 2 off in two parts, each by a fused multiply-add, of which the first is exact. f32
polynomials are minimax fits with coefficients rounded to f32 one after another; f64 ones are Taylor sums.
"""

from __future__ import annotations

import math

from lamina.ir.core import Value
from lamina.passes.loops.expand_math.expressions import Math

LOG2_E = 1.0 / math.log(2.0)
LN2 = (0.6931471824645996, -1.9046542121259336e-09)
"""ln 2 as a sum of two f32 numbers."""
LN2_WIDE = (0.6931471805599453, 2.3190468138462996e-17)
EXP = (1.0, 1.0, 0.4999999403953552, 0.16666516661643982, 0.041668280959129333, 0.008369248360395432,
       0.0013820745516568422)  # fmt: skip
"""e^r, |r| < 0.35; relative error 3.4e-9."""
EXP_WIDE = tuple(1.0 / math.factorial(k) for k in range(14))
EXP2 = (1.0, 0.6931471824645996, 0.24022647738456726, 0.055503591895103455, 0.009618504904210567,
        0.001339124166406691, 0.00015327497385442257)  # fmt: skip
"""2^r, |r| <= 0.5; relative error 3.1e-9."""
EXP2_WIDE = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(15))
EXPM1 = (0.5, 0.16666539013385773, 0.0416664257645607, 0.008367151953279972, 0.001393877319060266)
"""(e^r - 1 - r) / r^2, |r| < 0.35; error 1.4e-8 of e^r - 1."""
EXPM1_WIDE = tuple(1.0 / math.factorial(k + 2) for k in range(13))


def reduce(m: Math, x: Value) -> tuple[Value, Value]:
    """(n as an integer, r) of x."""
    high, low = LN2_WIDE if m.is_wide else LN2
    whole, n = m.round_to_integer(m.multiply(x, LOG2_E))
    r = m.fma(n, -high, x)
    return whole, m.fma(n, -low, r)


def exp(m: Math, x: Value) -> Value:
    # Beyond the limits the result is 0 or inf all the same, and n stays in range.
    low, high = (-746.0, 711.0) if m.is_wide else (-104.0, 89.0)
    whole, r = reduce(m, m.at_least(m.at_most(x, high), low))
    return m.scale(m.polynomial(r, m.choose(EXP, EXP_WIDE)), whole)


def exp2(m: Math, x: Value) -> Value:
    low, high = (-1076.0, 1025.0) if m.is_wide else (-151.0, 129.0)
    x = m.at_least(m.at_most(x, high), low)
    whole, n = m.round_to_integer(x)
    return m.scale(m.polynomial(m.subtract(x, n), m.choose(EXP2, EXP2_WIDE)), whole)


def reduced_expm1(m: Math, r: Value) -> Value:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return m.fma(m.polynomial(r, m.choose(EXPM1, EXPM1_WIDE)), m.multiply(r, r), r)


def expm1(m: Math, x: Value) -> Value:
    """e^x - 1 = 2 ((e^r - 1) 2^(n-1) + (2^(n-1) - 1/2)): with n - 1 no step overflows before the result."""
    low, high = (-40.0, 710.0) if m.is_wide else (-20.0, 89.0)
    whole, r = reduce(m, m.at_least(m.at_most(x, high), low))
    half = m.power_of_two(m.on_bits("subi", whole, 1))
    result = m.fma(reduced_expm1(m, r), half, m.subtract(half, 0.5))
    is_tiny = m.compare("olt", m.absolute(x), 2.0 ** -(m.format.fraction + 2))
    return m.select(is_tiny, x, m.add(result, result))
