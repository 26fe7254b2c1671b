"""asin, acos, atan, atan2 in f32: odd minimax polynomials on a part of the range, identities elsewhere."""

from __future__ import annotations

from lamina.ir.core import Value
from lamina.passes.loops.expand_math.expressions import Math

ATAN = (
    -0.3333316743373871, 0.1999414712190628, -0.14214284718036652, 0.10679222643375397,
    -0.07581154257059097, 0.04356009140610695, -0.016585083678364754, 0.0029755369760096073,
)  # fmt: skip
"""(atan x - x) / x^3 in x^2, |x| <= 1; error 1.5e-8 of atan."""
ASIN = (
    0.16666753590106964,
    0.07495252043008804,
    0.0454760417342186,
    0.02415209263563156,
    0.04221179708838463,
)
"""(asin x - x) / x^3 in x^2, |x| <= 0.5; error 5e-9 of asin."""
PI_HALF, PI_HALF_REST = 1.5707963705062866, -4.371138828673793e-08
"""pi/2 as a sum of two f32 numbers."""


def _atan_of_small(m: Math, t: Value) -> Value:
    square = m.multiply(t, t)
    return m.fma(m.multiply(m.polynomial(square, ATAN), square), t, t)


def _from_right_angle(m: Math, angle: Value) -> Value:
    return m.add(m.subtract(PI_HALF, angle), PI_HALF_REST)


def atan(m: Math, x: Value) -> Value:
    """Beyond 1: pi/2 - atan(1 / x)."""
    size = m.absolute(x)
    is_large = m.compare("ogt", size, 1.0)
    angle = _atan_of_small(m, m.select(is_large, m.divide(1.0, size), size))
    return m.copysign(m.select(is_large, _from_right_angle(m, angle), angle), x)


def atan2(m: Math, y: Value, x: Value) -> Value:
    """The angle of the smaller over the larger size, then reflected; 0/0 counts as 0 and inf/inf as 1."""
    height, width = m.absolute(y), m.absolute(x)
    is_steep = m.compare("ogt", height, width)
    ratio = m.divide(m.select(is_steep, width, height), m.select(is_steep, height, width))
    even = m.select(m.compare("oeq", height, 0.0), 0.0, 1.0)
    ratio = m.select(m.compare("oeq", height, width), even, ratio)
    angle = _atan_of_small(m, ratio)
    angle = m.select(is_steep, _from_right_angle(m, angle), angle)
    is_left = m.compare_bits("slt", m.bits(x), 0)
    left = m.add(m.subtract(2.0 * PI_HALF, angle), 2.0 * PI_HALF_REST)
    return m.copysign(m.select(is_left, left, angle), y)


def _half_angle(m: Math, x: Value) -> tuple[Value, Value, Value]:
    """(|x| > 1/2, s, what asin(s) has beyond s) with s = |x|, or sqrt((1 - |x|) / 2) for large |x|."""
    size = m.absolute(x)
    is_large = m.compare("ogt", size, 0.5)
    square = m.select(is_large, m.fma(size, -0.5, 0.5), m.multiply(size, size))
    s = m.select(is_large, m.sqrt(square), size)
    return is_large, s, m.multiply(m.multiply(m.polynomial(square, ASIN), square), s)


def asin(m: Math, x: Value) -> Value:
    """Beyond 1/2: pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    is_large, s, more = _half_angle(m, x)
    large = m.subtract(m.fma(s, -2.0, PI_HALF), m.fma(more, 2.0, -PI_HALF_REST))
    return m.copysign(m.select(is_large, large, m.add(s, more)), x)


def acos(m: Math, x: Value) -> Value:
    """pi/2 - asin x; above 1/2: 2 asin(sqrt((1 - x) / 2)), below -1/2: pi less that of |x|."""
    is_large, s, more = _half_angle(m, x)
    doubled = m.multiply(m.add(s, more), 2.0)
    mirrored = m.subtract(2.0 * PI_HALF, m.subtract(doubled, 2.0 * PI_HALF_REST))
    large = m.select(m.compare("olt", x, 0.0), mirrored, doubled)
    signed = m.copysign(more, x)
    middle = m.subtract(PI_HALF, m.add(x, m.subtract(signed, PI_HALF_REST)))
    return m.select(is_large, large, middle)
