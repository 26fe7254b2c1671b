"""Text of the IR: what is printed reads back to an equal module, and reading is as forgiving as MLIR's."""

from __future__ import annotations

import math
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.ir.attributes import (
    UNIT,
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
)
from lamina.ir.compare import equal, text_hash
from lamina.ir.core import Location, Operation
from lamina.ir.sizes import SymbolicSize
from lamina.ir.text import ParseError, parse, parse_module, parse_type, print_module
from lamina.ir.types import MemRefType, TensorType, bf16, f16, f32, f64, i1, i8, i32, index
from lamina.ir.verify import verify
from tests.work import count_calls

ATTRIBUTES = [
    "unit",
    "true",
    "false",
    "5",
    "-5",
    "5 : i32",
    "5 : index",
    "-128 : i8",
    "1.5",
    "1.5 : f32",
    "-0.0 : f32",
    "0x7FC00000 : f32",
    "0xFF800000 : f32",
    "0x7FF0000000000000 : f64",
    "0x7FC0 : bf16",
    "0x7E00 : f16",
    "1.0e-05 : f32",
    "0.1 : f32",
    '"text"',
    '"a\\22b\\\\\\0A"',
    '""',
    "@name",
    "@outer::@inner",
    '@"a b"::@c',
    "[]",
    '[1, 2.5, "x", [unit, none]]',
    "{}",
    '{a = 1, b, "c d" = 2 : i32}',
    "array<i64>",
    "array<i64: 1, -2>",
    "array<i1: true, false>",
    "array<f32: 1.0, 0x7FC00000>",
    "array<i8: -1>",
    "f32",
    "none",
    "tensor<4x?xf32>",
    "(f32, i1) -> (i64, i64)",
    "() -> ()",
    "(f32) -> f32",
    "affine_map<(d0, d1)[s0] -> (d1, d0 * 4 + s0 - 1)>",
    "affine_map<() -> ()>",
    "affine_map<(d0, d1) -> (d0 floordiv 4, (d0 + d1) mod 3, d0 ceildiv 2)>",
    "affine_map<(d0, d1, d2) -> (d0 + (d1 + d2), d0 - d1)>",
    "affine_set<(d0)[s0] : (d0 - 1 >= 0, d0 - s0 == 0)>",
    "#linalg.iterator_type<parallel>",
    "#arith.fastmath<none>",
    "#llvm.linkage<internal>",
    "#x.y",
    "strided<[4, 1], offset: ?>",
    "dense<1.0> : tensor<4xf32>",
    "dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>",
    "dense<> : tensor<0x3xf32>",
    "dense<[true, false]> : tensor<2xi1>",
    "dense<0x7F800000> : vector<4xf32>",
    "dense<[1.5, 0x7FC0]> : tensor<2xbf16>",
    "dense<(1.0, -2.0)> : tensor<3xcomplex<f32>>",
    "dense<7> : tensor<i32>",
    "dense<[-1, 2]> : tensor<2xi8>",
    "dense<[200, 2]> : tensor<2xui8>",
    "!llvm.ptr",
    "distinct[0]<unit>",
    "dense_resource<blob> : tensor<4xf32>",
    "loc(unknown)",
]
TYPES = [
    "f64", "f32", "f16", "bf16", "i1", "i64", "i7", "ui8", "si32", "index", "none", "f8E4M3FN",
    "complex<f32>",
    "tensor<f32>", "tensor<4x0x8xbf16>", "tensor<?xf32>", 'tensor<?x4x?xf32, ["s0", "s1"]>', "tensor<*xf32>",
    "memref<4x8xf32>", "memref<4x8xf32, strided<[1, 4]>>", "memref<8xf32, strided<[2], offset: 3>>",
    'memref<?x4xf32, strided<[4, ?], offset: ?>, "s0,s1,s2">', "memref<?xf32>", "memref<4xf32, 1>",
    "vector<16xf32>", "vector<4x4xi1>", "vector<f32>", "vector<[4]xf32>", "!llvm.ptr", "!llvm.ptr<1>",
    "!llvm.func<void (ptr, i64)>", "!llvm.struct<(i64, ptr)>", "tuple<f32, i1>", "tensor<4xcomplex<f64>>",
]  # fmt: skip


def with_attribute(text: str) -> str:
    return f'"test.op"() {{a = {text}}} : () -> ()\n'


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_attribute_prints_as_it_was_read(text: str) -> None:
    expected = '"test.op"() {a} : () -> ()\n' if text == "unit" else with_attribute(text)
    assert print_module(parse(with_attribute(text))) == expected


@pytest.mark.parametrize("text", TYPES)
def test_type_prints_as_it_was_read(text: str) -> None:
    assert str(parse_type(text)) == text
    assert parse_type(text) is parse_type(text)
    assert pickle.loads(pickle.dumps(parse_type(text))) is parse_type(text)


def test_attribute_values() -> None:
    text = """"t.op"() {a = -1 : i8, b = 255 : i8, c = 0x3F800000 : f32, d = true, e, f = "\\E2\\82\\AC",
        g = dense<[1.0, 2.0]> : tensor<2xf32>, h = array<i32: 1>, i = @a::@b, j = [1 : i32], k = {x = 1}}
        : () -> ()"""
    found = parse(text).attributes
    assert found["a"] == found["b"] == IntegerAttr(-1, i8)
    assert found["c"] == FloatAttr(1.0, f32)
    assert found["d"] == BoolAttr(True) and found["e"] is UNIT and found["f"] == StringAttr("€")
    assert found["g"] == DenseElementsAttr.from_array(np.array([1, 2], np.float32), TensorType.get((2,), f32))
    assert found["h"] == DenseArrayAttr((1,), i32) and found["i"] == SymbolRefAttr(("a", "b"))
    assert found["j"] == ArrayAttr((IntegerAttr(1, i32),)) and found["k"] == DictAttr(
        (("x", IntegerAttr(1)),)
    )


def test_symbolic_sizes_keep_their_names() -> None:
    s0, s1 = SymbolicSize.get("s0"), SymbolicSize.get("s1")
    tensor = TensorType.get((s0, 4, s1), f32)
    assert parse_type(str(tensor)) is tensor
    buffer = MemRefType.get((s0, 4), f32, (4, s1), 2)
    assert parse_type(str(buffer)) is buffer


@pytest.mark.parametrize("type_", [f64, f32, f16, bf16])
@settings(max_examples=200, deadline=None)
@given(bits=st.integers(0, 2**64 - 1), decimal=st.floats())
def test_floats_round_trip(type_: object, bits: int, decimal: float) -> None:
    for value in (decimal, struct.unpack("<d", struct.pack("<Q", bits))[0]):
        attribute = FloatAttr(value, type_)  # type: ignore[arg-type]
        read = parse(print_module(Operation("t.op", attributes={"a": attribute}))).attributes["a"]
        assert read == attribute or (math.isnan(value) and math.isnan(read.value))  # type: ignore[attr-defined]


@settings(max_examples=200, deadline=None)
@given(text=st.text(), name=st.text(min_size=1), symbol=st.text(min_size=1))
def test_strings_names_and_symbols_round_trip(text: str, name: str, symbol: str) -> None:
    if any(0xD800 <= ord(sign) < 0xE000 for sign in text + name + symbol):
        return
    attributes = {name: StringAttr(text), "s": SymbolRefAttr((symbol, "x"))}
    operation = Operation("t.op", attributes=attributes)
    printed = print_module(operation)
    assert printed.isascii() and equal(parse(printed), operation)


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "<u2", "|u1", "<f8"])
def test_large_constants_are_hexadecimal(dtype: str) -> None:
    names = {"<f4": "f32", "<i8": "i64", "<u2": "bf16", "|u1": "ui8", "<f8": "f64"}
    type_ = parse_type(f"tensor<7x31x{names[dtype]}>")
    values = np.random.default_rng(0).integers(0, 100, (7, 31)).astype(dtype)
    assert isinstance(type_, TensorType)
    operation = Operation("t.op", attributes={"a": DenseElementsAttr.from_array(values, type_)})
    printed = print_module(operation)
    assert '"0x' in printed and equal(parse(printed), operation)


def test_equal_elements_are_one_splat() -> None:
    type_ = TensorType.get((3,), f32)
    listed = parse(with_attribute("dense<[1.0, 1.0, 1.0]> : tensor<3xf32>")).attributes["a"]
    assert listed == DenseElementsAttr.splat(1.0, type_)
    assert listed == DenseElementsAttr.from_array(np.ones(3, np.float32), type_)


CFG = """"func.func"() ({
^bb0(%arg0: i1, %arg1: f32):
  %0:2 = "t.pair"(%arg1) : (f32) -> (f32, i32)
  "cf.cond_br"(%arg0, %0#0)[^bb2, ^bb1] {operandSegmentSizes = array<i32: 1, 0, 1>} : (i1, f32) -> ()
^bb1(%arg2: f32):
  %1 = "t.use"(%arg2, %0#1) : (f32, i32) -> f32
  "cf.br"()[^bb2] : () -> ()
^bb2:
  %2 = "t.nest"(%arg1) ({
    %3 = "t.inner"(%0#0) : (f32) -> f32
    "t.yield"(%3) : (f32) -> ()
  }, {
  }) : (f32) -> f32
  "func.return"() : () -> ()
}) {function_type = (i1, f32) -> (), sym_name = "main"} : () -> ()
"""


def test_blocks_regions_and_results() -> None:
    module = parse(CFG)
    assert print_module(module) == CFG
    blocks = module.region.blocks
    assert blocks[0].terminator.successors == [blocks[2], blocks[1]]
    assert [len(region.blocks) for region in next(iter(blocks[2])).regions] == [1, 0]


def test_forward_references() -> None:
    text = """"t.graph"() ({
      %0 = "t.a"(%1#1) : (f32) -> f32
      %1:2 = "t.b"(%0) : (f32) -> (i1, f32)
    }) : () -> ()"""
    first, second = parse(text).body
    assert first.operand() is second.results[1] and second.operand() is first.results[0]
    assert equal(parse(print_module(parse(text))), parse(text))


def test_aliases_comments_and_several_at_the_top() -> None:
    text = """// a comment
    #map = affine_map<(d0) -> (d0)>
    !buffer = memref<4xf32>
    "t.a"() {m = #map} : () -> ()  // another
    %x = "t.b"() : () -> !buffer
    """
    module = parse(text)
    assert module.name == "builtin.module"
    first, second = module.body
    assert isinstance(first.attributes["m"], AffineMapAttr)
    assert second.result.type is MemRefType.get((4,), f32)


def test_implied_attributes_are_only_in_text() -> None:
    sizes = "static_offsets = array<i64: 1>, static_sizes = array<i64: 2>, static_strides = array<i64: 1>"
    text = f'%0 = "t.x"() : () -> tensor<4xf32>\n%1 = "tensor.extract_slice"(%0) {{{sizes}}} : (tensor<4xf32>) -> '
    module = parse(text + "tensor<2xf32>")
    printed = print_module(module)
    assert "operandSegmentSizes = array<i32: 1, 0, 0, 0>" in printed
    assert equal(parse(printed), module) and "operandSegmentSizes" not in module.body.terminator.attributes


def test_properties_join_attributes() -> None:
    found = parse('"t.a"() <{x = 1}> {y = 2} : () -> ()').attributes
    assert found == {"x": IntegerAttr(1), "y": IntegerAttr(2)}


LOCATIONS = [
    ('loc("a.py":3:4)', Location("a.py", 3, 4)),
    ("loc(unknown)", Location("", 0)),
    ('loc(callsite("a.py":1:2 at callsite("b.py":3:4 at "c.py":5:6)))',
     Location("a.py", 1, 2, (Location("b.py", 3, 4), Location("c.py", 5, 6)))),
    ('loc(fused[unknown, "b.py":1:0])', Location("b.py", 1, 0)),
    ('loc(fused<"pass">["b.py":1:0])', Location("b.py", 1, 0)),
    ('loc("name"("b.py":1:0))', Location("b.py", 1, 0)),
    ('loc("name")', Location("", 0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LOCATIONS)
def test_locations(text: str, expected: Location) -> None:
    operation = parse(f'"t.a"() : () -> () {text}')
    assert operation.location == expected
    printed = print_module(operation, locations=True)
    assert parse(printed).location == expected and print_module(parse(printed), locations=True) == printed


def test_location_aliases_may_come_last() -> None:
    operation = parse(
        '"t.a"() : () -> () loc(#loc1)\n#loc = loc("a.py":1:0)\n#loc1 = loc(callsite(#loc at #loc))'
    )
    assert operation.location == Location("a.py", 1, 0, (Location("a.py", 1, 0),))


def test_place_in_the_text_is_a_location_on_request() -> None:
    operation = parse('\n  "t.a"() : () -> ()', "x.mlir", locate=True)
    assert operation.location == Location("x.mlir", 2, 3)


def test_equality_sees_every_difference() -> None:
    base = parse(CFG)
    for old, new in [
        ("%arg2, %0#1", "%arg1, %0#1"), ("^bb2, ^bb1", "^bb1, ^bb2"), ("t.inner", "t.other"),
        ('"main"', '"Main"'), ("(%0#0) : (f32) -> f32\n    \"t.y", "(%arg1) : (f32) -> f32\n    \"t.y"),
    ]:  # fmt: skip
        assert old in CFG
        assert not equal(base, parse(CFG.replace(old, new)))
    renamed = CFG.replace("%0", "%zero").replace("%arg1", "%x").replace("^bb1", "^middle")
    assert equal(base, parse(renamed)) and text_hash(base) == text_hash(parse(renamed))


def test_equality_of_locations_is_optional() -> None:
    a, b = parse('"t.a"() : () -> () loc("a.py":1:0)'), parse('"t.a"() : () -> () loc("a.py":2:0)')
    assert equal(a, b) and not equal(a, b, locations=True)
    assert text_hash(a) == text_hash(b)


def test_a_single_operation_is_wrapped_on_request() -> None:
    assert parse('"t.a"() : () -> ()').name == "t.a"
    assert parse_module('"t.a"() : () -> ()').name == "builtin.module"


def test_errors_show_line_column_and_caret() -> None:
    with pytest.raises(ParseError) as caught:
        parse('"t.a"() : () -> ()\n  %0 = "t.b"(%1 : (f32) -> f32', "x.mlir")
    shown = str(caught.value)
    assert shown.startswith("x.mlir:2:17: error: expected ')' or ',' after an operand")
    assert shown.splitlines()[1:] == ['    %0 = "t.b"(%1 : (f32) -> f32', "  " + " " * 16 + "^"]


def test_custom_syntax_is_refused_with_advice() -> None:
    with pytest.raises(ParseError, match="mlir-opt --mlir-print-op-generic"):
        parse("module {\n}")


def chain(length: int) -> str:
    lines = [
        '"func.func"() ({\n^bb0(%arg0: tensor<4x8xf32>):',
        '%0 = "math.exp"(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>',
    ]
    lines += [
        f'%{k} = "arith.addf"(%{k - 1}, %arg0) {{fastmath = #arith.fastmath<none>}} : '
        f'(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("m.py":{k % 300}:0)'
        for k in range(1, length)
    ]
    end = (
        '"func.return"() : () -> ()\n}) {function_type = (tensor<4x8xf32>) -> (), sym_name = "f"} : () -> ()'
    )
    return "\n".join([*lines, end])


def test_reading_verifying_and_printing_are_linear() -> None:
    def work(length: int) -> int:
        text = chain(length)

        def run() -> None:
            module = parse(text)
            verify(module, "tensor")
            print_module(module, locations=True)

        return count_calls(run)

    work(10)
    assert work(10_000) < 11 * work(1000)


def test_unused_types_are_interned() -> None:
    assert parse_type("i1") is i1 and parse_type("index") is index
    assert isinstance(parse('"t.a"() {a = i1} : () -> ()').attributes["a"], TypeAttr)
    assert isinstance(parse('"t.a"() {a = #d.x<y>} : () -> ()').attributes["a"], OpaqueAttr)
