"""`math` -> LLVM intrinsics, for what processors have instructions for; `expand_math` does the rest before."""

from __future__ import annotations

from lamina.codegen.llvm.lowering import Lowering, Rule
from lamina.codegen.llvm.tables.arith import float_operation, in_f32
from lamina.ir.attributes import BoolAttr
from lamina.ir.core import Operation, Value

INTRINSICS = {
    "absf": "fabs", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "round", "roundeven": "roundeven",
    "sqrt": "sqrt", "copysign": "copysign", "fma": "fma",
}  # fmt: skip


def _absolute(lowering: Lowering, operation: Operation) -> Value:
    value = lowering.value(operation.operand())
    return lowering.op("llvm.intr.abs", (value,), value.type, {"is_int_min_poison": BoolAttr(False)})


def _is_nan(lowering: Lowering, operation: Operation) -> Value:
    (value,) = in_f32(lowering, operation, lowering.operands(operation))
    return lowering.compare_floats("uno", value, value)


def _compare_with_infinity(predicate: str) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        (value,) = in_f32(lowering, operation, lowering.operands(operation))
        size = lowering.op("llvm.intr.fabs", (value,), value.type)
        return lowering.compare_floats(predicate, size, lowering.constant(float("inf"), value.type))

    return lower


def _count(name: str) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        value = lowering.value(operation.operand())
        attributes = {"is_zero_poison": BoolAttr(False)} if name != "llvm.intr.ctpop" else None
        return lowering.op(name, (value,), value.type, attributes)

    return lower


TABLE: dict[str, Rule] = {
    **{f"math.{name}": float_operation(f"llvm.intr.{intrinsic}") for name, intrinsic in INTRINSICS.items()},
    "math.absi": _absolute,
    "math.isnan": _is_nan,
    "math.isinf": _compare_with_infinity("oeq"),
    "math.isfinite": _compare_with_infinity("olt"),
    "math.ctpop": _count("llvm.intr.ctpop"),
    "math.ctlz": _count("llvm.intr.ctlz"),
    "math.cttz": _count("llvm.intr.cttz"),
}
