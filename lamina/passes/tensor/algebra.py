"""The algebraic equations `canonicalize` applies: exact ones only.

    arith.mulf %x, dense<1.0>      =>      %x

Float equations hold on every value, -0, infinities and subnormals among them; nan stays nan (its sign and
payload may change). So `x + 0 -> x` (wrong for -0), `x * 0 -> 0`, `x - x -> 0` and `(a + b) - b -> a` are
not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from lamina.ir.attributes import decode_scalar, encode_scalar
from lamina.ir.types import ScalarType
from lamina.passes.tensor.equations import Compiled, Equation, Number, compile_equation

SMALLEST_NORMAL = {"f64": 2.0**-1022, "f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14}
LARGEST_POWER = {"f64": 2.0**1023, "f32": 2.0**127, "bf16": 2.0**127, "f16": 2.0**15}


def _has_exact_reciprocal(constants: Mapping[str, Number], element: ScalarType) -> bool:
    """A power of two whose reciprocal is a normal number: both quotient and product round the same number."""
    value = float(constants["C"])
    if value == 0 or not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return False
    return SMALLEST_NORMAL[element.name] <= abs(1 / value) <= LARGEST_POWER[element.name]


def _reciprocal(constants: Mapping[str, Number], element: ScalarType) -> Number:
    return 1.0 / float(constants["C"])


def _is_power_of_two(constants: Mapping[str, Number], element: ScalarType) -> bool:
    value = int(constants["C"])
    return value > 1 and value & (value - 1) == 0


def _exponent(constants: Mapping[str, Number], element: ScalarType) -> Number:
    return int(constants["C"]).bit_length() - 1


def _less_one(constants: Mapping[str, Number], element: ScalarType) -> Number:
    return int(constants["C"]) - 1


def _wrapped(value: int, element: ScalarType) -> Number:
    return decode_scalar(encode_scalar(value, element), element)


def _sum(constants: Mapping[str, Number], element: ScalarType) -> Number:
    return _wrapped(int(constants["C"]) + int(constants["D"]), element)


def _product(constants: Mapping[str, Number], element: ScalarType) -> Number:
    return _wrapped(int(constants["C"]) * int(constants["D"]), element)


def _negated(constants: Mapping[str, Number], element: ScalarType) -> Number:
    return _wrapped(-int(constants["C"]), element)


def _float(before: str, after: str) -> Equation:
    return Equation(before, after, "float")


def _integer(before: str, after: str) -> Equation:
    return Equation(before, after, "integer")


def _boolean(before: str, after: str) -> Equation:
    return Equation(before, after, "boolean")


FLOAT = (
    _float("addf(x, -0.0)", "x"),
    *(_float(f"addf({x}, 0.0)", x) for x in ("addf(y, 0.0)", "mulf(y, y)", "absf(y)", "exp(y)")),
    _float("subf(x, 0.0)", "x"),
    _float("subf(-0.0, x)", "negf(x)"),
    _float("mulf(x, 1.0)", "x"),
    _float("mulf(x, -1.0)", "negf(x)"),
    _float("divf(x, 1.0)", "x"),
    _float("divf(x, -1.0)", "negf(x)"),
    Equation("divf(x, C)", "mulf(x, R)", "float", _has_exact_reciprocal, {"R": _reciprocal}),
    _float("negf(negf(x))", "x"),
    _float("addf(x, negf(y))", "subf(x, y)"),
    _float("subf(x, negf(y))", "addf(x, y)"),
    _float("mulf(negf(x), negf(y))", "mulf(x, y)"),
    _float("divf(negf(x), negf(y))", "divf(x, y)"),
    _float("absf(absf(x))", "absf(x)"),
    _float("absf(negf(x))", "absf(x)"),
    _float("absf(mulf(x, x))", "mulf(x, x)"),
    _float("mulf(absf(x), absf(x))", "mulf(x, x)"),
    _float("maximumf(x, x)", "x"),
    _float("minimumf(x, x)", "x"),
    _float("maxnumf(x, x)", "x"),
    _float("minnumf(x, x)", "x"),
    _float("maximumf(x, -inf)", "x"),
    _float("minimumf(x, inf)", "x"),
    _float("maximumf(maximumf(x, y), y)", "maximumf(x, y)"),
    _float("minimumf(minimumf(x, y), y)", "minimumf(x, y)"),
    _float("powf(x, 1.0)", "x"),
    _float("powf(x, 2.0)", "mulf(x, x)"),
    _float("powf(x, -1.0)", "divf(1.0, x)"),
    _float("powf(x, 0.0)", "1.0"),
    *(
        _float(f"{outer}({inner}(x))", f"{inner}(x)")
        for outer in ("floor", "ceil", "trunc", "round", "roundeven")
        for inner in ("floor", "ceil", "trunc", "round", "roundeven")
    ),
    _float("select(c, x, x)", "x"),
    _float("select(True, x, y)", "x"),
    _float("select(False, x, y)", "y"),
    _float("select(xori(c, True), x, y)", "select(c, y, x)"),
    _float("cmpf_false(x, y)", "False"),
    _float("cmpf_true(x, y)", "True"),
)

INTEGER = (
    _integer("addi(x, 0)", "x"),
    _integer("subi(x, 0)", "x"),
    _integer("subi(x, x)", "0"),
    Equation("subi(x, C)", "addi(x, N)", "integer", None, {"N": _negated}),
    Equation("addi(addi(x, C), D)", "addi(x, S)", "integer", None, {"S": _sum}),
    _integer("subi(addi(x, y), y)", "x"),
    _integer("addi(subi(x, y), y)", "x"),
    _integer("muli(x, 1)", "x"),
    _integer("muli(x, 0)", "0"),
    Equation("muli(muli(x, C), D)", "muli(x, P)", "integer", None, {"P": _product}),
    _integer("divsi(x, 1)", "x"),
    _integer("divui(x, 1)", "x"),
    _integer("floordivsi(x, 1)", "x"),
    _integer("remsi(x, 1)", "0"),
    _integer("remui(x, 1)", "0"),
    Equation("floordivsi(x, C)", "shrsi(x, E)", "integer", _is_power_of_two, {"E": _exponent}),
    Equation("divui(x, C)", "shrui(x, E)", "integer", _is_power_of_two, {"E": _exponent}),
    Equation("remui(x, C)", "andi(x, M)", "integer", _is_power_of_two, {"M": _less_one}),
    _integer("andi(x, x)", "x"),
    _integer("andi(x, 0)", "0"),
    _integer("andi(x, -1)", "x"),
    _integer("ori(x, x)", "x"),
    _integer("ori(x, 0)", "x"),
    _integer("ori(x, -1)", "-1"),
    _integer("xori(x, x)", "0"),
    _integer("xori(x, 0)", "x"),
    _integer("xori(xori(x, y), y)", "x"),
    _integer("shli(x, 0)", "x"),
    _integer("shrsi(x, 0)", "x"),
    _integer("shrui(x, 0)", "x"),
    *(_integer(f"{name}(x, x)", "x") for name in ("maxsi", "minsi", "maxui", "minui")),
    *(_integer(f"cmpi_{name}(x, x)", "True") for name in ("eq", "sle", "sge", "ule", "uge")),
    *(_integer(f"cmpi_{name}(x, x)", "False") for name in ("ne", "slt", "sgt", "ult", "ugt")),
    _integer("absi(absi(x))", "absi(x)"),
    _integer("select(c, x, x)", "x"),
    _integer("select(True, x, y)", "x"),
    _integer("select(False, x, y)", "y"),
    _integer("select(xori(c, True), x, y)", "select(c, y, x)"),
)

BOOLEAN = (
    _boolean("andi(x, x)", "x"),
    _boolean("andi(x, True)", "x"),
    _boolean("andi(x, False)", "False"),
    _boolean("ori(x, x)", "x"),
    _boolean("ori(x, False)", "x"),
    _boolean("ori(x, True)", "True"),
    _boolean("xori(x, x)", "False"),
    _boolean("xori(x, False)", "x"),
    _boolean("xori(xori(x, y), y)", "x"),
    _boolean("select(c, x, x)", "x"),
    _boolean("select(True, x, y)", "x"),
    _boolean("select(False, x, y)", "y"),
    _boolean("select(x, True, False)", "x"),
    _boolean("select(x, False, True)", "xori(x, True)"),
    _boolean("select(xori(c, True), x, y)", "select(c, y, x)"),
    _boolean("cmpi_ne(x, False)", "x"),
    _boolean("cmpi_eq(x, True)", "x"),
    _boolean("cmpi_eq(x, False)", "xori(x, True)"),
    _boolean("cmpi_ne(x, True)", "xori(x, True)"),
)

EQUATIONS = FLOAT + INTEGER + BOOLEAN


def _by_operation() -> dict[str, tuple[Compiled, ...]]:
    found: dict[str, list[Compiled]] = {}
    for equation in EQUATIONS:
        compiled = compile_equation(equation)
        found.setdefault(compiled.before.name, []).append(compiled)
    return {name: tuple(rules) for name, rules in found.items()}


BY_OPERATION = _by_operation()
"""The equations by the operation on the left."""
