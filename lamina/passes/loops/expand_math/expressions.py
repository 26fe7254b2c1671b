"""What the expansions are written with: arithmetic on values of one float type, as arith operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lamina.ir.attributes import (
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    decode_scalar,
    encode_scalar,
)
from lamina.ir.core import Builder, Value
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.types import ScalarType, Type, VectorType, element_of, f32, f64, i1, i32, i64, with_element

NOT_FUSED = OpaqueAttr("#arith.fastmath<none>")
Number: TypeAlias = Value | float
Integer: TypeAlias = Value | int


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format: its type, the integer of the same width, bits of the fraction, exponent bias."""

    type: ScalarType
    bits: ScalarType
    fraction: int
    bias: int


FORMATS = {f32: Format(f32, i32, 23, 127), f64: Format(f64, i64, 52, 1023)}


class Math:
    """Builds expressions on scalars or vectors of f32 or f64; plain numbers become constants.

    has_ldexp: whether the processor scales by powers of two in one instruction (AVX-512).
    """

    def __init__(self, builder: Builder, type_: Type, *, has_ldexp: bool) -> None:
        self.builder = builder
        self.type = type_
        self.format = FORMATS[element_of(type_)]
        self.bits_type = with_element(type_, self.format.bits)
        self.truth = with_element(type_, i1)
        self.has_ldexp = has_ldexp

    @property
    def is_wide(self) -> bool:
        return self.format.type is f64

    def choose(self, narrow: Sequence[float], wide: Sequence[float]) -> Sequence[float]:
        """Coefficients for f32, or for f64."""
        return wide if self.is_wide else narrow

    # constants

    def constant(self, value: float) -> Value:
        if isinstance(self.type, VectorType):
            return self._constant(DenseElementsAttr.splat(value, self.type), self.type)
        return self._constant(FloatAttr(_rounded(value, self.format.type), self.format.type), self.type)

    def integer(self, value: int) -> Value:
        if isinstance(self.bits_type, VectorType):
            return self._constant(DenseElementsAttr.splat(value, self.bits_type), self.bits_type)
        return self._constant(IntegerAttr(value, self.format.bits), self.bits_type)

    def _constant(self, attribute: DenseElementsAttr | FloatAttr | IntegerAttr, type_: Type) -> Value:
        return self.builder.value("arith.constant", (), type_, {"value": attribute})

    def _number(self, value: Number) -> Value:
        return value if isinstance(value, Value) else self.constant(value)

    def _integer(self, value: Integer) -> Value:
        return value if isinstance(value, Value) else self.integer(value)

    # floats

    def op(self, name: str, *operands: Number) -> Value:
        return self.builder.value(name, [self._number(value) for value in operands], self.type)

    def add(self, a: Number, b: Number) -> Value:
        return self.op("arith.addf", a, b)

    def subtract(self, a: Number, b: Number) -> Value:
        return self.op("arith.subf", a, b)

    def multiply(self, a: Number, b: Number) -> Value:
        return self.op("arith.mulf", a, b)

    def exact(self, name: str, a: Number, b: Number) -> Value:
        """`addf`, `subf` or `mulf` that must be rounded as written, never fused with another operation."""
        operands = (self._number(a), self._number(b))
        return self.builder.value(f"arith.{name}", operands, self.type, {"fastmath": NOT_FUSED})

    def divide(self, a: Number, b: Number) -> Value:
        return self.op("arith.divf", a, b)

    def fma(self, a: Number, b: Number, c: Number) -> Value:
        """a * b + c, rounded once."""
        return self.op("math.fma", a, b, c)

    def negate(self, a: Value) -> Value:
        return self.op("arith.negf", a)

    def absolute(self, a: Value) -> Value:
        return self.op("math.absf", a)

    def copysign(self, size: Number, sign: Number) -> Value:
        return self.op("math.copysign", size, sign)

    def sqrt(self, a: Value) -> Value:
        return self.op("math.sqrt", a)

    def round(self, a: Value) -> Value:
        """To the nearest whole number, ties to even."""
        return self.op("math.roundeven", a)

    def at_most(self, a: Value, limit: float) -> Value:
        """min(a, limit); nan stays nan. One instruction."""
        return self.select(self.compare("olt", limit, a), limit, a)

    def at_least(self, a: Value, limit: float) -> Value:
        """max(a, limit); nan stays nan. One instruction."""
        return self.select(self.compare("ogt", limit, a), limit, a)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c0 + c1 x + c2 x^2 + ... by Horner's rule, one fused operation a coefficient."""
        result = self._number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    # truth

    def compare(self, predicate: str, a: Number, b: Number) -> Value:
        operands = (self._number(a), self._number(b))
        return self.builder.value("arith.cmpf", operands, self.truth, {"predicate": CMPF.index(predicate)})

    def compare_bits(self, predicate: str, a: Integer, b: Integer) -> Value:
        operands = (self._integer(a), self._integer(b))
        return self.builder.value("arith.cmpi", operands, self.truth, {"predicate": CMPI.index(predicate)})

    def select(self, condition: Value, a: Number, b: Number) -> Value:
        return self.builder.value("arith.select", (condition, self._number(a), self._number(b)), self.type)

    def select_bits(self, condition: Value, a: Integer, b: Integer) -> Value:
        operands = (condition, self._integer(a), self._integer(b))
        return self.builder.value("arith.select", operands, self.bits_type)

    def both(self, a: Value, b: Value) -> Value:
        return self.builder.value("arith.andi", (a, b), self.truth)

    # bits

    def bits(self, a: Value) -> Value:
        return self.builder.value("arith.bitcast", (a,), self.bits_type)

    def from_bits(self, a: Value) -> Value:
        return self.builder.value("arith.bitcast", (a,), self.type)

    def on_bits(self, name: str, a: Integer, b: Integer) -> Value:
        """An integer operation: addi, subi, shli, shrsi, andi, xori, ..."""
        return self.builder.value(f"arith.{name}", (self._integer(a), self._integer(b)), self.bits_type)

    def to_float(self, a: Value) -> Value:
        return self.builder.value("arith.sitofp", (a,), self.type)

    def round_to_integer(self, a: Value) -> tuple[Value, Value]:
        """The nearest whole number as an integer and as a float; |a| must fit (2^31, or 2^51 for f64).

        f32: one conversion there and one back. f64: adding 1.5 * 2^52 leaves the number in the low bits,
        which is cheaper than a 64-bit conversion where there is none (AVX2).
        """
        if not self.is_wide:
            whole = self.builder.value("llvm.intr.lrint", (a,), self.bits_type)
            return whole, self.to_float(whole)
        shift = 1.5 * 2.0**52
        shifted = self.exact("addf", a, shift)
        whole = self.on_bits("subi", self.bits(shifted), 0x4338000000000000)
        return whole, self.exact("subf", shifted, shift)

    def power_of_two(self, exponent: Value) -> Value:
        """2^exponent, for exponents of normal numbers."""
        biased = self.on_bits("addi", exponent, self.format.bias)
        return self.from_bits(self.on_bits("shli", biased, self.format.fraction))

    def scale(self, a: Value, exponent: Value) -> Value:
        """a * 2^exponent, rounded once, also where the result overflows or is subnormal.

        Without an instruction for it: two factors, each of half the exponent, so that each is normal.
        """
        if self.has_ldexp:
            return self._ldexp(a, exponent)
        half = self.on_bits("shrsi", exponent, 1)
        rest = self.on_bits("subi", exponent, half)
        first = self.multiply(a, self.power_of_two(half))
        return self.multiply(first, self.power_of_two(rest))

    def _ldexp(self, a: Value, exponent: Value) -> Value:
        """Upstream has no operation for it on vectors, hence the call by name."""
        attributes = {
            "intrin": f"llvm.ldexp.{_suffix(self.type)}.{_suffix(self.bits_type)}",
            "operandSegmentSizes": DenseArrayAttr((2, 0), i32),
            "op_bundle_sizes": DenseArrayAttr((), i32),
        }
        return self.builder.value("llvm.call_intrinsic", (a, exponent), self.type, attributes)


def _suffix(type_: Type) -> str:
    """How intrinsics' names spell a type: `v16f32`."""
    lanes = f"v{type_.shape[0]}" if isinstance(type_, VectorType) else ""
    return f"{lanes}{element_of(type_)}"


def _rounded(value: float, type_: ScalarType) -> float:
    """`value` as the type holds it."""
    return float(decode_scalar(encode_scalar(value, type_), type_))
