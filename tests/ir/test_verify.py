"""The verifier finds each kind of fault, says where, and finds nothing in good programs."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from lamina.ir.core import Block, Builder, Location, Operation, Region
from lamina.ir.text import parse
from lamina.ir.types import FunctionType, TensorType, f32, i1
from lamina.ir.verify import VerificationError, find_problems, verify

T = "tensor<4xf32>"
GOOD = f""""builtin.module"() ({{
  "func.func"() ({{
  ^bb0(%x: {T}, %y: {T}):
    %0 = "arith.addf"(%x, %y) : ({T}, {T}) -> {T}
    %1 = "lamina.reduce"(%0) {{dims = [0], kind = "add"}} : ({T}) -> tensor<f32>
    %2 = "aten.mm.default"(%x, %y) {{args = [unit, [unit, none], 1.5]}} : ({T}, {T}) -> {T}
    "func.return"(%2) : ({T}) -> ()
  }}) {{function_type = ({T}, {T}) -> {T}, sym_name = "main"}} : () -> ()
}}) : () -> ()"""

FAULTS = [
    ("arith.addf", "arith.addx", "unknown operation arith.addx"),
    (f'"arith.addf"(%x, %y) : ({T}, {T})', f'"arith.addf"(%x) : ({T})', "arith.addf has 2 operands, got 1"),
    (f'"arith.addf"(%x, %y) : ({T}, {T}) -> {T}', f'"arith.cmpf"(%x, %y) : ({T}, {T}) -> {T}', "'predicate'"),
    ('dims = [0], kind = "add"', 'dims = [0]', "lamina.reduce needs attribute 'kind'"),
    ('kind = "add"', 'kind = "median"', "kind must be one of add, mul"),
    ("dims = [0]", "dims = [1]", "dims [1] must be increasing dimensions"),
    ("-> tensor<f32>", "-> tensor<1xf32>", "result types must be (tensor<f32>), got (tensor<1xf32>)"),
    ("[unit, none]", "[none]", "args and kwargs have 1 places for 2 operands"),
    (f"function_type = ({T}, {T}) -> {T}", f"function_type = ({T}) -> {T}", "differ from the function type"),
    (f"-> {T}, sym_name", "-> tensor<5xf32>, sym_name", "the function type says"),
    ('    "func.return"(%2) : (tensor<4xf32>) -> ()\n', "", "a terminator is missing after it"),
    ('"arith.addf"(%x, %y)', '"arith.addf"(%x, %2)', "is not defined on every path to here"),
    ('"arith.addf"(%x, %y)', '"arith.addf"(%0, %y)', "is not defined on every path to here"),
    ("    %0 =", f'    "func.return"(%x) : ({T}) -> ()\n    %0 =', "func.return must be the last operation"),
    ("  }) {function_type", "  ^bb1:\n  }) {function_type", "a block without a terminator"),
]  # fmt: skip


def test_a_good_program_has_no_problems() -> None:
    verify(parse(GOOD), "tensor")


@pytest.mark.parametrize(("old", "new", "message"), FAULTS)
def test_fault_is_found(old: str, new: str, message: str) -> None:
    assert old in GOOD
    problems = find_problems(parse(GOOD.replace(old, new, 1)))
    assert problems and message in problems[0].message


def test_all_problems_are_listed_under_their_operations(tmp_path: Path) -> None:
    source = tmp_path / "model.py"
    source.write_text("def f(x):\n    return x.relu()\n")
    linecache.checkcache(str(source))
    bad = GOOD.replace('kind = "add"', 'kind = "median"').replace("[unit, none]", "[none]")
    bad = bad.replace("-> tensor<f32>", f'-> tensor<f32> loc("{source}":2:5)')
    with pytest.raises(VerificationError) as caught:
        verify(parse(bad), stage="fuse")
    shown = str(caught.value)
    assert "not well formed after 'fuse': 2 problems" in shown
    lines = shown.splitlines()
    at = next(number for number, line in enumerate(lines) if '"lamina.reduce"' in line)
    assert lines[at + 1].strip() == "^" * len('"lamina.reduce"')
    assert lines[at + 1].index("^") == lines[at].index('"lamina.reduce"')
    assert f"--> {source}:2:5" in shown and "return x.relu()" in shown


LEVEL_FAULTS = [
    ("tensor", '"t.op"() : () -> ()', "t.op is not legal at level tensor, which has arith"),
    ("tensor", '%0 = "tensor.empty"() : () -> memref<4xf32>', "memref<4xf32> is not legal at level tensor"),
    ("tensor", '"lamina.kernel"() ({\n"lamina.yield"() : () -> ()\n}) : () -> ()', "kernel is not legal"),
    ("linalg", f'%0 = "tensor.empty"() : () -> {T}', "tensor.empty is not legal at level linalg"),
    ("loops", '%0 = "linalg.index"() {dim = 0} : () -> index', "linalg.index is not legal at level loops"),
    ("llvm", '%0 = "arith.constant"() {value = 1 : i32} : () -> i32', "is not legal at level llvm"),
    ("program", '%0 = "arith.constant"() {value = 1 : i32} : () -> i32', "is not legal at level program"),
]  # fmt: skip


@pytest.mark.parametrize(("level", "text", "message"), LEVEL_FAULTS)
def test_level_tables(level: str, text: str, message: str) -> None:
    operation = parse(text)
    assert any(message in problem.message for problem in find_problems(operation, level))
    assert all("not legal" not in problem.message for problem in find_problems(operation))


def function_of(body: str, arguments: str = "%c: i1, %x: f32") -> Operation:
    inputs = ", ".join(part.split(": ")[1] for part in arguments.split(", "))
    attributes = f'function_type = ({inputs}) -> (), sym_name = "f"'
    return parse(f'"func.func"() ({{\n^bb0({arguments}):\n{body}\n}}) {{{attributes}}} : () -> ()')


DIAMOND = """"cf.cond_br"(%c)[^a, ^b] {operandSegmentSizes = array<i32: 1, 0, 0>} : (i1) -> ()
^a:
  %0 = "arith.negf"(%x) : (f32) -> f32
  "cf.br"()[^c] : () -> ()
^b:
  "cf.br"()[^c] : () -> ()
^c:
  %1 = "arith.negf"(USE) : (f32) -> f32
  "func.return"() : () -> ()"""


def test_dominance_over_blocks() -> None:
    verify(function_of(DIAMOND.replace("USE", "%x")))
    problems = find_problems(function_of(DIAMOND.replace("USE", "%0")))
    assert [problem.operation.result.type for problem in problems] == [f32]
    assert "not defined on every path" in problems[0].message


def test_a_use_in_an_unreachable_block_is_fine() -> None:
    body = (
        DIAMOND.replace("USE", "%x")
        + '\n^dead:\n  %2 = "arith.negf"(%0) : (f32) -> f32\n"func.return"() : () -> ()'
    )
    verify(function_of(body))


def test_the_entry_block_is_no_successor() -> None:
    operation = function_of('"cf.br"(%c, %x)[^bb0] : (i1, f32) -> ()')
    assert "entry block" in find_problems(operation)[0].message


def test_nothing_enters_an_isolated_region() -> None:
    value = Operation("arith.constant", (), (f32,), {"value": 1.0})
    inner = Operation("arith.negf", [value.result], (f32,))
    kernel = Operation("lamina.kernel", regions=[Region([Block()])])
    kernel.body.append(inner)
    kernel.body.append(Operation("lamina.yield"))
    module = Operation("builtin.module", regions=[Region([Block()])])
    module.body.append(value)
    module.body.append(kernel)
    messages = [problem.message for problem in find_problems(module)]
    assert any("comes from outside of lamina.kernel, which is isolated" in message for message in messages)


def test_a_broken_use_list_is_found() -> None:
    module = parse(GOOD)
    addition = next(iter(module.body)).body.first
    assert addition is not None
    del addition.operand(0).uses[addition, 0]
    assert "operand 0 does not list this use" in find_problems(module)[0].message


def test_a_use_by_a_detached_operation_is_found() -> None:
    type_ = TensorType.get((4,), f32)
    block = Block([type_])
    function = Operation(
        "func.func",
        attributes={"sym_name": "f", "function_type": FunctionType.get((type_,), ())},
        regions=[Region([block])],
    )
    builder = Builder(block, location=Location("a.py", 1))
    value = builder.value("math.exp", [block.arguments[0]], type_)
    builder.op("func.return")
    Operation("math.exp", [value], (type_,))
    assert "which is in no block" in find_problems(function)[0].message


CALLS = [
    ("@g", "f32", "f32", "@g is not a function of this module"),
    ("@f", "i1", "f32", "@f takes (f32), got (i1)"),
    ("@f", "f32", "i1", "@f gives (f32), not (i1)"),
]


@pytest.mark.parametrize(("callee", "operand", "result", "message"), CALLS)
def test_calls(callee: str, operand: str, result: str, message: str) -> None:
    module = parse(f""""builtin.module"() ({{
      "func.func"() ({{
      }}) {{function_type = (f32) -> f32, sym_name = "f"}} : () -> ()
      "func.func"() ({{
      ^bb0(%x: {operand}):
        %0 = "func.call"(%x) {{callee = {callee}}} : ({operand}) -> {result}
        "func.return"() : () -> ()
      }}) {{function_type = ({operand}) -> (), sym_name = "main"}} : () -> ()
    }}) : () -> ()""")
    assert [problem.message for problem in find_problems(module)] == [message]


def test_symbols_are_unique() -> None:
    function = '"func.func"() ({\n}) {function_type = () -> (), sym_name = "f"} : () -> ()\n'
    assert "redefinition of symbol @f" in find_problems(parse(function * 2))[0].message


def test_scalar_types_are_checked_by_identity() -> None:
    assert not find_problems(Operation("arith.constant", (), (i1,), {"value": True}))
