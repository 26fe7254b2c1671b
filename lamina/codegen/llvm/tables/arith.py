"""`arith` -> `llvm`: one operation for one, but for bf16 (bits, computed in f32) and nan-aware extrema."""

from __future__ import annotations

from lamina.codegen.llvm.lowering import Lowering, Rule
from lamina.codegen.llvm.types import like, lower_type
from lamina.ir.attributes import Attribute, OpaqueAttr
from lamina.ir.core import Operation, Value
from lamina.ir.types import ScalarType, Type, bf16, element_of, f32, i1, index

CONTRACT = OpaqueAttr("#llvm.fastmath<contract>")
EITHER_ZERO = OpaqueAttr("#llvm.fastmath<nsz>")
"""max(-0, 0) may be either zero, as in PyTorch's own vector code: two instructions less on x86."""


def _flags(lowering: Lowering, operation: Operation) -> dict[str, Attribute]:
    """An explicit `fastmath` is taken at its word, of which only `contract` counts."""
    asked = operation.attributes.get("fastmath")
    if isinstance(asked, OpaqueAttr):
        allowed = "contract" in asked.spelling or "fast>" in asked.spelling
    else:
        allowed = lowering.contract
    return {"fastmathFlags": CONTRACT} if allowed else {}


def in_f32(lowering: Lowering, operation: Operation, values: list[Value]) -> list[Value]:
    """The operands of a float operation, bf16 bits widened."""
    if element_of(operation.operand(0).type) is bf16:
        return [lowering.widen(value) for value in values]
    return values


def back(lowering: Lowering, operation: Operation, value: Value) -> Value:
    """The counterpart of `in_f32` for the result."""
    return lowering.narrow(value) if element_of(operation.result.type) is bf16 else value


def float_operation(name: str, *, flags: Attribute | None = None, contract: bool = False) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        values = in_f32(lowering, operation, lowering.operands(operation))
        attributes = _flags(lowering, operation) if contract else {}
        if flags is not None:
            attributes = {"fastmathFlags": flags}
        return back(lowering, operation, lowering.op(name, values, values[0].type, attributes))

    return lower


def integer_operation(name: str) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        values = lowering.operands(operation)
        return lowering.op(name, values, values[0].type)

    return lower


def _add(lowering: Lowering, operation: Operation) -> Value:
    a, b = lowering.operands(operation)
    if operation.result.type is index:
        return lowering.add(a, b)
    return lowering.op("llvm.add", (a, b), a.type)


def _multiply(lowering: Lowering, operation: Operation) -> Value:
    a, b = lowering.operands(operation)
    if operation.result.type is index:
        for value, other in ((a, b), (b, a)):
            factor = lowering.known(value)
            if factor is not None:
                return lowering.multiply(other, factor)
    return lowering.op("llvm.mul", (a, b), a.type)


def _floor_divide(lowering: Lowering, operation: Operation) -> Value:
    """a // b = a / b, less one where there is a remainder and the signs of a and b differ."""
    a, b = lowering.operands(operation)
    type_, truth = a.type, like(a.type, i1)
    zero = lowering.constant(0, type_)
    quotient = lowering.op("llvm.sdiv", (a, b), type_)
    remainder = lowering.op("llvm.srem", (a, b), type_)
    is_inexact = lowering.op("llvm.icmp", (remainder, zero), truth, {"predicate": 1})
    signs = lowering.op("llvm.xor", (remainder, b), type_)
    differ = lowering.op("llvm.icmp", (signs, zero), truth, {"predicate": 2})
    is_lower = lowering.op("llvm.and", (is_inexact, differ), truth)
    down = lowering.op("llvm.sext", (is_lower,), type_)
    return lowering.op("llvm.add", (quotient, down), type_)


def _ceiling_divide(lowering: Lowering, operation: Operation) -> Value:
    """The quotient of two non-negative numbers, rounded up (index arithmetic)."""
    a, b = lowering.operands(operation)
    more = lowering.op(
        "llvm.add", (a, lowering.op("llvm.sub", (b, lowering.constant(1, b.type)), b.type)), a.type
    )
    return lowering.op("llvm.udiv", (more, b), a.type)


def _compare(name: str) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        values = lowering.operands(operation)
        if name == "llvm.fcmp":
            values = in_f32(lowering, operation, values)
        attributes = {"predicate": operation.attributes["predicate"]}
        return lowering.op(name, values, lower_type(operation.result.type), attributes)

    return lower


def _select(lowering: Lowering, operation: Operation) -> Value:
    values = lowering.operands(operation)
    return lowering.op("llvm.select", values, values[1].type)


def _constant(lowering: Lowering, operation: Operation) -> Value:
    return lowering.attribute_constant(operation.attributes["value"], operation.result.type)


def _cast(name: str) -> Rule:
    """A cast; to and from bf16 it passes through f32."""

    def lower(lowering: Lowering, operation: Operation) -> Value:
        value = lowering.value(operation.operand())
        source, target = operation.operand().type, operation.result.type
        if element_of(source) is bf16:
            value = lowering.widen(value)
        wanted = like(lower_type(target), f32) if element_of(target) is bf16 else lower_type(target)
        if value.type is not wanted:
            value = lowering.op(_resize(name, value, wanted), (value,), wanted)
        return lowering.narrow(value) if element_of(target) is bf16 else value

    return lower


def _resize(name: str, value: Value, wanted: Type) -> str:
    """fpext or fptrunc by the widths that are left after bf16 became f32."""
    if name not in ("llvm.fpext", "llvm.fptrunc"):
        return name
    return "llvm.fpext" if element_of(value.type).bits < element_of(wanted).bits else "llvm.fptrunc"


def _index_cast(extend: str) -> Rule:
    def lower(lowering: Lowering, operation: Operation) -> Value:
        value = lowering.value(operation.operand())
        wanted = lower_type(operation.result.type)
        have, want = element_of(value.type).bits, element_of(wanted).bits
        if have == want:
            return value
        known = lowering.known(value)
        if known is not None and isinstance(wanted, ScalarType):
            return lowering.constant(known, wanted)
        return lowering.op("llvm.trunc" if have > want else extend, (value,), wanted)

    return lower


def _bitcast(lowering: Lowering, operation: Operation) -> Value:
    value, wanted = lowering.value(operation.operand()), lower_type(operation.result.type)
    return value if value.type is wanted else lowering.op("llvm.bitcast", (value,), wanted)


def _negate(lowering: Lowering, operation: Operation) -> Value:
    value = lowering.value(operation.operand())
    if element_of(operation.result.type) is bf16:
        return lowering.op("llvm.xor", (value, lowering.constant(-0x8000, value.type)), value.type)
    return lowering.op("llvm.fneg", (value,), value.type)


def float_to_integer(name: str) -> Rule:
    """LLVM leaves numbers out of range undefined: the result is what the processor's conversion gives."""

    def lower(lowering: Lowering, operation: Operation) -> Value:
        (value,) = in_f32(lowering, operation, lowering.operands(operation))
        return lowering.op(name, (value,), lower_type(operation.result.type))

    return lower


INTEGER = {
    "subi": "sub", "divsi": "sdiv", "divui": "udiv", "remsi": "srem", "remui": "urem", "andi": "and",
    "ori": "or", "xori": "xor", "shli": "shl", "shrsi": "ashr", "shrui": "lshr", "maxsi": "intr.smax",
    "minsi": "intr.smin", "maxui": "intr.umax", "minui": "intr.umin",
}  # fmt: skip
CASTS = {
    "extf": "fpext", "truncf": "fptrunc", "extsi": "sext", "extui": "zext", "trunci": "trunc",
    "sitofp": "sitofp", "uitofp": "uitofp",
}  # fmt: skip

TABLE: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.addf": float_operation("llvm.fadd", contract=True),
    "arith.subf": float_operation("llvm.fsub", contract=True),
    "arith.mulf": float_operation("llvm.fmul", contract=True),
    "arith.divf": float_operation("llvm.fdiv"),
    "arith.remf": float_operation("llvm.frem"),
    "arith.negf": _negate,
    "arith.maximumf": float_operation("llvm.intr.maximum", flags=EITHER_ZERO),
    "arith.minimumf": float_operation("llvm.intr.minimum", flags=EITHER_ZERO),
    "arith.maxnumf": float_operation("llvm.intr.maxnum", flags=EITHER_ZERO),
    "arith.minnumf": float_operation("llvm.intr.minnum", flags=EITHER_ZERO),
    "arith.addi": _add,
    "arith.muli": _multiply,
    "arith.floordivsi": _floor_divide,
    "arith.ceildivui": _ceiling_divide,
    "arith.ceildivsi": _ceiling_divide,
    **{f"arith.{name}": integer_operation(f"llvm.{lowered}") for name, lowered in INTEGER.items()},
    "arith.cmpf": _compare("llvm.fcmp"),
    "arith.cmpi": _compare("llvm.icmp"),
    "arith.select": _select,
    **{f"arith.{name}": _cast(f"llvm.{lowered}") for name, lowered in CASTS.items()},
    "arith.fptosi": float_to_integer("llvm.fptosi"),
    "arith.fptoui": float_to_integer("llvm.fptoui"),
    "arith.index_cast": _index_cast("llvm.sext"),
    "arith.index_castui": _index_cast("llvm.zext"),
    "arith.bitcast": _bitcast,
}  # fmt: skip
