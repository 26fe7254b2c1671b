"""Reduction kinds: the value each starts from, how two partial results combine, how lanes end up in one.

Partial results may be combined in any order and grouping; `argmax` and `argmin` carry two values, the best
element and its i32 position, and keep the first of equal ones. nan wins in max, min, argmax and argmin.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.errors import Unsupported
from lamina.ir.attributes import Attribute, BoolAttr, FloatAttr, IntegerAttr
from lamina.ir.core import Builder, Value
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.ops.vector import combining_kind
from lamina.ir.types import ScalarType, VectorType, element_of, i1, i32, i64, with_element

FLOAT_OPS = {"add": "addf", "mul": "mulf", "max": "maximumf", "min": "minimumf"}
INTEGER_OPS = {
    "add": "addi", "mul": "muli", "max": "maxsi", "min": "minsi", "and": "andi", "or": "ori", "xor": "xori",
}  # fmt: skip
BOOL_OPS = {
    "add": "xori",
    "mul": "andi",
    "max": "ori",
    "min": "andi",
    "and": "andi",
    "or": "ori",
    "xor": "xori",
}
POSITION = i32


def is_position(kind: str) -> bool:
    return kind in ("argmax", "argmin")


def result_types(kind: str, element: ScalarType) -> tuple[ScalarType, ...]:
    """What a partial result of this kind consists of."""
    return (element, POSITION) if is_position(kind) else (element,)


def initial_values(kind: str, element: ScalarType) -> tuple[Attribute, ...]:
    """The partial result of no elements."""
    first = _number(_initial(kind, element), element)
    return (first, IntegerAttr(0, POSITION)) if is_position(kind) else (first,)


def _initial(kind: str, element: ScalarType) -> float | int:
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "mul":
        return 1
    if kind == "and":
        return -1
    lowest = kind in ("max", "argmax")
    if element.is_float:
        return float("-inf") if lowest else float("inf")
    if element is i1:
        return 0 if lowest else 1
    return -(1 << (element.bits - 1)) if lowest else (1 << (element.bits - 1)) - 1


def _number(value: float | int, element: ScalarType) -> Attribute:
    if element is i1:
        return BoolAttr(bool(value))
    if element.is_float:
        return FloatAttr(float(value), element)
    return IntegerAttr(int(value), element)


def operation_name(kind: str, element: ScalarType) -> str:
    """The `arith` operation that combines two values of a reduction that carries one."""
    table = BOOL_OPS if element is i1 else FLOAT_OPS if element.is_float else INTEGER_OPS
    if kind not in table:
        raise Unsupported("kernel-form", f"a reduction of kind {kind} over {element}")
    return f"arith.{table[kind]}"


def accumulate(
    builder: Builder, kind: str, old: Sequence[Value], value: Value, position: Value | None
) -> list[Value]:
    """The partial result after one more element, at a position after all before it."""
    if not is_position(kind):
        return [builder.value(operation_name(kind, element_of(value.type)), (old[0], value), value.type)]
    if position is None:
        raise ValueError("argmax needs the position of the element")
    better = _is_better(builder, kind, value, old[0])
    return _choose(builder, better, (value, position), old)


def combine(builder: Builder, kind: str, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """Two partial results as one, whatever the positions they come from."""
    if not is_position(kind):
        return accumulate(builder, kind, first, second[0], None)
    better = _is_better(builder, kind, second[0], first[0])
    worse = _is_better(builder, kind, first[0], second[0])
    earlier = compare(builder, "slt", second[1], first[1])
    none = builder.value("arith.ori", (better, worse), better.type)
    tie_break = builder.value("arith.select", (none, better, earlier), better.type)
    return _choose(builder, tie_break, second, first)


def _choose(builder: Builder, condition: Value, yes: Sequence[Value], no: Sequence[Value]) -> list[Value]:
    return [builder.value("arith.select", (condition, a, b), a.type) for a, b in zip(yes, no, strict=True)]


def compare(builder: Builder, predicate: str, a: Value, b: Value) -> Value:
    """`arith.cmpf` or `arith.cmpi` by a predicate's name."""
    is_float = element_of(a.type).is_float
    number = (CMPF if is_float else CMPI).index(predicate)
    name = "arith.cmpf" if is_float else "arith.cmpi"
    return builder.value(name, (a, b), with_element(a.type, i1), {"predicate": IntegerAttr(number, i64)})


def _is_better(builder: Builder, kind: str, new: Value, old: Value) -> Value:
    """Whether `new` comes strictly before `old` in the order of argmax or argmin."""
    letter = "gt" if kind == "argmax" else "lt"
    element = element_of(new.type)
    if element is i1:
        return compare(builder, f"u{letter}", new, old)
    if not element.is_float:
        return compare(builder, f"s{letter}", new, old)
    # `u` is true when either is nan; a nan in `old` is never beaten.
    wins = compare(builder, f"u{letter}", new, old)
    is_number = compare(builder, "ord", old, old)
    return builder.value("arith.andi", (wins, is_number), wins.type)


def across_lanes(builder: Builder, kind: str, partial: Sequence[Value]) -> list[Value]:
    """The partial results in the lanes of vectors as one scalar result."""
    best = _reduce_lanes(builder, kind.removeprefix("arg"), partial[0])
    if not is_position(kind):
        return [best]
    type_ = partial[0].type
    equal = compare(
        builder, "oeq" if element_of(type_).is_float else "eq", partial[0], splat(builder, best, type_)
    )
    if element_of(type_).is_float:
        # When the best is nan it equals nothing: then the lanes that are nan have it.
        is_nan = compare(builder, "uno", partial[0], partial[0])
        equal = builder.value("arith.ori", (equal, is_nan), equal.type)
    last = builder.value("arith.constant", (), POSITION, {"value": IntegerAttr(2**31 - 1, POSITION)})
    positions = (partial[1], splat(builder, last, partial[1].type))
    chosen = builder.value("arith.select", (equal, *positions), partial[1].type)
    return [best, _reduce_lanes(builder, "min", chosen)]


def splat(builder: Builder, value: Value, type_: object) -> Value:
    if not isinstance(type_, VectorType):
        raise ValueError(f"{type_} has no lanes")
    return builder.value("vector.broadcast", (value,), VectorType.get(type_.shape, element_of(value.type)))


def _reduce_lanes(builder: Builder, kind: str, vector: Value) -> Value:
    element = element_of(vector.type)
    name = operation_name(kind, element).removeprefix("arith.")
    word = {
        "addf": "add",
        "addi": "add",
        "mulf": "mul",
        "muli": "mul",
        "andi": "and",
        "ori": "or",
        "xori": "xor",
    }
    attributes = {"kind": combining_kind(word.get(name, name))}
    return builder.value("vector.reduction", (vector,), element, attributes)
