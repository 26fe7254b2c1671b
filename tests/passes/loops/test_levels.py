"""linalg and loop level: interpreted, they mean what the tensor level means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lamina.errors import Unsupported
from lamina.ir.core import Operation, Value
from lamina.ir.types import ScalarType, TensorType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from tests.passes.loops.check import check_levels, check_native, make_case, native_isas
from tests.passes.loops.kernels import (
    KernelBuilder,
    RandomKernel,
    kernel,
    layer_norm,
    matrix,
    pointwise,
    reduction,
    softmax,
)

ISAS = ("avx512", "scalar")


def check(
    function: Operation, tolerance: float | None = None, values: dict[int, object] | None = None
) -> None:
    """Interpreted for two instruction sets, run for all that are here."""
    case = make_case(function, values=values)
    for isa in ISAS:
        check_levels(case, isa, tolerance)
    for isa in native_isas():
        check_native(case, isa, tolerance)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (64,), (101,), (3, 7), (0,), (4, 0), (2, 3, 5)])
def test_pointwise(shape: tuple[int, ...]) -> None:
    check(pointwise(shape))


@pytest.mark.parametrize("element", [f64, f16, bf16, i64, i32, i16, i8])
def test_pointwise_element_types(element: ScalarType) -> None:
    check(pointwise((5, 13), element))


def test_layouts() -> None:
    check(pointwise((20, 30), f32, [[1, 20], [30, 1]]))
    check(pointwise((20, 30), f32, [[1, 20], [30, 1]], [[1, 20]]))
    check(pointwise((4, 5, 6), f32, [[0, 1, 5], [6, 0, 24]], [[1, 4, 20]]))
    check(pointwise((7, 40), f32, [[100, 2], [41, 1]], [[3, 21]]))


@pytest.mark.parametrize("element", [f32, f64, f16, bf16, i8])
def test_transposed_reads(element: ScalarType) -> None:
    """Tiles, whole ones and what is left of them in either direction."""
    for rows, columns in ((64, 32), (70, 33), (17, 130)):
        check(pointwise((rows, columns), element, [[1, rows], [columns, 1]]))
    check(pointwise((3, 18, 20), element, [[400, 1, 18], [1, 70, 3]], [[360, 20, 1]]))


def test_transposed_writes() -> None:
    """One value in two layouts, and one that is read and written across."""

    def twice(b: KernelBuilder, x: Value) -> list[Value]:
        y = b.apply("arith.negf", x)
        return [y, y]

    for rows, columns in ((64, 32), (70, 33), (17, 130)):
        check(kernel([matrix(rows, columns)], twice, None, [[columns, 1], [1, rows]]))
        strides = [[[columns, 1], [1, rows]], [[1, rows], [columns, 1]]]
        check(
            kernel([matrix(rows, columns)] * 2, lambda b, x, y: [b.apply("arith.addf", x, y)] * 2, *strides)
        )


@pytest.mark.parametrize("rows,columns", [(3, 5), (2, 64), (1, 1), (17, 40), (2, 260)])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(rows: int, columns: int, dim: int) -> None:
    check(softmax(rows, columns, dim))
    check(softmax(rows, columns, dim, [[1, rows]]))


@pytest.mark.parametrize("element", [f32, f64, bf16, f16])
def test_layer_norm(element: ScalarType) -> None:
    check(layer_norm(5, 67, element))


KINDS = [
    (element, kind)
    for element in (f32, f64, i64, i32, i16, i8, i1)
    for kind in ("add", "mul", "max", "min", "and", "or", "xor", "argmax", "argmin")
    if not (element.is_float and kind in ("and", "or", "xor"))
    and not (element is i1 and kind in ("add", "mul", "argmax", "argmin"))
]


@pytest.mark.parametrize("element,kind", KINDS, ids=lambda value: str(value))
def test_reductions(element: ScalarType, kind: str) -> None:
    for dim in (0, 1):
        check(reduction(3, 70, kind, element, dim), 1e-4)


@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin"])
def test_nan_wins(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((6, 70))
    values[1, 33] = values[1, 60] = values[2, 0] = values[3, 69] = np.nan
    values[4] = -np.inf
    values[5] = np.inf
    check(reduction(6, 70, kind, f32, 1), values={0: values})
    check(reduction(70, 6, kind, f32, 0), values={0: values.T})


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_first_of_equals(kind: str) -> None:
    values = np.random.default_rng(0).integers(0, 3, (9, 100))
    check(reduction(9, 100, kind, f32, 1), values={0: values})
    check(reduction(9, 100, kind, i32, 1), values={0: values})


@pytest.mark.parametrize("dim,shape", [(1, (4, 0)), (0, (0, 4))])
def test_empty_reductions(dim: int, shape: tuple[int, int]) -> None:
    check(reduction(*shape, "add", f32, dim))
    check(reduction(*shape, "mul", i32, dim))
    check(reduction(*reversed(shape), "add", f32, dim))


def _pad(b: KernelBuilder, x: Value) -> Value:
    return b.structure("lamina.pad", [x, b.splat(2.5, ())], (9, 12), low=[2, 0], high=[1, 5])


def _concat(b: KernelBuilder, x: Value, y: Value) -> Value:
    joined = b.structure("tensor.concat", [x, y, x], (6, 31), dim=1)
    return b.apply("arith.negf", joined)


def _reshaped(b: KernelBuilder, x: Value) -> Value:
    moved = b.structure("lamina.permute", [x], (5, 4, 6), perm=[1, 0, 2])
    flat = b.structure("tensor.collapse_shape", [moved], (5, 24), reassociation=[[0], [1, 2]])
    return b.apply("arith.negf", flat)


def _sliced(b: KernelBuilder, x: Value) -> Value:
    part = b.structure(
        "tensor.extract_slice", [x], (3, 9), static_offsets=[1, 2], static_sizes=[3, 9], static_strides=[2, 3]
    )
    return b.structure("lamina.reverse", [part], (3, 9), dims=[1])


def _odd_reshape(b: KernelBuilder, x: Value) -> Value:
    """Neither factor of the sizes fits: the index needs division."""
    flat = b.structure("tensor.collapse_shape", [b.apply("arith.negf", x)], (60,), reassociation=[[0, 1]])
    part = b.structure(
        "tensor.extract_slice", [flat], (50,), static_offsets=[7], static_sizes=[50], static_strides=[1]
    )
    return b.apply("arith.negf", part)


def _gathered(b: KernelBuilder, table: Value, rows: Value) -> Value:
    found = b.structure("lamina.index", [table, rows], (7, 37), dims=[0])
    return b.apply("arith.negf", found)


def _picked(b: KernelBuilder, x: Value, columns: Value) -> Value:
    rows = b.value("lamina.iota", (), columns.type, {"dim": 0})
    top = b.reduce(x, "max", 1)
    return b.apply("arith.subf", top, b.structure("lamina.index", [x, rows, columns], (11,), dims=[0, 1]))


def _padded_sum(b: KernelBuilder, x: Value) -> Value:
    padded = b.structure("lamina.pad", [x, b.splat(0.5, ())], (5, 30), low=[0, 3], high=[0, 7])
    return b.reduce(padded, "add", 1)


def _sum_of_added_rows(b: KernelBuilder, x: Value) -> Value:
    """Vectors run across the rows: which of them are added is asked outside of the sum's loop."""
    padded = b.structure("lamina.pad", [x, b.splat(0.5, ())], (5, 7), low=[1, 0], high=[1, 0])
    return b.reduce(padded, "add", 1)


def _masked(b: KernelBuilder, x: Value, mask: Value) -> Value:
    zero = b.splat(0.0, (6, 21))
    return b.value("arith.select", (mask, x, zero), x.type)


def _compared(b: KernelBuilder, x: Value, y: Value) -> Value:
    return b.compare(x, y, 4)


def _remainder(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Lanes behind the end must not divide by zero."""
    return b.apply("arith.remsi", x, b.apply("arith.subi", y, b.splat(100, (3, 37), i32)))


STRUCTURE: list[tuple[Callable[..., Value], list[TensorType], dict[int, object]]] = [
    (_pad, [matrix(6, 7)], {}),
    (_concat, [matrix(6, 10), matrix(6, 11)], {}),
    (_reshaped, [TensorType.get((4, 5, 6), f32)], {}),
    (_sliced, [matrix(8, 33)], {}),
    (_odd_reshape, [matrix(12, 5)], {}),
    (_gathered, [matrix(20, 37), TensorType.get((7,), i64)], {1: np.array([0, 19, 3, 3, 7, 1, 11])}),
    (_picked, [matrix(11, 18), TensorType.get((11,), i64)], {1: np.arange(11) * 5 % 18}),
    (_padded_sum, [matrix(5, 20)], {}),
    (_sum_of_added_rows, [matrix(3, 7)], {}),
    (_masked, [matrix(6, 21), matrix(6, 21, i1)], {}),
    (_compared, [matrix(6, 21), matrix(6, 21)], {}),
    (_remainder, [matrix(3, 37, i32), matrix(3, 37, i32)], {}),
]


@pytest.mark.parametrize("build,types,values", STRUCTURE, ids=[entry[0].__name__ for entry in STRUCTURE])
def test_structure(build: Callable[..., Value], types: list[TensorType], values: dict[int, object]) -> None:
    check(kernel(types, build), values=values)


def test_long_sums_stay_accurate() -> None:
    """Sums of many numbers near one: a plain f32 sum in one accumulator loses four digits."""
    values = 1 + np.random.default_rng(0).random((1, 1 << 20))
    for shape, dim in (((1, 1 << 20), 1), ((1 << 17, 8), 0), ((1 << 18, 4), 0)):
        case = make_case(reduction(*shape, "add", f32, dim), values={0: values.reshape(shape)})
        for isa in native_isas():
            check_native(case, isa, 2e-6)


def test_independent_reductions_over_different_dimensions() -> None:
    def build(b: KernelBuilder, x: Value) -> list[Value]:
        return [b.reduce(x, "add", 0), b.reduce(x, "add", 1)]

    check_levels(make_case(kernel([matrix(4, 5)], build)), "avx2")


def test_reductions_of_reductions_in_one_kernel_are_refused() -> None:
    def build(b: KernelBuilder, x: Value) -> list[Value]:
        return [b.reduce(b.reduce(x, "add", 0), "max", 0)]

    with pytest.raises(Unsupported, match="different dimensions"):
        make = kernel([matrix(4, 5)], build)
        check_levels(make_case(make), "avx2")


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(seed: int) -> None:
    """Elements of any type, layout and size; interpreted and run."""
    case = make_case(RandomKernel(seed).make(), seed)
    isa = ISAS[seed % len(ISAS)]
    check_levels(case, isa, _tolerance(case.types))
    for native in native_isas():
        check_native(case, native, _tolerance(case.types))


def _tolerance(types: tuple[TensorType, ...]) -> float:
    """Rounding of narrow types may move a comparison's sides; these programs have no steep functions."""
    narrow = {"f64": 1e-9, "f32": 1e-4, "f16": 2e-2, "bf16": 1e-1}
    return max(narrow[type_.element.name] for type_ in types if type_.element.is_float)
