"""Spell elementary functions as arithmetic, for vectors and scalars of the loop level.

    %y = math.exp %x : vector<16xf32>      =>      multiplications, fused multiply-adds, one scaling by 2^n

f16 and bf16 are computed in f32. What has no expansion here for its type (most of f64's rarer functions)
is left: the back end calls the C library for it, lane by lane. Largest errors are tested, in
tests/codegen/test_math.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lamina.ir.core import Builder, Operation, Value
from lamina.ir.passes import Context
from lamina.ir.types import bf16, element_of, f16, f32, f64, with_element
from lamina.passes.loops.expand_math import (
    error_function,
    exponential,
    hyperbolic,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from lamina.passes.loops.expand_math.expressions import Math
from lamina.passes.loops.expand_math.trigonometric import LIBRARY

NAME = "expand_math"
Expansion: TypeAlias = Callable[..., Value]

BOTH: dict[str, Expansion] = {
    "math.exp": exponential.exp,
    "math.exp2": exponential.exp2,
    "math.expm1": exponential.expm1,
    "math.log": logarithm.log,
    "math.log2": logarithm.log2,
    "math.log10": logarithm.log10,
    "math.log1p": logarithm.log1p,
    "math.tanh": hyperbolic.tanh,
    "math.sinh": hyperbolic.sinh,
    "math.cosh": hyperbolic.cosh,
    "math.asinh": hyperbolic.asinh,
    "math.acosh": hyperbolic.acosh,
    "math.atanh": hyperbolic.atanh,
    "math.sin": trigonometric.sin,
    "math.cos": trigonometric.cos,
    "math.tan": trigonometric.tan,
}
"""Expansions for f32 and f64."""
NARROW: dict[str, Expansion] = {
    "math.erf": error_function.erf,
    "math.erfc": error_function.erfc,
    "math.asin": inverse.asin,
    "math.acos": inverse.acos,
    "math.atan": inverse.atan,
    "math.atan2": inverse.atan2,
    "math.powf": power.pow,
    "math.cbrt": power.cbrt,
}
"""Expansions for f32 alone."""


def run(module: Operation, context: Context) -> None:
    """Expand everything inside `module` (a module or a function) for the context's target."""
    target = context.target
    expand(module, target.isa if target is not None else "")


def expand(root: Operation, isa: str = "") -> None:
    """Expand everything inside `root`; `isa` chooses instructions ("avx512" scales by 2^n in one)."""
    for operation in list(root.walk()):
        if operation.name.startswith("math.") and LIBRARY not in operation.attributes:
            _expand_operation(operation, isa)


def _expand_operation(operation: Operation, isa: str) -> None:
    type_ = operation.result.type
    element = element_of(type_)
    expansion = BOTH.get(operation.name)
    if expansion is None and element is not f64:
        expansion = NARROW.get(operation.name)
    if expansion is None:
        return
    builder = Builder.before_op(operation)
    values = list(operation.operands)
    wide = with_element(type_, f32) if element in (f16, bf16) else type_
    if wide is not type_:
        values = [builder.value("arith.extf", (value,), wide) for value in values]
    result = expansion(Math(builder, wide, has_ldexp=isa == "avx512"), *values)
    if wide is not type_:
        result = builder.value("arith.truncf", (result,), type_)
    operation.replace_with([result])
