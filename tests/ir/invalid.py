"""Texts that are not programs, each with the line and column of the fault: MLIR refuses every one of them."""

from __future__ import annotations

OK = '"t.op"() : () -> ()\n'
F = '"func.func"() ({\n^bb0(%x: f32, %c: i1):\nBODY\n}) {function_type = (f32, i1) -> (), sym_name = "f"} : () -> ()\n'
END = '\n"func.return"() : () -> ()'


def body(text: str) -> str:
    """A function whose body starts at line 3."""
    return F.replace("BODY", text)


def attribute(text: str) -> str:
    return f'"t.op"() {{a = {text}}} : () -> ()\n'


def result(type_: str) -> str:
    return f'%0 = "t.op"() : () -> {type_}\n'


SYNTAX: list[tuple[str, str]] = [
    ("1:1", "42\n"),
    ("1:1", "t.op() : () -> ()\n"),
    ("1:8", '"t.op" : () -> ()\n'),
    ("1:7", '"t.op"[] : () -> ()\n'),
    ("1:11", '"t.op"() () -> ()\n'),
    ("1:9", '"t.op"()'),
    ("2:1", '"t.op"() : \n'),
    ("1:12", '"t.op"() : f32\n'),
    ("1:15", '"t.op"() : () ()\n'),
    ("1:17", '"t.op"() : () ->'),
    ("1:17", '"t.op"() : (f32 f32) -> ()\n'),
    ("1:12", '"t.op"() : (f32) -> ()\n'),
    ("1:1", '"t.op\n'),
    ("1:1", '""() : () -> ()\n'),
    ("1:8", '"t.op"(0) : (f32) -> ()\n'),
    ("1:8", '"t.op"(%0) : (f32) -> ()\n'),
    ("2:10", '%0 = "t.a"() : () -> f32\n"t.b"(%0 %0) : (f32, f32) -> ()\n'),
    ("2:7", '%0 = "t.a"() : () -> f32\n"t.b"(%0) : (i32) -> ()\n'),
    ("2:7", '%0:2 = "t.a"() : () -> (f32, f32)\n"t.b"(%0#2) : (f32) -> ()\n'),
    ("2:1", '%0 = "t.a"() : () -> f32\n%0 = "t.a"() : () -> f32\n'),
    ("1:4", '%0 "t.a"() : () -> f32\n'),
    ("1:1", '%0, %1 = "t.a"() : () -> f32\n'),
    ("1:1", '%0:3 = "t.a"() : () -> (f32, f32)\n'),
    ("1:1", '%0:0 = "t.a"() : () -> ()\n'),
    ("1:1", '%0 = "t.a"() : () -> ()\n'),
    ("1:1", '%0#1 = "t.a"() : () -> f32\n'),
    ("1:15", '"t.op"() {a = 1 : () -> ()\n'),
    ("1:15", attribute("")),
    ("1:15", attribute("?")),
    ("1:15", attribute("bad")),
    ("1:20", attribute("[1, 2")),
    ("1:15", attribute("#undefined")),
    ("1:15", attribute("!undefined")),
    ("1:15", attribute('"unterminated')),
    ("1:15", attribute('"\\q"')),
    ("1:15", attribute("300 : i8")),
    ("1:15", attribute("1.5 : i32")),
    ("1:15", attribute("0xFFFFF : f16")),
    ("1:15", attribute("@")),
    ("1:18", '"t.op"() {a = 1, a = 2} : () -> ()\n'),
    ("1:17", '"t.op"() {a = 1 b = 2} : () -> ()\n'),
    ("1:11", '"t.op"() {1 = 2} : () -> ()\n'),
    ("1:21", attribute("array f32")),
    ("1:29", attribute("array<i32: 1, 2.5>")),
    ("1:25", attribute("array<i8: 300>")),
    ("1:34", attribute("array<vector<2xf32>: 1.0>")),
    ("1:21", attribute("dense 1.0")),
    ("1:26", attribute("dense<1.0> tensor<4xf32>")),
    ("1:31", attribute("dense<1.0> : f32")),
    ("1:21", attribute("dense<[1.0, 2.0]> : tensor<3xf32>")),
    ("1:21", attribute("dense<[[1, 2], [3]]> : tensor<2x2xi32>")),
    ("1:21", attribute("dense<1.5> : tensor<2xi32>")),
    ("1:21", attribute("dense<true> : tensor<2xf32>")),
    ("1:21", attribute('dense<"0x0000"> : tensor<2xf32>')),
    ("1:21", attribute("dense<> : tensor<2xf32>")),
    ("1:26", attribute("affine_map<d0 -> d0>")),
    ("1:35", attribute("affine_map<(d0) -> (d1)>")),
    ("1:31", attribute("affine_map<(d0, d0) -> (d0)>")),
    ("1:42", attribute("affine_map<(d0, d1) -> (d0 * d1)>")),
    ("1:37", attribute("affine_map<(d0) -> (d0")),
    ("1:37", attribute("affine_set<(d0) : (d0 > 1)>")),
    ("1:23", result("f33")),
    ("1:32", result("tensor<4xf33>")),
    ("2:1", result("tensor<4xf32")),
    ("1:30", result("tensor<4>")),
    ("1:23", result("vector<0xf32>")),
    ("1:23", result("vector<?xf32>")),
    ("1:52", result("memref<4xf32, strided<[1, 2]>>")),
    ("1:45", result("memref<4xf32, strided<1>>")),
    ("1:32", result("memref<4xnone>")),
    ("1:23", result("i99999999")),
    ("2:1", result("complex<i1")),
    ("1:35", result("!llvm.struct<(i64, ptr)")),
    ("2:1", "!alias = \n"),
    ("2:1", "#m = affine_map<(d0) -> (d0)>\n#m = 1\n"),
    ("1:25", '"t.op"() : () -> () loc(#loc9)\n'),
    ("1:25", '"t.op"() : () -> () loc(3)\n'),
    ("1:32", '"t.op"() : () -> () loc("a.py":x:1)\n'),
    ("2:1", '"t.op"() ({\n'),
    ("3:1", '"t.op"() ({\n"t.op"() : () -> ()\n'),
    ("2:4", '"t.op"() ({\n}, ) : () -> ()\n'),
    ("3:11", body('"cf.br"()[^nowhere] : () -> ()')),
    ("6:1", body('"cf.br"()[^a] : () -> ()\n^a:\n"cf.br"()[^a] : () -> ()\n^a:' + END)),
    ("3:11", body('"cf.br"()[a] : () -> ()\n^a:' + END)),
    ("5:7", '"t.op"() ({\n^bb0(%x: f32):\n"t.a"() : () -> ()\n}) : () -> ()\n"t.b"(%x) : (f32) -> ()\n'),
    ("2:9", '"t.op"() ({\n^bb0(%x f32):\n}) : () -> ()\n'),
    ("2:6", '"t.op"() ({\n^bb0(x: f32):\n}) : () -> ()\n'),
    ("3:1", '"t.op"() ({\n^bb0(%x: f32)\n}) : () -> ()\n'),
    ("1:10", '"t.op"()[^a] : () -> ()\n'),
]
"""(line:column, text): refused when it is read."""

RULES: list[tuple[str, str]] = [
    ("3:1", body('%0 = "arith.addf"(%x) : (f32) -> f32' + END)),
    ("3:1", body('%0 = "arith.addf"(%x, %c) : (f32, i1) -> f32' + END)),
    ("3:1", body('%0 = "arith.addf"(%x, %x) : (f32, f32) -> f64' + END)),
    ("3:1", body('%0 = "arith.addf"(%c, %c) : (i1, i1) -> i1' + END)),
    ("3:1", body('%0 = "arith.addi"(%x, %x) : (f32, f32) -> f32' + END)),
    ("3:1", body('%0 = "arith.cmpf"(%x, %x) : (f32, f32) -> i1' + END)),
    ("3:1", body('%0 = "arith.cmpf"(%x, %x) {predicate = 1} : (f32, f32) -> f32' + END)),
    ("3:1", body('%0 = "arith.select"(%x, %x, %x) : (f32, f32, f32) -> f32' + END)),
    ("3:1", body('%0 = "arith.constant"() : () -> f32' + END)),
    ("3:1", body('%0 = "arith.constant"() {value = 1 : i32} : () -> f32' + END)),
    ("3:1", body('%0 = "math.exp"(%c) : (i1) -> i1' + END)),
    ("3:1", body('%0 = "arith.nothing"(%x) : (f32) -> f32' + END)),
    ("3:1", body('%0 = "arith.negf"(%1) : (f32) -> f32\n%1 = "arith.negf"(%x) : (f32) -> f32' + END)),
    ("3:1", body('"func.return"(%x) : (f32) -> ()')),
    ("3:1", body('%0 = "arith.negf"(%x) : (f32) -> f32')),
    ("3:1", body('"func.return"() : () -> ()\n%0 = "arith.negf"(%x) : (f32) -> f32' + END)),
    ("3:1", body('"cf.cond_br"(%x)[^a, ^a] {operandSegmentSizes = array<i32: 1, 0, 0>} : (f32) -> ()\n^a:' + END)),
    ("3:1", body('"cf.br"()[^a] : () -> ()\n^a(%y: f32):' + END)),
    ("3:1", body('"func.call"(%x) {callee = @nothing} : (f32) -> ()' + END)),
    ("3:1", body('%0 = "memref.load"(%x) : (f32) -> f32' + END)),
    ("3:1", body('%0 = "vector.broadcast"(%c) : (i1) -> vector<8xf32>' + END)),
    ("3:1", body('%0 = "tensor.concat"() {dim = 0} : () -> tensor<4xf32>' + END)),
    ("1:1", '"func.func"() ({\n}) {sym_name = "f"} : () -> ()\n'),
    ("1:1", '"func.func"() ({\n^bb0(%x: f32):' + END + '\n}) {function_type = (i1) -> (), sym_name = "f"} : () -> ()\n'),
    ("3:1", '"func.func"() ({\n}) {function_type = () -> (), sym_name = "f", sym_visibility = "private"} : () -> ()\n'
            '"func.func"() ({\n}) {function_type = () -> (), sym_name = "f", sym_visibility = "private"} : () -> ()\n'),
]  # fmt: skip
"""(line:column of the operation, text): read, and refused by the verifier."""
