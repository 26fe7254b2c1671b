"""The cast rules `canonicalize` applies: pairs of casts that are one cast, or none, exactly.

    %0 = arith.extf %x : bf16 to f32
    %1 = arith.truncf %0 : f32 to bf16      =>      %x

`extf (truncf x)` rounds, and stays.
"""

from __future__ import annotations

from lamina.ir.attributes import plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops.arith import CMPI
from lamina.ir.types import ScalarType, element_of
from lamina.passes.tensor.fold import splat_constant

SIGNIFICANT_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
"""Bits of a whole number that each float type holds exactly (below its largest power of two)."""
WIDENING = frozenset({"arith.extf", "arith.extsi", "arith.extui"})
INTEGRAL = frozenset({"math.floor", "math.ceil", "math.trunc", "math.round", "math.roundeven"})


def merge_widenings(operation: Operation, builder: Builder) -> Value | None:
    """ext (ext x) => ext x; extsi (extui x) => extui x, as the sign bit is clear"""
    inner = operation.operand().defining_op
    if inner is None or inner.name not in WIDENING:
        return None
    if inner.name != operation.name and (operation.name, inner.name) != ("arith.extsi", "arith.extui"):
        return None
    return builder.value(inner.name, [inner.operand()], operation.result.type)


def narrow_of_wide(operation: Operation, builder: Builder) -> Value | None:
    """trunc (ext x) => x, or a shorter ext, or a trunc; trunci (trunci x) => trunci x"""
    inner = operation.operand().defining_op
    if inner is None or inner.name not in WIDENING | {"arith.trunci"}:
        return None
    is_float = operation.name == "arith.truncf"
    if is_float != (inner.name == "arith.extf"):
        return None
    source = inner.operand()
    if source.type is operation.result.type:
        return source
    have, want = element_of(source.type), element_of(operation.result.type)
    if inner.name == "arith.trunci":
        return builder.value("arith.trunci", [source], operation.result.type)
    if have.bits > want.bits:
        return builder.value(operation.name, [source], operation.result.type)
    if have.bits < want.bits:
        return builder.value(inner.name, [source], operation.result.type)
    return None


def float_of_wide_integer(operation: Operation, builder: Builder) -> Value | None:
    """sitofp (extsi x) => sitofp x; sitofp or uitofp (extui x) => uitofp x"""
    inner = operation.operand().defining_op
    if inner is None or inner.name not in ("arith.extsi", "arith.extui"):
        return None
    if inner.name == "arith.extsi" and operation.name == "arith.uitofp":
        return None
    name = "arith.sitofp" if inner.name == "arith.extsi" else "arith.uitofp"
    return builder.value(name, [inner.operand()], operation.result.type)


def integer_of_float_of_integer(operation: Operation, builder: Builder) -> Value | None:
    """fptosi (sitofp x) => x, where the float type holds every such integer"""
    inner = operation.operand().defining_op
    if inner is None or inner.name not in ("arith.sitofp", "arith.uitofp", *INTEGRAL):
        return None
    if inner.name == "math.trunc":
        return builder.value(operation.name, [inner.operand()], operation.result.type)
    if inner.name in INTEGRAL or not _holds(inner):
        return None
    source = inner.operand()
    have, want = element_of(source.type), element_of(operation.result.type)
    if source.type is operation.result.type and inner.name == "arith.sitofp" and have.name != "i1":
        return source
    if have.bits < want.bits:
        name = "arith.extsi" if inner.name == "arith.sitofp" else "arith.extui"
        return builder.value(name, [source], operation.result.type)
    return None


def _holds(cast: Operation) -> bool:
    source, target = element_of(cast.operand().type), element_of(cast.result.type)
    return source.bits <= SIGNIFICANT_BITS.get(target.name, 0)


def round_of_integer(operation: Operation, builder: Builder) -> Value | None:
    """floor, ceil, round, trunc of a converted integer => it"""
    inner = operation.operand().defining_op
    is_whole = inner is not None and inner.name in ("arith.sitofp", "arith.uitofp")
    return operation.operand() if is_whole else None


def drop_same_type(operation: Operation, builder: Builder) -> Value | None:
    """a cast to the same type => its operand"""
    return operation.operand() if operation.operand().type is operation.result.type else None


def test_of_boolean(operation: Operation, builder: Builder) -> Value | None:
    """cmpi ne (extui of i1) 0 => the i1"""
    inner = operation.operand().defining_op
    if inner is None or inner.name not in ("arith.extui", "arith.extsi") or not _is_boolean(inner):
        return None
    if CMPI[plain(operation.attributes["predicate"])] != "ne" or splat_constant(operation.operand(1)) != 0:
        return None
    return inner.operand()


def _is_boolean(cast: Operation) -> bool:
    element: ScalarType = element_of(cast.operand().type)
    return element.name == "i1"


BY_OPERATION = {
    "arith.extf": (drop_same_type, merge_widenings),
    "arith.extsi": (drop_same_type, merge_widenings),
    "arith.extui": (drop_same_type, merge_widenings),
    "arith.truncf": (drop_same_type, narrow_of_wide),
    "arith.trunci": (drop_same_type, narrow_of_wide),
    "arith.sitofp": (float_of_wide_integer,),
    "arith.uitofp": (float_of_wide_integer,),
    "arith.fptosi": (integer_of_float_of_integer,),
    "arith.bitcast": (drop_same_type,),
    "arith.cmpi": (test_of_boolean,),
    **dict.fromkeys(sorted(INTEGRAL), (round_of_integer,)),
}
"""The rules of each operation, tried in order."""
