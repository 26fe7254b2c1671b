"""pow and cbrt in f32, by way of f64: 2^(y log2 x) with bits to spare for the product."""

from __future__ import annotations

import math

from lamina.ir.core import Value
from lamina.ir.types import f64, with_element
from lamina.passes.loops.expand_math.exponential import exp2
from lamina.passes.loops.expand_math.expressions import Math
from lamina.passes.loops.expand_math.logarithm import log2


def _widen(m: Math, value: Value) -> tuple[Math, Value]:
    wide = Math(m.builder, with_element(m.type, f64), has_ldexp=m.has_ldexp)
    return wide, m.builder.value("arith.extf", (value,), wide.type)


def _narrow(m: Math, value: Value) -> Value:
    return m.builder.value("arith.truncf", (value,), m.type)


def pow(m: Math, x: Value, y: Value) -> Value:
    """As C99 has it: 1 for y = 0 and x = 1; a negative x needs a whole y, whose last bit gives the sign."""
    size = m.absolute(x)
    wide, wide_size = _widen(m, size)
    exponent = m.builder.value("arith.extf", (y,), wide.type)
    exponent = wide.multiply(exponent, log2(wide, wide_size))
    is_one = m.builder.value("arith.ori", (m.compare("oeq", y, 0.0), m.compare("oeq", size, 1.0)), m.truth)
    result = _narrow(m, exp2(wide, wide.select(is_one, 0.0, exponent)))
    half = m.multiply(y, 0.5)
    is_whole = m.compare("oeq", m.round(y), y)
    is_odd = m.both(is_whole, m.compare("one", m.round(half), half))
    result = m.select(is_odd, m.copysign(result, x), result)
    is_negative = m.both(m.compare("olt", x, 0.0), m.compare("ogt", x, -math.inf))
    is_broken = m.compare("une", m.round(y), y)
    return m.select(m.both(is_negative, is_broken), math.nan, result)


def cbrt(m: Math, x: Value) -> Value:
    wide, size = _widen(m, m.absolute(x))
    return m.copysign(_narrow(m, exp2(wide, wide.divide(log2(wide, size), 3.0))), x)
