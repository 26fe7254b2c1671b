"""The NumPy interpreter against eager, operation by operation, and against itself level by level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from lamina.ir.core import Block, Builder, Operation, Region
from lamina.ir.interpret import interpret
from lamina.ir.ops import arith
from lamina.ir.text import parse
from lamina.ir.types import (
    FunctionType,
    ScalarType,
    TensorType,
    Type,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)

TORCH = {f64: torch.float64, f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16, i1: torch.bool,
         i8: torch.int8, i16: torch.int16, i32: torch.int32, i64: torch.int64}  # fmt: skip
FLOATS = [f64, f32, f16, bf16]
INTEGERS = [i8, i16, i32, i64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-40, -1e-40, 6e-8, 1e38, 65504.0, float("inf"),
           float("-inf"), float("nan"), 0.1, -0.3, 2.0**-126, 1e-3, 7.0]  # fmt: skip


def fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C's: eager's vectorised one gives nan for an infinite divisor."""
    values = [_fmod(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return torch.tensor(values, dtype=torch.float64).to(a.dtype)


def _fmod(x: float, y: float) -> float:
    return math.fmod(x, y) if math.isfinite(x) and y != 0 else math.nan


def to_numpy(value: torch.Tensor) -> np.ndarray[Any, Any]:
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def floats(type_: ScalarType, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.cat(
        [torch.tensor(SPECIAL, dtype=torch.float64), torch.randn(44, generator=generator).double()]
    )
    return values[torch.randperm(64, generator=generator)].to(TORCH[type_])


def integers(type_: ScalarType, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    limits = torch.iinfo(TORCH[type_])
    values = torch.randint(-100, 100, (60,), generator=generator).to(TORCH[type_])
    edges = torch.tensor([limits.min, limits.max, 0, -1], dtype=TORCH[type_])
    return torch.cat([values, edges])[torch.randperm(64, generator=generator)]


def numbers(type_: ScalarType, seed: int = 0) -> torch.Tensor:
    if type_ is i1:
        return torch.rand(64, generator=torch.Generator().manual_seed(seed)) < 0.5
    return floats(type_, seed) if type_ in FLOATS else integers(type_, seed)


def run_one(
    name: str, arguments: list[torch.Tensor], result: Type, **attributes: Any
) -> np.ndarray[Any, Any]:
    """One operation in a function of its own."""
    names = {dtype: type_ for type_, dtype in TORCH.items()}
    types = [TensorType.get(tuple(each.shape), names[each.dtype]) for each in arguments]
    block = Block(types)
    builder = Builder(block)
    value = builder.value(name, block.arguments, result, attributes)
    builder.op("func.return", [value])
    type_ = FunctionType.get(tuple(types), (result,))
    function = Operation(
        "func.func", attributes={"sym_name": "f", "function_type": type_}, regions=[Region([block])]
    )
    return interpret(function, [to_numpy(each) for each in arguments])[0]


def of(type_: ScalarType) -> TensorType:
    return TensorType.get((64,), type_)


BINARY = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul, "arith.divf": torch.div,
    "arith.maximumf": torch.maximum, "arith.minimumf": torch.minimum,
    "arith.maxnumf": torch.fmax, "arith.minnumf": torch.fmin, "math.copysign": torch.copysign,
    "arith.remf": fmod,
}  # fmt: skip


@pytest.mark.parametrize("type_", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_float_arithmetic_is_exact(name: str, type_: ScalarType) -> None:
    a, b = floats(type_, 1), floats(type_, 2)
    expected = to_numpy(BINARY[name](a, b))
    np.testing.assert_array_equal(run_one(name, [a, b], of(type_)), expected)


UNARY = {
    "math.exp": torch.exp, "math.log": torch.log, "math.tanh": torch.tanh, "math.erf": torch.erf,
    "math.sin": torch.sin, "math.sqrt": torch.sqrt, "math.rsqrt": torch.rsqrt,
    "math.floor": torch.floor, "math.ceil": torch.ceil,
    "math.trunc": torch.trunc, "math.roundeven": torch.round, "math.absf": torch.abs, "arith.negf": torch.neg,
    "math.expm1": torch.expm1, "math.log1p": torch.log1p, "math.atan": torch.atan,
}  # fmt: skip


@pytest.mark.parametrize("type_", [f32, bf16, f16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_math_is_correctly_rounded(name: str, type_: ScalarType) -> None:
    """Against float64's result rounded once, as an oracle should be."""
    x = floats(type_)
    expected = to_numpy(UNARY[name](x.double()).to(TORCH[type_]))
    np.testing.assert_array_equal(run_one(name, [x], of(type_)), expected)


INTEGER_OPERATIONS = {
    "arith.addi": torch.add, "arith.subi": torch.sub, "arith.muli": torch.mul,
    "arith.andi": torch.bitwise_and, "arith.ori": torch.bitwise_or, "arith.xori": torch.bitwise_xor,
    "arith.maxsi": torch.maximum,
    "arith.minsi": torch.minimum,
}  # fmt: skip


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_OPERATIONS)
def test_integers_wrap(name: str, type_: ScalarType) -> None:
    a, b = integers(type_, 1), integers(type_, 2)
    np.testing.assert_array_equal(run_one(name, [a, b], of(type_)), INTEGER_OPERATIONS[name](a, b).numpy())


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_division_rounds_as_its_name_says(type_: ScalarType) -> None:
    a, b = integers(type_, 1), integers(type_, 2)
    b = torch.where((b == 0) | (b == -1), 3, b).to(a.dtype)
    for name, mode in (("arith.divsi", "trunc"), ("arith.floordivsi", "floor")):
        np.testing.assert_array_equal(
            run_one(name, [a, b], of(type_)), torch.div(a, b, rounding_mode=mode).numpy()
        )
    np.testing.assert_array_equal(run_one("arith.remsi", [a, b], of(type_)), torch.fmod(a, b).numpy())


def test_one_bit_integers() -> None:
    a, b = numbers(i1, 1), numbers(i1, 2)
    expected = {"addi": a ^ b, "subi": a ^ b, "muli": a & b, "andi": a & b, "maxsi": a & b, "minsi": a | b,
                "maxui": a | b, "minui": a & b}  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_array_equal(run_one(f"arith.{name}", [a, b], of(i1)), values.numpy())
    signed = run_one("arith.cmpi", [a, b], of(i1), predicate=arith.CMPI.index("slt"))
    np.testing.assert_array_equal(signed, (a & ~b).numpy())


@pytest.mark.parametrize("predicate", range(16))
def test_float_comparisons(predicate: int) -> None:
    a, b = floats(f32, 1), floats(f32, 2)
    unordered = a.isnan() | b.isnan()
    name = arith.CMPF[predicate]
    base = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": a != b}
    if name in ("ord", "uno"):
        expected = unordered if name == "uno" else ~unordered
    elif name in ("true", "false"):
        expected = torch.full_like(unordered, name == "true")
    else:
        expected = (base[name[1:]] | unordered) if name[0] == "u" else (base[name[1:]] & ~unordered)
    np.testing.assert_array_equal(
        run_one("arith.cmpf", [a, b], of(i1), predicate=predicate), expected.numpy()
    )


CASTS = [
    *[("arith.sitofp", a, b) for a in INTEGERS for b in FLOATS],
    *[("arith.fptosi", a, b) for a in (f64, f32) for b in (i32, i64)],
    *[("arith.extf", a, b) for a, b in ((f32, f64), (f16, f32), (bf16, f32))],
    *[("arith.truncf", a, b) for a, b in ((f64, f32), (f32, f16), (f32, bf16))],
    *[("arith.extsi", a, b) for a, b in ((i8, i32), (i32, i64), (i16, i64))],
    *[("arith.trunci", a, b) for a, b in ((i64, i8), (i32, i16), (i64, i32))],
    *[("arith.extui", i1, b) for b in INTEGERS],
    *[("arith.uitofp", i1, b) for b in FLOATS],
]


@pytest.mark.parametrize(("name", "source", "target"), CASTS, ids=str)
def test_casts_are_those_of_eager(name: str, source: ScalarType, target: ScalarType) -> None:
    """Also for nan and what is out of range: on x86 eager gives the smallest integer."""
    x = numbers(source)
    expected = to_numpy(x.to(TORCH[target]))
    np.testing.assert_array_equal(run_one(name, [x], of(target)), expected)


def test_narrow_integers_take_the_low_bits() -> None:
    x = torch.tensor([300.0, -129.0, 1e10, float("nan")] * 16)
    assert run_one("arith.fptosi", [x], of(i8)).tolist()[:4] == [44, 127, 0, 0]


def test_signed_one_bit_extends_with_its_sign() -> None:
    x = numbers(i1)
    np.testing.assert_array_equal(run_one("arith.extsi", [x], of(i32)), -x.int().numpy())


def test_bitcast() -> None:
    x = floats(bf16)
    np.testing.assert_array_equal(run_one("arith.bitcast", [x], of(i16)), x.view(torch.int16).numpy())
    back = run_one("arith.bitcast", [x.view(torch.int16)], of(bf16))
    np.testing.assert_array_equal(back, to_numpy(x))


def test_bf16_rounds_after_every_operation() -> None:
    function = parse(""""func.func"() ({
    ^bb0(%x: tensor<64xbf16>, %y: tensor<64xbf16>):
      %0 = "arith.addf"(%x, %y) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
      %1 = "arith.mulf"(%0, %y) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
      "func.return"(%1) : (tensor<64xbf16>) -> ()
    }) {function_type = (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>, sym_name = "f"} : () -> ()""")
    x, y = floats(bf16, 1), floats(bf16, 2)
    found = interpret(function, [to_numpy(x), to_numpy(y)])[0]
    np.testing.assert_array_equal(found, to_numpy((x + y) * y))


def structure(name: str, x: torch.Tensor, shape: tuple[int, ...], **attributes: Any) -> np.ndarray[Any, Any]:
    return run_one(name, [x], TensorType.get(shape, f32), **attributes)


def test_structure() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    checks = [
        (structure("lamina.permute", x, (4, 2, 3), perm=[2, 0, 1]), x.permute(2, 0, 1)),
        (structure("lamina.reverse", x, (2, 3, 4), dims=[1]), x.flip(1)),
        (structure("lamina.broadcast", x[:, :1], (2, 5, 3, 4), dims=[0, 2, 3]),
         x[:, :1].unsqueeze(1).expand(2, 5, 3, 4)),
        (structure("tensor.collapse_shape", x, (6, 4), reassociation=[[0, 1], [2]]), x.reshape(6, 4)),
        (structure("lamina.reduce", x, (2, 4), kind="add", dims=[1]), x.sum(1)),
        (structure("lamina.reduce", x, (3,), kind="max", dims=[0, 2]), x.amax((0, 2))),
        (structure("tensor.extract_slice", x, (2, 2, 2), static_offsets=[0, 1, 0], static_sizes=[2, 2, 2],
                   static_strides=[1, 1, 2]), x[:, 1:3, ::2]),
    ]  # fmt: skip
    for found, expected in checks:
        np.testing.assert_array_equal(found, expected.numpy())
    iota = run_one("lamina.iota", [], TensorType.get((2, 3), i64), dim=1)
    np.testing.assert_array_equal(iota, [[0, 1, 2], [0, 1, 2]])


def test_kernels_calls_constants_and_library_operations() -> None:
    module = parse(""""builtin.module"() ({
      "func.func"() ({
      ^bb0(%x: tensor<2x2xf32>):
        %0 = "arith.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
        %1 = "aten.mm.default"(%x, %0) {args = [unit, unit], kwargs = {scale = 2.0}} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        %2 = "lamina.kernel"(%1) ({
        ^bb0(%a: tensor<2x2xf32>):
          %9 = "arith.negf"(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>
          "lamina.yield"(%9) : (tensor<2x2xf32>) -> ()
        }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %3 = "func.call"(%2) {callee = @twice} : (tensor<2x2xf32>) -> tensor<2x2xf32>
        "func.return"(%3) : (tensor<2x2xf32>) -> ()
      }) {function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "main"} : () -> ()
      "func.func"() ({
      ^bb0(%x: tensor<2x2xf32>):
        %0 = "arith.addf"(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        "func.return"(%0) : (tensor<2x2xf32>) -> ()
      }) {function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "twice"} : () -> ()
    }) : () -> ()""")
    x = np.array([[1, 1], [0, 2]], np.float32)

    def library(operation: Operation, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        assert operation.name == "aten.mm.default" and kwargs == {"scale": 2.0}
        return [np.float32(kwargs["scale"]) * (args[0] @ args[1])]

    main = next(iter(module.body))
    weight = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(interpret(main, [x], library=library)[0], -4 * (x @ weight))
    with pytest.raises(NotImplementedError, match="library"):
        interpret(main, [x])


LINALG = """"func.func"() ({
^bb0(%x: memref<3x4xf32>, %b: memref<4xf32>, %sum: memref<3xf32, strided<[2], offset: 1>>, %out: memref<4x3xf32>):
  "linalg.generic"(%x, %b, %sum) ({
  ^bb0(%a: f32, %c: f32, %s: f32):
    %0 = "arith.mulf"(%a, %c) : (f32, f32) -> f32
    %1 = "arith.addf"(%s, %0) : (f32, f32) -> f32
    "linalg.yield"(%1) : (f32) -> ()
  }) {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>],
      operandSegmentSizes = array<i32: 2, 1>} : (memref<3x4xf32>, memref<4xf32>, memref<3xf32, strided<[2], offset: 1>>) -> ()
  "linalg.generic"(%out) ({
  ^bb0(%o: f32):
    %i = "linalg.index"() {dim = 0} : () -> index
    %j = "linalg.index"() {dim = 1} : () -> index
    %v = "memref.load"(%x, %j, %i) : (memref<3x4xf32>, index, index) -> f32
    "linalg.yield"(%v) : (f32) -> ()
  }) {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>],
      operandSegmentSizes = array<i32: 0, 1>} : (memref<4x3xf32>) -> ()
  "func.return"() : () -> ()
}) {function_type = (memref<3x4xf32>, memref<4xf32>, memref<3xf32, strided<[2], offset: 1>>, memref<4x3xf32>) -> (), sym_name = "k"} : () -> ()
"""


def test_generics_on_buffers() -> None:
    generator = np.random.default_rng(0)
    x, b = generator.integers(0, 9, (3, 4)).astype(np.float32), generator.integers(0, 9, 4).astype(np.float32)
    total, out = np.ones(3, np.float32), np.zeros((4, 3), np.float32)
    interpret(parse(LINALG), [x, b, total, out])
    np.testing.assert_array_equal(total, 1 + x @ b)
    np.testing.assert_array_equal(out, x.T)


LOOPS = """"func.func"() ({
^bb0(%x: memref<19xf32>, %out: memref<1xf32>):
  %zero = "arith.constant"() {value = 0 : index} : () -> index
  %one = "arith.constant"() {value = 1 : index} : () -> index
  %eight = "arith.constant"() {value = 8 : index} : () -> index
  %end = "arith.constant"() {value = 19 : index} : () -> index
  %nothing = "arith.constant"() {value = dense<0.0> : vector<8xf32>} : () -> vector<8xf32>
  "scf.parallel"(%zero, %one, %one) ({
  ^bb0(%p: index):
    %acc = "scf.for"(%zero, %end, %eight, %nothing) ({
    ^bb0(%i: index, %a: vector<8xf32>):
      %left = "arith.subi"(%end, %i) : (index, index) -> index
      %mask = "vector.create_mask"(%left) : (index) -> vector<8xi1>
      %v = "vector.maskedload"(%x, %i, %mask, %nothing) : (memref<19xf32>, index, vector<8xi1>, vector<8xf32>) -> vector<8xf32>
      %n = "arith.addf"(%a, %v) : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
      "scf.yield"(%n) : (vector<8xf32>) -> ()
    }) : (index, index, index, vector<8xf32>) -> vector<8xf32>
    %sum = "vector.reduction"(%acc) {kind = #vector.kind<add>} : (vector<8xf32>) -> f32
    %big = "arith.cmpi"(%end, %eight) {predicate = 4} : (index, index) -> i1
    "scf.if"(%big) ({
      "memref.store"(%sum, %out, %p) : (f32, memref<1xf32>, index) -> ()
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    "scf.reduce"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (index, index, index) -> ()
  "func.return"() : () -> ()
}) {function_type = (memref<19xf32>, memref<1xf32>) -> (), sym_name = "k"} : () -> ()
"""


def test_loops_and_vectors() -> None:
    x, out = np.arange(19, dtype=np.float32), np.zeros(1, np.float32)
    interpret(parse(LOOPS), [x, out])
    assert out[0] == x.sum()


def test_reading_outside_of_a_buffer_is_an_error() -> None:
    unmasked = LOOPS.replace('"vector.maskedload"(%x, %i, %mask, %nothing)', '"vector.load"(%x, %i)').replace(
        "(memref<19xf32>, index, vector<8xi1>, vector<8xf32>) -> vector<8xf32>",
        "(memref<19xf32>, index) -> vector<8xf32>",
    )
    with pytest.raises(IndexError, match=r"vector\.load leaves its buffer"):
        interpret(parse(unmasked), [np.zeros(19, np.float32), np.zeros(1, np.float32)])


def test_jumps_between_blocks() -> None:
    function = parse(""""func.func"() ({
    ^bb0(%n: i64):
      %zero = "arith.constant"() {value = 0} : () -> i64
      %one = "arith.constant"() {value = 1} : () -> i64
      "cf.br"(%zero, %zero)[^head] : (i64, i64) -> ()
    ^head(%i: i64, %sum: i64):
      %more = "arith.cmpi"(%i, %n) {predicate = 2} : (i64, i64) -> i1
      "cf.cond_br"(%more, %sum)[^body, ^end] {operandSegmentSizes = array<i32: 1, 0, 1>} : (i1, i64) -> ()
    ^body:
      %next = "arith.addi"(%i, %one) : (i64, i64) -> i64
      %more_sum = "arith.addi"(%sum, %next) : (i64, i64) -> i64
      "cf.br"(%next, %more_sum)[^head] : (i64, i64) -> ()
    ^end(%result: i64):
      "func.return"(%result) : (i64) -> ()
    }) {function_type = (i64) -> i64, sym_name = "f"} : () -> ()""")
    assert interpret(function, [np.array(10)])[0] == 55


def test_arguments_must_fit() -> None:
    function = parse(LOOPS)
    with pytest.raises(ValueError, match="is no memref<19xf32>"):
        interpret(function, [np.zeros(18, np.float32), np.zeros(1, np.float32)])
