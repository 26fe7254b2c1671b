"""log, log2, log10, log1p: x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m from f = m - 1.

f32: log(1 + f) = f - f^2/2 + f^3 P(f), P a minimax fit. f64: with s = f / (2 + f), log(1 + f) =
f - s (f - s^2 Q(s^2)) and Q the series of 2 artanh(s), as in fdlibm's e_log.c.
"""

from __future__ import annotations

import math

from lamina.ir.core import Value
from lamina.passes.loops.expand_math.exponential import LN2, LN2_WIDE
from lamina.passes.loops.expand_math.expressions import Math

LOG = (0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.166234090924263, 0.14201579988002777,
       -0.13159610331058502, 0.12762217223644257, -0.07636439055204391)  # fmt: skip
"""(log(1 + f) - f + f^2/2) / f^3; error 5.8e-9 of log(1 + f)."""
ARTANH = tuple(2.0 / (2 * k + 3) for k in range(11))
SQRT_HALF = 0x3F3504F3
SQRT_HALF_WIDE = 0x3FE6A09E667F3BCD


def _split(m: Math, x: Value) -> tuple[Value, Value, Value]:
    """(m - 1, e as a float, e as an integer) of a positive normal x."""
    bits = m.bits(x)
    start = SQRT_HALF_WIDE if m.is_wide else SQRT_HALF
    exponent = m.on_bits("shrsi", m.on_bits("subi", bits, start), m.format.fraction)
    mantissa = m.from_bits(m.on_bits("subi", bits, m.on_bits("shli", exponent, m.format.fraction)))
    return m.subtract(mantissa, 1.0), _to_float(m, exponent), exponent


def _to_float(m: Math, exponent: Value) -> Value:
    """A small integer as a float; f64 by way of the low bits of 1.5 * 2^52, without a 64-bit conversion."""
    if not m.is_wide:
        return m.to_float(exponent)
    shifted = m.from_bits(m.on_bits("addi", exponent, 0x4338000000000000))
    return m.exact("subf", shifted, 1.5 * 2.0**52)


def _normal(m: Math, x: Value) -> tuple[Value, Value]:
    """(x, 0), or for subnormal x, (x 2^b, -b)."""
    lift = m.format.fraction + 1
    is_small = m.compare("olt", x, 2.0 ** (1 - m.format.bias))
    return m.select(is_small, m.multiply(x, 2.0**lift), x), m.select(is_small, -float(lift), 0.0)


def _tail(m: Math, f: Value) -> Value:
    """log(1 + f) - f."""
    if m.is_wide:
        s = m.divide(f, m.add(f, 2.0))
        square = m.multiply(s, s)
        series = m.multiply(square, m.polynomial(square, ARTANH))
        return m.negate(m.multiply(s, m.subtract(f, series)))
    square = m.multiply(f, f)
    cubic = m.multiply(m.multiply(square, f), m.polynomial(f, LOG))
    return m.fma(square, -0.5, cubic)


def _special(m: Math, x: Value, result: Value) -> Value:
    """-inf at zero, nan below it and at nan, inf at inf; `result` elsewhere."""
    is_zero = m.compare("oeq", x, 0.0)
    odd = m.select(is_zero, -math.inf, m.select(m.compare("oeq", x, math.inf), x, math.nan))
    # One unsigned comparison: 0 < x < inf is 0 <= bits - 1 < bits of inf - 1.
    infinity = (2 * m.format.bias + 1) << m.format.fraction
    is_ordinary = m.compare_bits("ult", m.on_bits("subi", m.bits(x), 1), infinity - 1)
    return m.select(is_ordinary, result, odd)


def log(m: Math, x: Value) -> Value:
    lifted, less = _normal(m, x)
    f, e, _ = _split(m, lifted)
    e = m.add(e, less)
    high, low = LN2_WIDE if m.is_wide else LN2
    rest = m.fma(e, low, _tail(m, f))
    return _special(m, x, m.fma(e, high, m.add(f, rest)))


def _log_of_base(m: Math, x: Value, scale: tuple[float, float], unit: tuple[float, float]) -> Value:
    """(log m + e log 2) / log base: `scale` is 1 / log base, `unit` log 2 / log base, each in two parts."""
    lifted, less = _normal(m, x)
    f, e, _ = _split(m, lifted)
    e = m.add(e, less)
    rest = m.fma(f, scale[1], m.multiply(_tail(m, f), scale[0]))
    if unit[1]:
        rest = m.fma(e, unit[1], rest)
    high = m.fma(f, scale[0], rest)
    return _special(m, x, m.fma(e, unit[0], high))


def log2(m: Math, x: Value) -> Value:
    scale = (
        (1.4426950408889634, 2.0355273740931033e-17)
        if m.is_wide
        else (1.4426950216293335, 1.925963033500011e-08)
    )
    return _log_of_base(m, x, scale, (1.0, 0.0))


def log10(m: Math, x: Value) -> Value:
    if m.is_wide:
        return _log_of_base(
            m, x, (0.4342944819032518, 1.098319650216765e-17), (0.3010299956639812, -2.8037281277851704e-18)
        )
    return _log_of_base(
        m, x, (0.4342944920063019, -1.0103049952192578e-08), (0.3010300099849701, -1.432098883924482e-08)
    )


def log1p(m: Math, x: Value) -> Value:
    """log m + e log 2 of 1 + x, where m - 1 = x 2^-e + (2^-e - 1) has all bits of x.

    At e = bias the power 2^-e is no normal number; but there 1 + x is x, and m comes from its bits.
    """
    u = m.exact("addf", x, 1.0)
    direct, e, exponent = _split(m, u)
    power = m.power_of_two(m.on_bits("subi", 0, exponent))
    f = m.fma(x, power, m.subtract(power, 1.0))
    f = m.select(m.compare_bits("sgt", exponent, m.format.fraction + 2), direct, f)
    high, low = LN2_WIDE if m.is_wide else LN2
    rest = m.fma(e, low, _tail(m, f))
    result = m.fma(e, high, m.add(f, rest))
    return m.copysign(_special(m, u, result), x)
