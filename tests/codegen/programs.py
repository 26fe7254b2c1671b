"""Small loop-level functions by hand, and running them on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lamina.codegen.llvm.build import Built, build
from lamina.codegen.llvm.compile import features
from lamina.ir.attributes import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    bf16_to_f32,
    round_to_bf16,
)
from lamina.ir.core import Block, Builder, Operation, Region, Value
from lamina.ir.types import (
    FunctionType,
    MemRefType,
    ScalarType,
    Type,
    VectorType,
    bf16,
    element_of,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    index,
    with_element,
)
from lamina.passes.loops.expand_math import expand
from lamina.runtime.devices.cpu.library import Library

DTYPES: dict[ScalarType, Any] = {
    f64: np.float64, f32: np.float32, f16: np.float16, bf16: np.uint16, i1: np.bool_, i8: np.int8, i16: np.int16,
    i32: np.int32, i64: np.int64,
}  # fmt: skip
"""How arrays hold each element type (bf16 as its bits)."""


class Body(Builder):
    """A builder with words for what loop-level tests need."""

    def number(self, value: float | int | bool, type_: Type) -> Value:
        attribute: Attribute
        if isinstance(type_, VectorType):
            attribute = DenseElementsAttr.splat(value, type_)
        elif type_ is i1:
            attribute = BoolAttr(bool(value))
        elif element_of(type_).is_float:
            attribute = FloatAttr(float(value), element_of(type_))
        else:
            attribute = IntegerAttr(int(value), element_of(type_))
        return self.value("arith.constant", (), type_, {"value": attribute})

    def at(self, position: int) -> Value:
        return self.number(position, index)

    def binary(self, name: str, a: Value, b: Value) -> Value:
        return self.value(name, (a, b), a.type)

    def load(self, memref: Value, *position: Value, type_: Type | None = None) -> Value:
        if type_ is None:
            return self.value("memref.load", (memref, *position), element_of(memref.type))
        return self.value("vector.load", (memref, *position), type_)

    def store(self, value: Value, memref: Value, *position: Value) -> None:
        name = "vector.store" if isinstance(value.type, VectorType) else "memref.store"
        self.op(name, (value, memref, *position))

    def loop(
        self,
        first: int | Value,
        last: int | Value,
        step: int,
        body: Callable[..., Sequence[Value]],
        carried: Sequence[Value] = (),
    ) -> list[Value]:
        """`scf.for`; the body takes (builder, counter, *carried) and gives the next carried values."""
        bounds = [value if isinstance(value, Value) else self.at(value) for value in (first, last, step)]
        block = Block([index, *(value.type for value in carried)])
        inner = Body(block)
        inner.op("scf.yield", body(inner, *block.arguments))
        types = [value.type for value in carried]
        return list(self.op("scf.for", (*bounds, *carried), types, None, [Region([block])]).results)

    def parallel(self, first: int, last: int, step: int, body: Callable[[Body, Value], None]) -> None:
        block = Block([index])
        inner = Body(block)
        body(inner, block.arguments[0])
        inner.op("scf.reduce")
        bounds = [self.at(value) for value in (first, last, step)]
        sizes = {"operandSegmentSizes": DenseArrayAttr((1, 1, 1, 0), i32)}
        self.op("scf.parallel", bounds, (), sizes, [Region([block])])

    def when(
        self,
        condition: Value,
        then: Callable[[Body], Sequence[Value]],
        otherwise: Callable[[Body], Sequence[Value]] | None,
        types: Sequence[Type] = (),
    ) -> list[Value]:
        regions = []
        for branch in (then, otherwise):
            if branch is None:
                continue
            inner = Body(Block())
            inner.op("scf.yield", branch(inner))
            regions.append(Region([inner.block]))
        return list(self.op("scf.if", (condition,), types, None, regions).results)

    def reduce(self, kind: str, vector: Value, *start: Value) -> Value:
        attributes = {"kind": OpaqueAttr(f"#vector.kind<{kind}>")}
        return self.value("vector.reduction", (vector, *start), element_of(vector.type), attributes)


def function(types: Sequence[MemRefType], body: Callable[..., None], name: str = "kernel") -> Operation:
    """A `func.func` whose body is written by `body(builder, *arguments)`."""
    block = Block(types)
    builder = Body(block)
    body(builder, *block.arguments)
    builder.op("func.return")
    attributes = {"sym_name": name, "function_type": FunctionType.get(tuple(types), ())}
    return Operation("func.func", (), (), attributes, [Region([block])])


def memref(shape: Sequence[int], element: ScalarType, strides: Sequence[int] | None = None) -> MemRefType:
    return MemRefType.get(tuple(shape), element, None if strides is None else tuple(strides))


def vector(lanes: int, element: ScalarType) -> VectorType:
    return VectorType.get((lanes,), element)


@cache
def instruction_sets() -> tuple[str, ...]:
    """Those that this processor can run."""
    has = set(features("avx512").split(",")) if _is_x86() else set()
    sets = ["scalar"]
    if "+avx2" in has and "+fma" in has:
        sets.append("avx2")
    if "+avx512f" in has and "+avx512bw" in has:
        sets.append("avx512")
    return (*sets, *(() if _is_x86() else ("neon",)))


def _is_x86() -> bool:
    import platform

    return platform.machine() in ("x86_64", "AMD64")


def widest() -> str:
    return instruction_sets()[-1]


def run(built: Built | Operation, *arrays: np.ndarray[Any, Any], isa: str = "", threads: int = 1) -> None:
    """Run a function's only kernel on arrays, in place."""
    if isinstance(built, Operation):
        built = build([built], isa or widest())
    library = Library(built.object_code, built.symbols)
    table = (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
    library.function(built.symbols[0])(ctypes.addressof(table), threads)


def elementwise(
    name: str,
    types: Sequence[ScalarType],
    result: ScalarType,
    count: int,
    lanes: int,
    attributes: dict[str, Any] | None = None,
) -> Operation:
    """`result[i] = name(operands[i]...)`, vector by vector, or one by one when `lanes` is 0."""

    def body(builder: Body, *arguments: Value) -> None:
        def step(inner: Body, position: Value) -> Sequence[Value]:
            shape = [vector(lanes, type_) if lanes else None for type_ in types]
            values = [
                inner.load(argument, position, type_=form)
                for argument, form in zip(arguments[:-1], shape, strict=True)
            ]
            type_ = with_element(values[0].type, result)
            inner.store(inner.value(name, values, type_, attributes), arguments[-1], position)
            return ()

        builder.loop(0, count, lanes or 1, step)

    return function([memref([count], type_) for type_ in (*types, result)], body)


@cache
def _math_kernel(name: str, element: ScalarType, operands: int, count: int, isa: str, expanded: bool) -> Any:
    bits = {"avx512": 512, "avx2": 256, "neon": 128, "scalar": 0}[isa]
    made = elementwise(name, [element] * operands, element, count, bits // max(element.bits, 32))
    if expanded:
        expand(made, isa)
    built = build([made], isa)
    return Library(built.object_code, built.symbols), built


def run_math(
    name: str, isa: str, *arrays: np.ndarray[Any, Any], element: ScalarType = f32, expanded: bool = True
) -> Any:
    """A `math` operation on arrays of one length, a multiple of 16."""
    library, _ = _math_kernel(name, element, len(arrays), len(arrays[0]), isa, expanded)
    result = np.empty_like(arrays[0])
    pointers = [array.ctypes.data for array in (*arrays, result)]
    table = (ctypes.c_void_p * len(pointers))(*pointers)
    library.function("kernel")(ctypes.addressof(table), 1)
    return result


def to_floats(array: np.ndarray[Any, Any], element: ScalarType) -> Any:
    """An array's numbers, bf16 bits as f32."""
    return bf16_to_f32(array) if element is bf16 else array


def from_floats(array: np.ndarray[Any, Any], element: ScalarType) -> Any:
    return round_to_bf16(array.astype(np.float32)) if element is bf16 else array.astype(DTYPES[element])
