"""erf, of two polynomials without an exponential, and erfc, which needs one."""

from __future__ import annotations

from lamina.ir.core import Value
from lamina.passes.loops.expand_math.exponential import EXP, reduce
from lamina.passes.loops.expand_math.expressions import Math

SPLIT, LAST = 1.35, 3.93
"""erf is an odd polynomial below SPLIT, another polynomial up to LAST, and 1 from there on."""
CENTRE = 2.64
LOW = (
    0.12837916612625122, -0.3761261999607086, 0.11283550411462784, -0.02685515210032463,
    0.0051994663663208485, -0.0008249249658547342, 9.974285785574466e-05, -6.811691491748206e-06,
)  # fmt: skip
"""erf(x) / x - 1 in x^2; error 3.4e-9 of erf."""
HIGH = (0.9998111724853516, 0.0010605996940284967, -0.002800190122798085, 0.004577217623591423,
        -0.005105738993734121, 0.0040065390057861805, -0.0021745606791228056, 0.0007114233449101448,
        1.3646104889630806e-05, -0.0001718176354188472, 7.383301999652758e-05, 5.028985015087528e-06,
        -7.403349172818707e-06)  # fmt: skip
"""erf in |x| - CENTRE; error 1.7e-8."""


def erf(m: Math, x: Value) -> Value:
    size = m.absolute(x)
    square = m.multiply(x, x)
    low = m.fma(m.polynomial(square, LOW), size, size)
    high = m.polynomial(m.subtract(m.at_most(size, LAST), CENTRE), HIGH)
    return m.copysign(m.select(m.compare("olt", size, SPLIT), low, high), x)


ERFC_LAST = 10.1
"""erfc is 0 from here on."""
ERFC = (
    1.2769783735275269, -0.09276391565799713, -0.16603095829486847, 0.16405458748340607,
    -0.05420750752091408, -0.008057902567088604, 0.008640462532639503, 0.0013140497030690312,
    -0.0012383160647004843, -0.00040474909474141896,
)  # fmt: skip
"""erfc(a) e^(a^2) (1 + 2 a) in (a - 2) / (a + 2), 0 <= a < 10.1; error 1.6e-8."""


ERFC_SPLIT = 0.6


def erfc(m: Math, x: Value) -> Value:
    """1 - erf x near 0; else e^(-a^2) P / (1 + 2 a), a = |x|, and 2 less that for negative x.

    What a^2 loses in rounding is made good.
    """
    near = m.subtract(1.0, m.fma(m.polynomial(m.multiply(x, x), LOW), x, x))
    a = m.at_most(m.absolute(x), ERFC_LAST)
    shape = m.polynomial(m.divide(m.subtract(a, 2.0), m.add(a, 2.0)), ERFC)
    shape = m.divide(shape, m.fma(a, 2.0, 1.0))
    square = m.exact("mulf", a, a)
    lost = m.fma(a, a, m.negate(square))
    whole, r = reduce(m, m.negate(square))
    value = m.multiply(m.polynomial(r, EXP), shape)
    value = m.scale(m.fma(m.negate(lost), value, value), whole)
    far = m.select(m.compare("olt", x, 0.0), m.subtract(2.0, value), value)
    return m.select(m.compare("olt", m.absolute(x), ERFC_SPLIT), near, far)
