"""At least one example of every operation that we share with MLIR, as functions in the generic form."""

from __future__ import annotations

from lamina.ir.ops import RECORDS
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.record import ELEMENTWISE

SHARED = frozenset(
    {"builtin", "func", "cf", "arith", "math", "tensor", "linalg", "memref", "scf", "vector", "llvm"}
)
"""Dialects that MLIR has."""


def function(body: str, arguments: str = "", results: str = "", returned: str = "") -> str:
    """`arguments` as `%x: f32; %y: i1`, `results` as types, `returned` as values."""
    pairs = [part.strip().split(": ", 1) for part in arguments.split(";") if part.strip()]
    inputs = ", ".join(type_ for _, type_ in pairs)
    label = f"^bb0({', '.join(f'{name}: {type_}' for name, type_ in pairs)}):\n" if pairs else ""
    end = f'"func.return"({returned}) : ({results}) -> ()'
    attributes = f'function_type = ({inputs}) -> ({results}), sym_name = "f"'
    return f'"func.func"() ({{\n{label}{body}\n{end}\n}}) {{{attributes}}} : () -> ()\n'


def elementwise(name: str) -> list[str]:
    """An elementwise operation on scalars, vectors and tensors."""
    return [_elementwise(name, wrap) for wrap in ("{}", "vector<8x{}>", "tensor<4x?x{}>")]


CASTS = {
    "extf": ("f16", "f32"), "truncf": ("f32", "bf16"), "extsi": ("i8", "i32"), "extui": ("i1", "i32"),
    "trunci": ("i64", "i1"), "sitofp": ("i64", "f32"), "uitofp": ("i1", "f32"), "fptosi": ("f32", "i64"),
    "fptoui": ("f32", "i8"), "bitcast": ("f32", "i32"), "index_cast": ("index", "i64"),
}  # fmt: skip


def _elementwise(name: str, wrap: str) -> str:
    found = RECORDS[name]
    short = name.split(".", 1)[1]
    is_integer = (
        (name.startswith("arith.") and short[-1] in "i")
        or short in ("absi", "cmpi")
        or short[-2:] in ("si", "ui")
    )
    source = "i32" if is_integer and short != "cmpf" else "f32"
    target = "i1" if short in ("cmpf", "cmpi", "isnan", "isinf", "isfinite") else source
    if short in CASTS:
        source, target = CASTS[short]
    types = [source] * (found.operands or 1)
    attributes = ""
    if short == "select":
        types = ["i1", "f32", "f32"]
        target = "f32"
    if short in ("cmpf", "cmpi"):
        attributes = f" {{predicate = {len(CMPF if short == 'cmpf' else CMPI) - 1}}}"
    spelled = [wrap.format(type_) for type_ in types]
    values = [f"%a{k}" for k in range(len(types))]
    arguments = "; ".join(f"{value}: {type_}" for value, type_ in zip(values, spelled, strict=True))
    result = wrap.format(target)
    body = f'%r = "{name}"({", ".join(values)}){attributes} : ({", ".join(spelled)}) -> {result}'
    return function(body, arguments, result, "%r")


CONSTANTS = [
    ("f32", "1.5 : f32"), ("f32", "0x7FC00000 : f32"), ("f32", "0xFF800000 : f32"), ("bf16", "0x7FC0 : bf16"),
    ("f64", "1.0e-300"), ("f16", "6.104e-05 : f16"), ("i1", "true"), ("i8", "-128 : i8"), ("i64", "-1"),
    ("index", "7 : index"), ("tensor<4xf32>", "dense<0.1> : tensor<4xf32>"),
    ("tensor<0x2xf32>", "dense<> : tensor<0x2xf32>"), ("tensor<0xf32>", "dense<1.0> : tensor<0xf32>"),
    ("tensor<2x2xi64>", "dense<[[1, -2], [3, 4]]> : tensor<2x2xi64>"),
    ("tensor<2xi1>", "dense<[true, false]> : tensor<2xi1>"), ("tensor<bf16>", "dense<1.0> : tensor<bf16>"),
    ("vector<2xf32>", "dense<[1.0, 0x7F800000]> : vector<2xf32>"),
    ("tensor<2xf32>", 'dense<"0x0000803F00000040"> : tensor<2xf32>'),
    ("tensor<2xcomplex<f32>>", "dense<[(1.0, 2.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>"),
    ("tensor<2xi8>", "dense<[-1, 127]> : tensor<2xi8>"),
]  # fmt: skip

STRIDED = "memref<4x8xf32, strided<[8, 1], offset: 2>>"
STATIC = "operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 0>, "
STATIC_2D = STATIC + "static_sizes = array<i64: 2, 4>, static_strides = array<i64: 1, 2>"
VECTOR = "vector<8xf32>"
MASK = "vector<8xi1>"
PARALLEL, REDUCTION = "#linalg.iterator_type<parallel>", "#linalg.iterator_type<reduction>"
GENERIC = (
    "indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], "
    f"iterator_types = [{PARALLEL}, {REDUCTION}], operandSegmentSizes = array<i32: 1, 1>"
)

TENSOR = [
    function('%0 = "tensor.empty"() : () -> tensor<4xf32>'),
    function(f'%0 = "tensor.extract_slice"(%x) {{{STATIC_2D}}} : (tensor<4x8xf32>) -> tensor<2x4xf32>', "%x: tensor<4x8xf32>"),
    function('%0 = "tensor.concat"(%x, %x) {dim = 1} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>',
             "%x: tensor<4x8xf32>"),
    function('%0 = "tensor.collapse_shape"(%x) {reassociation = [[0, 1]]} : (tensor<4x8xf32>) -> tensor<32xf32>',
             "%x: tensor<4x8xf32>"),
    function('%0 = "tensor.collapse_shape"(%x) {reassociation = []} : (tensor<1x1xf32>) -> tensor<f32>',
             "%x: tensor<1x1xf32>"),
    function('%0 = "tensor.expand_shape"(%x) {reassociation = [[0, 1], [2]], static_output_shape = array<i64: 2, 2, 8>} '
             ": (tensor<4x8xf32>) -> tensor<2x2x8xf32>", "%x: tensor<4x8xf32>"),
]  # fmt: skip
MEMREF = [
    function(
        '%0 = "memref.extract_aligned_pointer_as_index"(%x) : (memref<4xf32>) -> index', "%x: memref<4xf32>"
    ),
    function('%0 = "memref.alloc"() {alignment = 64, operandSegmentSizes = array<i32: 0, 0>} : () -> memref<4x8xf32>'),
    function('%0 = "memref.alloca"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<4xf32>'),
    function(f'%0 = "memref.load"(%x, %i, %i) {{nontemporal = true}} : ({STRIDED}, index, index) -> f32\n'
             f'"memref.store"(%0, %x, %i, %i) : (f32, {STRIDED}, index, index) -> ()', f"%x: {STRIDED}; %i: index"),
    function('%0 = "memref.reinterpret_cast"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = '
             "array<i64: 2>, static_sizes = array<i64: 4, 8>, static_strides = array<i64: 8, 1>} "
             f": (memref<64xf32>) -> {STRIDED}", "%x: memref<64xf32>"),
    function(f'%0 = "memref.subview"(%x) {{{STATIC_2D}}} : (memref<4x8xf32>) -> memref<2x4xf32, strided<[8, 2]>>',
             "%x: memref<4x8xf32>"),
    function("", 'memref<?x4xf32>; %y: memref<?xf32, strided<[?], offset: ?>>'.replace("memref<?x4", "%x: memref<?x4")),
]  # fmt: skip
LINALG = [
    function(
        f'"linalg.generic"(%x, %y) ({{\n^bb0(%a: f32, %b: f32):\n%i = "linalg.index"() {{dim = 1}} : () -> index\n'
        f'%0 = "arith.addf"(%a, %b) : (f32, f32) -> f32\n"linalg.yield"(%0) : (f32) -> ()\n}}) {{{GENERIC}}} '
        ": (memref<4x8xf32>, memref<4xf32>) -> ()", "%x: memref<4x8xf32>; %y: memref<4xf32>"),
]  # fmt: skip
SCF = [
    function(
        '%s = "scf.for"(%l, %u, %t, %x) ({\n^bb0(%i: index, %a: f32):\n%0 = "arith.addf"(%a, %x) : (f32, f32) -> f32\n'
        '"scf.yield"(%0) : (f32) -> ()\n}) : (index, index, index, f32) -> f32',
        "%l: index; %u: index; %t: index; %x: f32", "f32", "%s"),
    function(
        '"scf.parallel"(%l, %u, %t) ({\n^bb0(%i: index):\n"scf.reduce"() : () -> ()\n}) '
        "{operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (index, index, index) -> ()",
        "%l: index; %u: index; %t: index"),
    function('"scf.if"(%c) ({\n"scf.yield"() : () -> ()\n}, {\n}) : (i1) -> ()', "%c: i1"),
    function(
        '%r = "scf.if"(%c) ({\n"scf.yield"(%x) : (f32) -> ()\n}, {\n"scf.yield"(%x) : (f32) -> ()\n}) : (i1) -> f32',
        "%c: i1; %x: f32", "f32", "%r"),
]  # fmt: skip
CF = [
    function(
        '"cf.cond_br"(%c, %x)[^a, ^b] {operandSegmentSizes = array<i32: 1, 1, 0>} : (i1, f32) -> ()\n^a(%y: f32):\n'
        '"cf.br"(%y)[^c] : (f32) -> ()\n^b:\n"cf.br"(%x)[^c] : (f32) -> ()\n^c(%z: f32):',
        "%c: i1; %x: f32", "f32", "%z"),
]  # fmt: skip


def vector_function(body: str) -> str:
    arguments = (
        f"%m: memref<64xf32>; %i: index; %v: {VECTOR}; %k: {MASK}; %g: vector<8xi32>; %s: f32; %b: i1; "
        "%n: memref<4x64xf32>"
    )
    return function(body, arguments)


VECTORS = [
    vector_function(f'%0 = "vector.load"(%m, %i) : (memref<64xf32>, index) -> {VECTOR}'),
    vector_function(f'%0 = "vector.load"(%n, %i, %i) {{nontemporal = true}} : (memref<4x64xf32>, index, index) -> {VECTOR}'),
    vector_function(f'"vector.store"(%v, %m, %i) : ({VECTOR}, memref<64xf32>, index) -> ()'),
    vector_function(f'%0 = "vector.maskedload"(%m, %i, %k, %v) : (memref<64xf32>, index, {MASK}, {VECTOR}) -> {VECTOR}'),
    vector_function(f'"vector.maskedstore"(%m, %i, %k, %v) : (memref<64xf32>, index, {MASK}, {VECTOR}) -> ()'),
    vector_function(f'%0 = "vector.gather"(%m, %i, %g, %k, %v) '
                    f": (memref<64xf32>, index, vector<8xi32>, {MASK}, {VECTOR}) -> {VECTOR}"),
    vector_function(f'"vector.scatter"(%m, %i, %g, %k, %v) : (memref<64xf32>, index, vector<8xi32>, {MASK}, {VECTOR}) -> ()'),
    vector_function(f'%0 = "vector.broadcast"(%s) : (f32) -> {VECTOR}'),
    vector_function(f'%0 = "vector.create_mask"(%i) : (index) -> {MASK}'),
    vector_function('%0 = "vector.step"() : () -> vector<8xindex>'),
    vector_function(f'%0 = "vector.reduction"(%v) {{kind = #vector.kind<add>}} : ({VECTOR}) -> f32'),
    vector_function(f'%0 = "vector.reduction"(%v, %s) {{kind = #vector.kind<maximumf>}} : ({VECTOR}, f32) -> f32'),
    vector_function(f'%0 = "vector.extract"(%v) {{static_position = array<i64: 3>}} : ({VECTOR}) -> f32'),
    vector_function(f'%0 = "vector.insert"(%s, %v) {{static_position = array<i64: 3>}} : (f32, {VECTOR}) -> {VECTOR}'),
    vector_function(f'%0 = "vector.shuffle"(%v, %v) {{mask = array<i64: 0, 9, 2>}} : ({VECTOR}, {VECTOR}) -> vector<3xf32>'),
]  # fmt: skip
FUNCTIONS = [
    '"builtin.module"() ({\n^bb0:\n}) : () -> ()\n',
    '"builtin.module"() ({\n^bb0:\n}) {sym_name = "m"} : () -> ()\n',
    '"func.func"() ({\n}) {function_type = (f32) -> f32, sym_name = "f", sym_visibility = "private"} : () -> ()\n'
    + function('%0 = "func.call"(%x) {callee = @f} : (f32) -> f32', "%x: f32").replace('"f"', '"g"'),
    '"func.func"() ({\n}) {function_type = () -> (), sym_name = "a b", sym_visibility = "private"} : () -> ()\n'
    + function('"func.call"() {callee = @"a b"} : () -> ()'),
    function('%0 = "builtin.unrealized_conversion_cast"(%x) : (f32) -> i32', "%x: f32"),
]  # fmt: skip


def samples() -> list[str]:
    constants = [
        function(f'%0 = "arith.constant"() {{value = {value}}} : () -> {type_}') for type_, value in CONSTANTS
    ]
    simple = [
        each for name, found in RECORDS.items() if ELEMENTWISE in found.traits for each in elementwise(name)
    ]
    return [*FUNCTIONS, *constants, *simple, *TENSOR, *MEMREF, *LINALG, *SCF, *CF, *VECTORS]
