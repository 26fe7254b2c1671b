"""sin, cos, tan: x = n pi/2 + r with |r| <= pi/4 (Cody and Waite, in three or four parts), polynomials in r.

The reduction holds while n has few bits. Lanes beyond take the C library's function, in a branch that
is skipped when no lane needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lamina.ir.attributes import UNIT, OpaqueAttr
from lamina.ir.core import Block, Builder, Region, Value
from lamina.ir.types import VectorType, i1
from lamina.passes.loops.expand_math.expressions import Math

PI_HALF = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
PI_HALF_WIDE = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
LIMIT, LIMIT_WIDE = 30000.0, 1e7
"""Largest |x| that is reduced here."""
SIN = (-0.16666653752326965, 0.008332101628184319, -0.00019506842363625765)
"""(sin r - r) / r^3 in r^2, |r| <= pi/4; error 4e-9."""
COS = (0.04166664555668831, -0.00138873013202101, 2.443066841806285e-05)
"""(cos r - 1 + r^2/2) / r^4 in r^2; error 1.1e-10."""
TAN = (
    0.33333155512809753, 0.1333884596824646, 0.05340687558054924, 0.024447163566946983,
    0.003091054502874613, 0.009403222240507603,
)  # fmt: skip
"""(tan r - r) / r^3 in r^2, |r| <= pi/4; error 1.8e-8 of tan."""
SIN_WIDE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(1, 9))
COS_WIDE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(2, 10))
LIBRARY = "lamina.library"
"""Marks a `math` operation that is to be a call of the C library for each lane."""


def _reduce(m: Math, x: Value) -> tuple[Value, Value]:
    """(quadrant as an integer, r)."""
    quadrant, n = m.round_to_integer(m.multiply(x, 2.0 / math.pi))
    r = x
    for part in m.choose(PI_HALF, PI_HALF_WIDE):
        r = m.fma(n, -part, r)
    return quadrant, r


def _reduce_finely(m: Math, x: Value) -> tuple[Value, Value, Value]:
    """(quadrant, r, what r lacks): the roundings of the second step are kept, by error-free operations."""
    quadrant, n = m.round_to_integer(m.multiply(x, 2.0 / math.pi))
    first, second, third = m.choose(PI_HALF, PI_HALF_WIDE)
    start = m.fma(n, -first, x)
    product = m.exact("mulf", n, second)
    product_rest = m.fma(n, second, m.negate(product))
    r = m.exact("subf", start, product)
    rest = m.exact("subf", m.exact("subf", start, r), product)
    return quadrant, r, m.fma(n, -third, m.exact("subf", rest, product_rest))


def _sine_and_cosine(m: Math, r: Value) -> tuple[Value, Value]:
    square = m.multiply(r, r)
    sine = m.fma(m.multiply(m.polynomial(square, m.choose(SIN, SIN_WIDE)), square), r, r)
    quartic = m.multiply(square, square)
    cosine = m.fma(m.polynomial(square, m.choose(COS, COS_WIDE)), quartic, m.fma(square, -0.5, 1.0))
    return sine, cosine


def _turn(m: Math, quadrant: Value, sine: Value, cosine: Value) -> Value:
    """The sine of r + quadrant pi/2."""
    is_odd = m.compare_bits("ne", m.on_bits("andi", quadrant, 1), 0)
    value = m.select(is_odd, cosine, sine)
    sign = m.on_bits("shli", m.on_bits("shrui", quadrant, 1), m.format.bits.bits - 1)
    return m.from_bits(m.on_bits("xori", m.bits(value), sign))


def sin(m: Math, x: Value) -> Value:
    quadrant, r = _reduce(m, x)
    result = _turn(m, quadrant, *_sine_and_cosine(m, r))
    # The reduction gives +0 at -0.
    result = m.select(m.compare("oeq", x, 0.0), x, result)
    return _beyond(m, "math.sin", x, result)


def cos(m: Math, x: Value) -> Value:
    quadrant, r = _reduce(m, x)
    result = _turn(m, m.on_bits("addi", quadrant, 1), *_sine_and_cosine(m, r))
    return _beyond(m, "math.cos", x, result)


def tan(m: Math, x: Value) -> Value:
    """f32: a polynomial t, or -1 / t in odd quadrants. f64: sin / cos, or -cos / sin."""
    quadrant, r, rest = _reduce_finely(m, x)
    is_odd = m.compare_bits("ne", m.on_bits("andi", quadrant, 1), 0)
    if m.is_wide:
        sine, cosine = _sine_and_cosine(m, m.add(r, rest))
        over, under = m.select(is_odd, m.negate(cosine), sine), m.select(is_odd, sine, cosine)
    else:
        square = m.multiply(r, r)
        more = m.fma(m.multiply(m.polynomial(square, TAN), square), r, m.fma(rest, square, rest))
        tangent = m.add(r, more)
        over, under = m.select(is_odd, -1.0, tangent), m.select(is_odd, tangent, 1.0)
    result = m.select(m.compare("oeq", x, 0.0), x, m.divide(over, under))
    return _beyond(m, "math.tan", x, result)


def _beyond(m: Math, name: str, x: Value, result: Value) -> Value:
    """`result`, or the C library's value in lanes where |x| is too large (or inf)."""
    is_beyond = m.compare("ogt", m.absolute(x), LIMIT_WIDE if m.is_wide else LIMIT)
    any_beyond = is_beyond
    if isinstance(m.type, VectorType):
        any_beyond = m.builder.value(
            "vector.reduction", (is_beyond,), i1, {"kind": OpaqueAttr("#vector.kind<or>")}
        )

    def slow(builder: Builder) -> Value:
        exact = builder.value(name, (x,), m.type, {LIBRARY: UNIT})
        return builder.value("arith.select", (is_beyond, exact, result), m.type)

    return _when(m, any_beyond, slow, lambda builder: result)


def _when(
    m: Math, condition: Value, then: Callable[[Builder], Value], otherwise: Callable[[Builder], Value]
) -> Value:
    regions = []
    for branch in (then, otherwise):
        builder = Builder(Block(), location=m.builder.location)
        builder.op("scf.yield", (branch(builder),))
        regions.append(Region([builder.block]))
    return m.builder.op("scf.if", (condition,), (m.type,), None, regions).results[0]
