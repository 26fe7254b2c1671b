"""`math` -> LLVM intrinsics, where processors have an instruction; `expand_math` did the rest before."""

from __future__ import annotations

from lamina.codegen.llvm.lowering import Lowering, Rule
from lamina.codegen.llvm.parallel import EXTERNAL, INTERNAL, call_for, make_function
from lamina.codegen.llvm.tables.arith import back, float_operation, in_f32
from lamina.codegen.llvm.tables.scf import build_loop
from lamina.codegen.llvm.types import like, lower_type
from lamina.ir.attributes import UNIT, BoolAttr, IntegerAttr
from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.types import ScalarType, VectorType, element_of, f16, f32, f64, pointer

INTRINSICS = {
    "absf": "fabs", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "round",
    "roundeven": "roundeven", "sqrt": "sqrt", "copysign": "copysign", "fma": "fma",
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


def _inverse_root(lowering: Lowering, operation: Operation) -> Value:
    """1 / sqrt(x), both correctly rounded; the processor's estimate would need as many operations."""
    (value,) = in_f32(lowering, operation, lowering.operands(operation))
    root = lowering.op("llvm.intr.sqrt", (value,), value.type)
    result = lowering.op("llvm.fdiv", (lowering.constant(1.0, value.type), root), value.type)
    return back(lowering, operation, result)


def _as_it_is(lowering: Lowering, operation: Operation) -> Value:
    """An `llvm` operation among loop-level ones (`expand_math` makes them)."""
    type_ = lower_type(operation.result.type)
    return lowering.op(operation.name, lowering.operands(operation), type_, operation.attributes)


LIBRARY = {
    **{name: name for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt", "atan2",
    )},
    "powf": "pow",
}  # fmt: skip
"""Functions of the C library, called for each lane: slow, and exact to about one ulp."""


def _library(name: str) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        values = in_f32(lowering, operation, lowering.operands(operation))
        type_ = values[0].type
        is_half = element_of(type_) is f16
        if is_half:
            values = [lowering.op("llvm.fpext", (value,), like(type_, f32)) for value in values]
        result = _call_library(lowering, LIBRARY[name], values)
        if is_half:
            result = lowering.op("llvm.fptrunc", (result,), type_)
        return back(lowering, operation, result)

    return lower


def _call_library(lowering: Lowering, name: str, values: list[Value]) -> Value:
    type_ = values[0].type
    element = element_of(type_)
    symbol = name if element is f64 else f"{name}f"
    _declare(lowering, symbol, element, len(values))
    if not isinstance(type_, VectorType):
        return call_for(lowering, symbol, values, type_)
    helper = f"lamina.lanes.{symbol}.{type_.shape[0]}"
    if helper not in lowering.support:
        lowering.support[helper] = _build_lanes(helper, symbol, type_, len(values))
    return call_for(lowering, helper, values, type_)


def _declare(lowering: Lowering, symbol: str, element: ScalarType, count: int) -> None:
    if symbol not in lowering.support:
        type_ = f"{element} ({', '.join([str(element)] * count)})"
        lowering.support[symbol] = make_function(symbol, type_, Region(), EXTERNAL)


def _build_lanes(name: str, symbol: str, type_: VectorType, count: int) -> Operation:
    """A function of vectors that calls a scalar one lane after lane, by way of the stack."""
    region = Region([Block([type_] * count)])
    lowering = Lowering(region, {}, contract=False)
    element, lanes = type_.element, type_.shape[0]
    aligned = {"alignment": IntegerAttr(lanes * element.bytes)}
    attributes = {"elem_type": element, **aligned}
    buffers = [
        lowering.at_entry("llvm.alloca", (lowering.index(lanes),), pointer, attributes) for _ in range(count)
    ]
    for argument, buffer in zip(lowering.entry.arguments, buffers, strict=True):
        lowering.act("llvm.store", (argument, buffer), aligned)

    def body(lane: Value, carried: list[Value]) -> list[Value]:
        places = [lowering.offset(buffer, lane, element) for buffer in buffers]
        one = {"alignment": IntegerAttr(element.bytes)}
        values = [lowering.op("llvm.load", (place,), element, one) for place in places]
        lowering.act("llvm.store", (call_for(lowering, symbol, values, element), places[0]), one)
        return carried

    build_loop(lowering, (lowering.index(0), lowering.index(lanes), lowering.index(1)), (), body)
    lowering.act("llvm.return", (lowering.op("llvm.load", (buffers[0],), type_, aligned),))
    signature = f"{type_} ({', '.join([str(type_)] * count)})"
    return make_function(name, signature, region, INTERNAL, no_inline=UNIT)


TABLE: dict[str, Rule] = {
    **{f"math.{name}": _library(name) for name in LIBRARY},
    **{f"math.{name}": float_operation(f"llvm.intr.{intrinsic}") for name, intrinsic in INTRINSICS.items()},
    "math.absi": _absolute,
    "math.isnan": _is_nan,
    "math.isinf": _compare_with_infinity("oeq"),
    "math.isfinite": _compare_with_infinity("olt"),
    "math.ctpop": _count("llvm.intr.ctpop"),
    "math.ctlz": _count("llvm.intr.ctlz"),
    "math.cttz": _count("llvm.intr.cttz"),
    "math.rsqrt": _inverse_root,
    "llvm.intr.lrint": _as_it_is,
    "llvm.call_intrinsic": _as_it_is,
}
