"""The rewrite driver, and equations that are their own tests."""

from __future__ import annotations

import math

import pytest

from lamina.errors import CompilerBug
from lamina.ir.core import Operation
from lamina.ir.remarks import Remarks
from lamina.ir.rewrite import ANY, Pattern, Rewriter, rewrite
from lamina.ir.rules import Rule, constant_number, counterexamples
from lamina.ir.text import ParseError, parse, print_module
from lamina.ir.types import ScalarType, bf16, f16, f32, f64, i1, i8, i32, i64
from lamina.ir.verify import verify


def is_power_of_two(c: float) -> bool:
    return math.isfinite(c) and c != 0 and abs(math.frexp(c)[0]) == 0.5 and 2.0**-100 < abs(c) < 2.0**100


EXACT_FLOAT = [
    Rule("(arith.addf ?x (constant -0.0)) => ?x"),
    Rule("(arith.subf ?x (constant 0.0)) => ?x"),
    Rule("(arith.mulf ?x (constant 1.0)) => ?x"),
    Rule("(arith.mulf ?x (constant -1.0)) => (arith.negf ?x)"),
    Rule("(arith.mulf ?x (constant 2.0)) => (arith.addf ?x ?x)"),
    Rule("(arith.negf (arith.negf ?x)) => ?x"),
    Rule("(arith.subf ?x (arith.negf ?y)) => (arith.addf ?x ?y)"),
    Rule("(arith.addf (arith.negf ?x) ?y) => (arith.subf ?y ?x)"),
    Rule("(math.absf (arith.negf ?x)) => (math.absf ?x)"),
    Rule("(arith.maximumf ?x ?x) => ?x"),
    Rule("(arith.cmpf {predicate = 14} ?x ?x) => (math.isnan ?x)"),
    Rule("(arith.select ?c ?x ?x) => ?x"),
    Rule("(arith.select (arith.cmpf {predicate = 14} ?x ?x) ?x ?x) => ?x"),
]  # fmt: skip
EXACT_INTEGER = [
    Rule("(arith.addi ?x (constant 0)) => ?x"),
    Rule("(arith.muli ?x (constant 0)) => (constant 0)"),
    Rule("(arith.subi ?x ?x) => (constant 0)"),
    Rule("(arith.addi (arith.addi ?x (constant ?a)) (constant ?b)) => (arith.addi ?x (constant ?s))",
         compute={"s": lambda a, b: a + b}),
    Rule("(arith.muli ?x (arith.addi ?y ?z)) => (arith.addi (arith.muli ?x ?y) (arith.muli ?x ?z))"),
    Rule("(arith.xori ?x ?x) => (constant 0)"),
]  # fmt: skip
RECIPROCAL = Rule("(arith.divf ?x (constant ?c)) => (arith.mulf ?x (constant ?r))", where=is_power_of_two,
                  compute={"r": lambda c: 1 / c})  # fmt: skip
FALSE = [
    ("(arith.addf ?x (constant 0.0)) => ?x", "{'x': -0.0}: 0.0 is not -0.0"),
    ("(arith.mulf ?x (constant 0.0)) => (constant 0.0)", "nan is not 0.0"),
    ("(arith.subf ?x ?x) => (constant 0.0)", "nan is not 0.0"),
    ("(arith.divf ?x ?x) => (constant 1.0)", "nan is not 1.0"),
    ("(arith.subf ?x ?y) => (arith.addf (arith.negf ?y) (arith.negf ?x))", "is not"),
    ("(arith.maxnumf ?x ?y) => (arith.maximumf ?x ?y)", "is not nan"),
    ("(math.sqrt (arith.mulf ?x ?x)) => (math.absf ?x)", "0.0 is not 1.0005"),
    ("(arith.addf (arith.addf ?x ?y) ?z) => (arith.addf ?x (arith.addf ?y ?z))", "is not"),
]


@pytest.mark.parametrize("type_", [f64, f32, bf16, f16], ids=str)
@pytest.mark.parametrize("rule", [*EXACT_FLOAT, RECIPROCAL], ids=lambda rule: rule.text)
def test_float_equations_hold(rule: Rule, type_: ScalarType) -> None:
    assert counterexamples(rule, type_, numbers=[2.0, 4.0, -0.25]) == []


@pytest.mark.parametrize("type_", [i8, i32, i64], ids=str)
@pytest.mark.parametrize("rule", EXACT_INTEGER, ids=lambda rule: rule.text)
def test_integer_equations_hold(rule: Rule, type_: ScalarType) -> None:
    assert counterexamples(rule, type_) == []


def test_boolean_equations_hold() -> None:
    rules = [
        "(arith.andi ?x (constant true)) => ?x",
        "(arith.xori ?x (constant true)) => (arith.cmpi {predicate = 0} ?x (constant false))",
        "(arith.ori ?x ?x) => ?x",
    ]
    assert [counterexamples(Rule(text), i1) for text in rules] == [[], [], []]


@pytest.mark.parametrize(("text", "message"), FALSE)
def test_false_equations_are_found_out(text: str, message: str) -> None:
    assert any(message in line for line in counterexamples(Rule(text), f32))


def test_inexact_equations_hold_nearly() -> None:
    associative = "(arith.addf (arith.addf ?x ?y) ?z) => (arith.addf ?x (arith.addf ?y ?z))"
    assert counterexamples(Rule(associative, exact=False), f64) == []
    assert counterexamples(Rule("(arith.divf ?x ?y) => (arith.mulf ?x ?y)", exact=False), f32)


ERRORS = [
    ("?x => ?x", "1:1", "must be an operation"),
    ("(arith.addf ?x ?y)", "1:19", "expected '=>'"),
    ("(arith.addf ?x ?y) => ?z", "1:20", "'?z' is not on the left side"),
    ("(arith.what ?x) => ?x", "1:13", "unknown operation 'arith.what'"),
    ("(arith.addf ?x (constant x)) => ?x", "1:26", "expected a number"),
    ("(arith.negf ?x => ?x", "1:16", "expected '('"),
]


@pytest.mark.parametrize(("text", "place", "message"), ERRORS)
def test_bad_rules_say_where(text: str, place: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        Rule(text)
    assert f"<rule>:{place}: error:" in str(caught.value) and message in str(caught.value)


def function(body: str, type_: str = "tensor<4xf32>") -> Operation:
    body = body.replace("T", type_)
    return parse(
        f'"func.func"() ({{\n^bb0(%x: {type_}, %y: {type_}):\n{body}\n"func.return"(%r) : ({type_}) -> ()\n}}) '
        f'{{function_type = ({type_}, {type_}) -> {type_}, sym_name = "f"}} : () -> ()'
    )


def names(operation: Operation) -> list[str]:
    return [each.name for each in operation.body]


PATTERNS = [rule.pattern() for rule in EXACT_FLOAT]


@pytest.mark.parametrize("type_", ["tensor<4xf32>", "vector<4xf32>", "f32", "bf16", "tensor<2x2xf16>"])
def test_rules_apply_to_scalars_vectors_and_tensors(type_: str) -> None:
    value = "1.0 : T" if "<" not in type_ else "dense<1.0> : T"
    module = function(
        f'%one = "arith.constant"() {{value = {value}}} : () -> T\n'
        '%a = "arith.mulf"(%one, %x) : (T, T) -> T\n%b = "arith.negf"(%a) : (T) -> T\n'
        '%r = "arith.negf"(%b) : (T) -> T', type_,
    )  # fmt: skip
    statistics = rewrite(module, PATTERNS)
    verify(module)
    assert names(module) == ["func.return"] and module.body.terminator.operand() is module.body.arguments[0]
    assert statistics.total == 2


def test_rules_build_operations_with_their_own_types_and_location() -> None:
    text = '%c = "arith.cmpf"(%x, %x) {predicate = 14} : (T, T) -> tensor<4xi1> loc("m.py":7:0)\n'
    module = function(text + '%r = "arith.select"(%c, %x, %y) : (tensor<4xi1>, T, T) -> T')
    rewrite(module, PATTERNS)
    verify(module)
    first = module.body.first
    assert first is not None and first.name == "math.isnan" and first.location.line == 7
    assert str(first.result.type) == "tensor<4xi1>"


def test_numbers_are_bound_and_computed() -> None:
    text = (
        '%c = "arith.constant"() {value = dense<4.0> : T} : () -> T\n%r = "arith.divf"(%x, %c) : (T, T) -> T'
    )
    module = function(text)
    rewrite(module, [RECIPROCAL.pattern()])
    product = module.body.terminator.operand().defining_op
    assert product is not None and product.name == "arith.mulf"
    assert constant_number(product.operand(1)) == 0.25
    unchanged = function(text.replace("4.0", "3.0"))
    assert rewrite(unchanged, [RECIPROCAL.pattern()]).total == 0


def test_the_same_variable_is_the_same_value() -> None:
    module = function('%r = "arith.maximumf"(%x, %y) : (T, T) -> T')
    assert rewrite(module, PATTERNS).total == 0


def test_a_nan_is_a_number_like_others() -> None:
    rule = Rule("(arith.addf ?x (constant nan)) => (constant nan)")
    text = '%c = "arith.constant"() {value = dense<0x7FC00000> : T} : () -> T\n%r = "arith.addf"(%x, %c) : (T, T) -> T'
    module = function(text)
    assert counterexamples(rule, f32) == [] and rewrite(module, [rule.pattern()]).total == 1


def test_unused_operations_go_and_their_makers_too() -> None:
    module = function(
        '%a = "math.exp"(%x) : (T) -> T\n%b = "math.exp"(%a) : (T) -> T\n%c = "aten.rand.default"() '
        '{args = [], effects = "random"} : () -> T\n%r = "arith.negf"(%x) : (T) -> T'
    )
    rewrite(module, [])
    assert names(module) == ["aten.rand.default", "arith.negf", "func.return"]


def test_listeners_and_remarks_hear_of_everything() -> None:
    module = function('%a = "arith.negf"(%x) : (T) -> T\n%r = "arith.subf"(%y, %a) : (T, T) -> T')
    heard: list[tuple[str, str]] = []
    remarks = Remarks()
    rewrite(module, PATTERNS, listener=lambda what, op: heard.append((what, op.name)), remarks=remarks)
    assert heard == [("inserted", "arith.addf"), ("replaced", "arith.subf"), ("erased", "arith.negf")]
    assert [remark.text for remark in remarks.query("rewrite", "applied")] == [EXACT_FLOAT[6].text]


def test_patterns_in_code_and_order_by_benefit() -> None:
    def to(name: str) -> Pattern:
        def apply(operation: Operation, rewriter: Rewriter) -> bool:
            value = rewriter.value(name, operation.operands, operation.result.type)
            rewriter.replace(operation, [value])
            return True

        return Pattern(f"to {name}", "math.exp", apply, 2 if name == "math.log" else 1)

    module = function('%r = "math.exp"(%x) : (T) -> T')
    statistics = rewrite(module, [to("math.sin"), to("math.log")])
    assert names(module) == ["math.log", "func.return"] and statistics.applied == {"to math.log": 1}


def test_changes_in_place_are_looked_at_again() -> None:
    def apply(operation: Operation, rewriter: Rewriter) -> bool:
        if operation.name not in ("math.exp", "math.exp2"):
            return False
        following = {"math.exp": "math.exp2", "math.exp2": "math.exp3"}[operation.name]
        rewriter.change(operation, lambda: setattr(operation, "name", following))
        return True

    module = function('%r = "math.exp"(%x) : (T) -> T')
    assert rewrite(module, [Pattern("rename", ANY, apply)]).total == 2
    assert "math.exp3" in print_module(module)


def test_rewriting_that_does_not_end_is_stopped() -> None:
    there = Rule("(arith.addf ?x ?y) => (arith.subf ?x (arith.negf ?y))").pattern()
    back = EXACT_FLOAT[6].pattern()
    module = function('%r = "arith.addf"(%x, %y) : (T, T) -> T')
    with pytest.raises(CompilerBug, match="did not end after 50 steps"):
        rewrite(module, [there, back], limit=50)
