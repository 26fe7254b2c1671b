"""Builds tensor-level IR: casts with eager's rounding, broadcasts, reshapes, slices, reductions.

Every method takes and gives tensor values. What is already as asked is returned
unchanged, so callers need not test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lamina.autograd.lower.dtypes import HALVES, compute_type, element, round_number, shape_of
from lamina.autograd.lower.numbers import OpenNumber
from lamina.ir import types
from lamina.ir.attributes import UNIT, DenseElementsAttr, IntegerAttr, integers
from lamina.ir.core import Builder, Value
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.sizes import SymbolicSize, UndecidedSize, is_known_equal
from lamina.ir.types import ScalarType, TensorType


@dataclass(slots=True)
class Call:
    """One ATen call to lower: its arguments by schema name, tensors as values; its results' types.

    shape and element are those of the first result.
    """

    name: str
    arguments: dict[str, Any]
    results: tuple[TensorType, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.results[0].shape  # type: ignore[return-value]

    @property
    def element(self) -> ScalarType:
        return self.results[0].element

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The argument, or `default` where the op has none of that name."""
        return self.arguments.get(name, default)


class Emitter:
    """A builder that knows tensors."""

    __slots__ = ("builder",)

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    # elementwise

    def op(self, name: str, *operands: Value) -> Value:
        """An elementwise op whose result has its operands' type."""
        return self.builder.value(name, operands, operands[0].type)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """`arith.cmpf` or `arith.cmpi`, by the operands' type; bools compare as unsigned."""
        shape, scalar = shape_of(a), element(a)
        if scalar.is_float:
            name, number = "arith.cmpf", CMPF.index(predicate)
        else:
            sign = "u" if scalar is types.i1 else "s"
            plain = {"oeq": "eq", "une": "ne"}.get(predicate) or sign + predicate[1:]
            name, number = "arith.cmpi", CMPI.index(plain)
        result = TensorType.get(shape, types.i1)
        return self.builder.value(name, (a, b), result, {"predicate": IntegerAttr(number)})

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """a where condition, else b; all of one shape."""
        return self.builder.value("arith.select", (condition, a, b), a.type)

    def constant(self, number: Any, shape: Sequence[int], scalar: ScalarType) -> Value:
        """A tensor of `number` everywhere; a size or number known at run time is one, too.

        Raises UndecidedSize for integers of such a number: eager refuses some.
        """
        if isinstance(number, OpenNumber):
            if not scalar.is_float:
                raise UndecidedSize(f"a number that varies is needed in {scalar}")
            return self.broadcast(self.cast(number.value, scalar), shape)
        if isinstance(number, SymbolicSize):
            size = self.builder.value("lamina.size", (), TensorType.get((), types.i64), {"value": number})
            return self.broadcast(self.cast(size, scalar), shape)
        type_ = TensorType.get(tuple(shape), scalar)
        return self.builder.value(
            "arith.constant", (), type_, {"value": DenseElementsAttr.splat(number, type_)}
        )

    def like(self, value: Value, number: Any) -> Value:
        """A constant of value's type."""
        return self.constant(number, shape_of(value), element(value))

    def add(self, a: Value, b: Value) -> Value:
        return self.op("arith.addf" if element(a).is_float else "arith.addi", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.op("arith.subf" if element(a).is_float else "arith.subi", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.op("arith.mulf" if element(a).is_float else "arith.muli", a, b)

    def div(self, a: Value, b: Value) -> Value:
        return self.op("arith.divf", a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger one; nan wins."""
        return self.op(_extreme("max", element(a)), a, b)

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller one; nan wins."""
        return self.op(_extreme("min", element(a)), a, b)

    def at_least(self, value: Value, low: Value) -> Value:
        """The larger one, where `low` is no nan: nan and zeros of the value stay as they are."""
        if not element(value).is_float:
            return self.maximum(value, low)
        return self.select(self.compare("ogt", low, value), low, value)

    def at_most(self, value: Value, high: Value) -> Value:
        """The smaller one, where `high` is no nan: nan and zeros of the value stay as they are."""
        if not element(value).is_float:
            return self.minimum(value, high)
        return self.select(self.compare("olt", high, value), high, value)

    def logical_not(self, value: Value) -> Value:
        """Of an i1 tensor."""
        return self.op("arith.xori", value, self.like(value, True))

    # element types

    def cast(self, value: Value, target: ScalarType) -> Value:
        """The value in another element type, rounded as eager's conversion does."""
        source = element(value)
        if source is target:
            return value
        if target is types.i1:
            return self.compare("une", value, self.like(value, 0))
        if source.is_float and target.is_float:
            return self._cast_float(value, source, target)
        if target.is_float:
            name = "arith.uitofp" if source is types.i1 else "arith.sitofp"
            wide = compute_type(target)
            return self.cast(self._convert(name, value, wide), target)
        if source.is_float:
            return self._convert("arith.fptosi", self.cast(value, compute_type(source)), target)
        if source is types.i1:
            return self._convert("arith.extui", value, target)
        return self._convert("arith.extsi" if source.bits < target.bits else "arith.trunci", value, target)

    def _cast_float(self, value: Value, source: ScalarType, target: ScalarType) -> Value:
        # Eager goes between f64 and the half types, and from one half type to the other, through f32.
        is_through_f32 = (source in HALVES or target in HALVES) and types.f32 not in (source, target)
        if is_through_f32:
            return self.cast(self.cast(value, types.f32), target)
        return self._convert("arith.extf" if source.bits < target.bits else "arith.truncf", value, target)

    def _convert(self, name: str, value: Value, target: ScalarType) -> Value:
        return self.builder.value(name, (value,), TensorType.get(shape_of(value), target))

    def widen(self, value: Value) -> Value:
        """In the type eager computes in."""
        return self.cast(value, compute_type(element(value)))

    def operand(self, value: Any, common: ScalarType, shape: Sequence[int]) -> Value:
        """An operand (tensor or number) of an op over `common`, in its compute type and the op's shape."""
        wide = compute_type(common)
        if isinstance(value, Value):
            return self.broadcast(self.cast(self.cast(value, common), wide), shape)
        if isinstance(value, SymbolicSize | OpenNumber):
            return self.cast(self.constant(value, shape, common), wide)
        return self.constant(round_number(value, common), shape, wide)

    # shapes

    def broadcast(self, value: Value, shape: Sequence[int], dims: Sequence[int] | None = None) -> Value:
        """Broadcast to `shape`; dims[i] is the result dim of operand dim i (by default the last ones)."""
        source = shape_of(value)
        if len(source) == len(shape) and source == tuple(shape):
            return value
        if dims is None:
            dims = range(len(shape) - len(source), len(shape))
        type_ = TensorType.get(tuple(shape), element(value))
        return self.builder.value("lamina.broadcast", (value,), type_, {"dims": integers(*dims)})

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in row-major order in another shape."""
        source, target = shape_of(value), tuple(shape)
        if len(source) == len(target) and source == target:
            return value
        if 0 in source:
            return self.constant(0, target, element(value))
        groups = reassociate(source, target)
        middle = tuple(_product(source[k] for k in left) for left, _ in groups)
        value = self._regroup("tensor.collapse_shape", value, middle, [left for left, _ in groups])
        return self._regroup("tensor.expand_shape", value, target, [right for _, right in groups])

    def _regroup(self, name: str, value: Value, shape: tuple[int, ...], groups: list[list[int]]) -> Value:
        if len(shape_of(value)) == len(shape):
            return value
        attributes: dict[str, Any] = {"reassociation": groups}
        if name == "tensor.expand_shape":
            attributes["static_output_shape"] = integers(*shape)
        return self.builder.value(name, (value,), TensorType.get(shape, element(value)), attributes)

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """Dim k of the result is dim order[k] of the operand."""
        if list(order) == list(range(len(order))):
            return value
        shape = tuple(shape_of(value)[dim] for dim in order)
        type_ = TensorType.get(shape, element(value))
        return self.builder.value("lamina.permute", (value,), type_, {"perm": integers(*order)})

    def slice(self, value: Value, dim: int, start: int, size: int, step: int = 1) -> Value:
        """`size` elements of `dim` from `start`."""
        source = shape_of(value)
        if start == 0 and is_known_equal(size, source[dim]) and step == 1:
            return value
        shape = tuple(size if k == dim else n for k, n in enumerate(source))
        attributes = {
            "static_offsets": integers(*(start if k == dim else 0 for k in range(len(source)))),
            "static_sizes": integers(*shape),
            "static_strides": integers(*(step if k == dim else 1 for k in range(len(source)))),
        }
        type_ = TensorType.get(shape, element(value))
        return self.builder.value("tensor.extract_slice", (value,), type_, attributes)

    def concat(self, values: Sequence[Value], dim: int) -> Value:
        """The values behind one another along `dim`; empty ones are left out."""
        parts = [value for value in values if shape_of(value)[dim]] or [values[0]]
        if len(parts) == 1:
            return parts[0]
        length = sum(shape_of(value)[dim] for value in parts)
        shape = tuple(length if k == dim else n for k, n in enumerate(shape_of(parts[0])))
        type_ = TensorType.get(shape, element(parts[0]))
        return self.builder.value("tensor.concat", parts, type_, {"dim": IntegerAttr(dim)})

    def reverse(self, value: Value, dims: Sequence[int]) -> Value:
        """Flipped along `dims`."""
        return self.builder.value("lamina.reverse", (value,), value.type, {"dims": integers(*dims)})

    def pad(self, value: Value, low: Sequence[int], high: Sequence[int], filler: Value) -> Value:
        """Surrounded by the rank-0 tensor `filler`; sizes are not negative."""
        shape = tuple(n + a + b for n, a, b in zip(shape_of(value), low, high, strict=True))
        if shape == shape_of(value):
            return value
        type_ = TensorType.get(shape, element(value))
        attributes = {"low": integers(*low), "high": integers(*high)}
        return self.builder.value("lamina.pad", (value, filler), type_, attributes)

    def iota(self, dim: int, shape: Sequence[int], scalar: ScalarType = types.i64) -> Value:
        """0, 1, 2, ... along `dim`."""
        type_ = TensorType.get(tuple(shape), scalar)
        return self.builder.value("lamina.iota", (), type_, {"dim": IntegerAttr(dim)})

    def reduce(self, kind: str, value: Value, dims: Sequence[int]) -> Value:
        """Reduce over `dims`, which are dropped. A sum starts at 0.0: that of -0.0 alone is 0.0."""
        dims = sorted(dims)
        if not dims and not kind.startswith("arg"):
            is_signed = kind == "add" and element(value).is_float
            return self.add(value, self.like(value, 0.0)) if is_signed else value
        shape = tuple(n for k, n in enumerate(shape_of(value)) if k not in dims)
        scalar = types.i64 if kind.startswith("arg") else element(value)
        type_ = TensorType.get(shape, scalar)
        return self.builder.value("lamina.reduce", (value,), type_, {"kind": kind, "dims": integers(*dims)})

    def index(self, value: Value, indices: Sequence[Value], dim: int) -> Value:
        """Gather: dims from `dim` on are replaced by the shape of `indices` (i64, in bounds, one shape)."""
        source = shape_of(value)
        shape = (*source[:dim], *shape_of(indices[0]), *source[dim + len(indices) :])
        dims = integers(*range(dim, dim + len(indices)))
        type_ = TensorType.get(shape, element(value))
        return self.builder.value("lamina.index", (value, *indices), type_, {"dims": dims})

    def require(self, condition: Value, message: str) -> None:
        """Assert that an i1 tensor is true everywhere, when the program runs."""
        holds = self.reduce("and", condition, range(len(shape_of(condition))))
        attributes = {"args": [UNIT, message], "result_strides": [], "effects": "host"}
        self.builder.op("aten._assert_async.msg", (holds,), (), attributes)

    def reduce_kept(self, kind: str, value: Value, dims: Sequence[int]) -> Value:
        """Reduce over `dims` and spread the result over the operand's shape again."""
        kept = [k for k in range(len(shape_of(value))) if k not in dims]
        return self.broadcast(self.reduce(kind, value, dims), shape_of(value), kept)


def _extreme(word: str, scalar: ScalarType) -> str:
    if scalar.is_float:
        return f"arith.{word}imumf"
    return f"arith.{word}{'ui' if scalar is types.i1 else 'si'}"


def _product(sizes: Any) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def reassociate(source: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Split two shapes with equally many elements (not 0) into the finest groups of equal products.

    Sizes of 1 join a neighbouring group; an empty side stands for rank 0.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        left, right = [i], [j]
        a, b = source[i], target[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a *= source[i]
                left.append(i)
                i += 1
            else:
                b *= target[j]
                right.append(j)
                j += 1
        groups.append((left, right))
    # What is left over on one side are ones.
    rest = (list(range(i, len(source))), list(range(j, len(target))))
    if groups:
        groups[-1][0].extend(rest[0])
        groups[-1][1].extend(rest[1])
        return groups
    return []
