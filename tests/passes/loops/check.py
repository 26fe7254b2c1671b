"""Holds a kernel against its meaning: the linalg level and loops, both interpreted, and machine code."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from lamina.codegen.llvm.build import build
from lamina.ir.arrays import dtype_of, round_array
from lamina.ir.attributes import STORAGE, bf16_to_f32, plain, round_to_bf16
from lamina.ir.core import Operation
from lamina.ir.interpret import interpret
from lamina.ir.machine import VECTOR_BITS, Target
from lamina.ir.passes import Context
from lamina.ir.text import parse_module, print_module
from lamina.ir.types import FunctionType, TensorType, bf16, i1, row_major_strides
from lamina.ir.verify import verify
from lamina.passes.loops.expand_math import expand
from lamina.passes.loops.to_linalg import to_linalg
from lamina.pipeline import LOWER, lower_kernel
from lamina.runtime.devices.cpu.library import Library

Array = Any
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "bf16": 3e-2, "f16": 4e-3}
FILLER = 77


def target_of(isa: str, cores: int = 2) -> Target:
    """A machine on which kernels count as large: enough for two threads, and for stores past the caches."""
    return Target(
        name="test", isa=isa, vector_bits=VECTOR_BITS[isa], features=(), cores=cores, l1_bytes=1 << 15,
        l2_bytes=16, l3_bytes=1 << 23, copy_bandwidth=1e10, cache_bandwidth=1e11, peak_flops=1e11,
        launch_seconds=1e-12,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its arguments in memory and the results that its tensor-level meaning gives."""

    function: Operation
    types: tuple[TensorType, ...]
    strides: list[Sequence[int]]
    inputs: list[Array]
    expected: list[Array]

    def memory(self) -> list[Array]:
        """Fresh flat buffers: the inputs, then outputs full of `FILLER`."""
        found = [_store(x, t, s) for x, t, s in zip(self.inputs, self.types, self.strides, strict=False)]
        for type_, strides in zip(self.types[len(found) :], self.strides[len(found) :], strict=True):
            buffer = _buffer(type_, strides)
            buffer.fill(FILLER)
            found.append(buffer)
        return found

    def compare(self, buffers: Sequence[Array], what: str, tolerance: float | None = None) -> None:
        """Hold what lies in the output buffers against what is expected; nothing else may be written."""
        first = len(self.inputs)
        outputs = zip(buffers[first:], self.types[first:], self.strides[first:], self.expected, strict=True)
        for buffer, type_, strides, expected in outputs:
            outside = np.ones(buffer.shape, bool)
            _view(outside, type_, strides)[...] = False
            assert (buffer[outside] == FILLER).all(), f"{what} writes outside of its output"
            got = _view(buffer, type_, strides)
            assert_close(_numbers(got, type_), expected, type_, what, tolerance)


def assert_close(
    got: Array, expected: Array, type_: TensorType, what: str, tolerance: float | None = None
) -> None:
    if not type_.element.is_float:
        np.testing.assert_array_equal(got, expected, what)
        return
    bound = tolerance or TOLERANCE[type_.element.name]
    np.testing.assert_allclose(np.float64(got), np.float64(expected), bound, bound, err_msg=what)


def make_case(function: Operation, seed: int = 0, values: Mapping[int, Array] | None = None) -> Case:
    """Random arguments but for those in `values`."""
    type_ = plain(function.attributes["function_type"])
    assert isinstance(type_, FunctionType)
    rng = np.random.default_rng(seed)
    strides = _strides(function, "lamina.arg_strides", type_.inputs)
    inputs = []
    for position, tensor in enumerate(type_.inputs):
        assert isinstance(tensor, TensorType)
        given = (values or {}).get(position)
        array = round_array(given if given is not None else _random(rng, tensor), tensor.element)
        # Elements may share memory: take what is there in the end.
        stored = _view(_store(array, tensor, strides[position]), tensor, strides[position])
        inputs.append(_numbers(stored, tensor))
    expected = list(interpret(function, inputs))
    types = (*type_.inputs, *type_.results)
    strides += _strides(function, "lamina.result_strides", type_.results)
    return Case(function, types, strides, inputs, expected)  # type: ignore[arg-type]


def loops_of(function: Operation, target: Target) -> Operation:
    """The vectorised loops of a kernel, before mathematics is expanded."""
    return lower_kernel(function, Context(target=target), passes=LOWER[:3])


def check_levels(case: Case, isa: str, tolerance: float | None = None) -> None:
    """Interpret the linalg level and the loops; both verify, and their text parses back."""
    for name, level, lowered in (
        ("to_linalg", "linalg", to_linalg(case.function)),
        ("vectorize", "loops", loops_of(case.function, target_of(isa))),
    ):
        verify(lowered, level)
        text = print_module(lowered)
        assert print_module(parse_module(text).body.first or lowered) == text
        buffers = case.memory()
        arrays = [
            _numbers(_view(buffer, type_, strides), type_, is_memory=True)
            for buffer, type_, strides in zip(buffers, case.types, case.strides, strict=True)
        ]
        interpret(lowered, arrays)
        for array, type_, expected in zip(
            arrays[len(case.inputs) :], case.types[len(case.inputs) :], case.expected, strict=True
        ):
            got = array.astype(bool) if type_.element is i1 else array
            assert_close(got, expected, type_, f"{name} for {isa}", tolerance)


def check_native(case: Case, isa: str, tolerance: float | None = None, threads: int = 2) -> None:
    """Compile and run."""
    lowered = loops_of(case.function, target_of(isa))
    expand(lowered, isa)
    built = build([lowered], isa)
    library = Library(built.object_code, built.symbols)
    buffers = case.memory()
    table = (ctypes.c_void_p * len(buffers))(*(buffer.ctypes.data for buffer in buffers))
    library.function(built.symbols[0])(ctypes.addressof(table), threads)
    case.compare(buffers, f"machine code for {isa}", tolerance)


@cache
def native_isas() -> tuple[str, ...]:
    """The instruction sets that this machine runs."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    found = [
        isa for isa, flag in (("avx512", "avx512f"), ("avx2", "avx2"), ("neon", "neon")) if features.get(flag)
    ]
    return (*found, "scalar")


def _random(rng: np.random.Generator, type_: TensorType) -> Array:
    if type_.element is i1:
        return rng.integers(0, 2, type_.shape).astype(bool)
    if type_.element.is_float:
        return rng.standard_normal(type_.shape)
    return rng.integers(-20, 20, type_.shape)


def _strides(function: Operation, name: str, types: Sequence[Any]) -> list[Sequence[int]]:
    given = function.attributes.get(name)
    if given is not None:
        return list(plain(given))
    return [row_major_strides(type_.shape) or () for type_ in types]


def _buffer(type_: TensorType, strides: Sequence[int]) -> Array:
    """A flat buffer with some room behind it that nobody may touch."""
    reach = 1 + sum((int(size) - 1) * step for size, step in zip(type_.shape, strides, strict=True) if size)  # type: ignore[arg-type]
    return np.zeros(reach + 70, "u1" if type_.element is i1 else STORAGE[type_.element.name])


def _view(buffer: Array, type_: TensorType, strides: Sequence[int]) -> Array:
    if 0 in type_.shape:
        return buffer[:0].reshape(type_.shape)
    return np.lib.stride_tricks.as_strided(buffer, type_.shape, [step * buffer.itemsize for step in strides])


def _store(array: Array, type_: TensorType, strides: Sequence[int]) -> Array:
    buffer = _buffer(type_, strides)
    bits = round_to_bf16(array).reshape(array.shape) if type_.element is bf16 else array
    _view(buffer, type_, strides)[...] = bits
    return buffer


def _numbers(stored: Array, type_: TensorType, *, is_memory: bool = False) -> Array:
    """What lies in memory as the interpreter's numbers; a bool stays a byte where it is one in memory."""
    if type_.element is bf16:
        return bf16_to_f32(np.ascontiguousarray(stored)).reshape(type_.shape)
    if type_.element is i1:
        return stored.astype(np.int8 if is_memory else bool)
    return stored.astype(dtype_of(type_.element))
