"""The rewrite driver: what is looked at, in which order, what is heard of it, and that it ends."""

from __future__ import annotations

import pytest

from lamina.errors import CompilerBug
from lamina.ir.core import Operation
from lamina.ir.remarks import Remarks
from lamina.ir.rewrite import ANY, Pattern, Rewriter, rewrite
from lamina.ir.text import parse, print_module
from lamina.ir.verify import verify
from lamina.passes.tensor.equations import Equation, apply, compile_equation


def pattern(before: str, after: str) -> Pattern:
    """One equation between floats, alone."""
    compiled = compile_equation(Equation(before, after, "float"))

    def run(operation: Operation, rewriter: Rewriter) -> bool:
        return rewriter.replace_by(operation, lambda operation, _: apply(compiled, operation))

    return Pattern(str(compiled.equation), compiled.before.name, run)


NEGATED = pattern("subf(x, negf(y))", "addf(x, y)")
PATTERNS = [
    pattern("mulf(x, 1.0)", "x"),
    pattern("negf(negf(x))", "x"),
    NEGATED,
    pattern("maximumf(x, x)", "x"),
    pattern("cmpf_uno(x, x)", "isnan(x)"),
]


def function(body: str, type_: str = "tensor<4xf32>") -> Operation:
    body = body.replace("T", type_)
    return parse(
        f'"func.func"() ({{\n^bb0(%x: {type_}, %y: {type_}):\n{body}\n"func.return"(%r) : ({type_}) -> ()\n}}) '
        f'{{function_type = ({type_}, {type_}) -> {type_}, sym_name = "f"}} : () -> ()'
    )


def names(operation: Operation) -> list[str]:
    return [each.name for each in operation.body]


def test_values_that_replace_others_are_looked_at_again() -> None:
    module = function(
        '%one = "arith.constant"() {value = dense<1.0> : T} : () -> T\n'
        '%a = "arith.mulf"(%one, %x) : (T, T) -> T\n%b = "arith.negf"(%a) : (T) -> T\n'
        '%r = "arith.negf"(%b) : (T) -> T'
    )
    statistics = rewrite(module, PATTERNS)
    verify(module)
    assert names(module) == ["func.return"] and module.body.terminator.operand() is module.body.arguments[0]
    assert statistics.total == 2


def test_new_operations_have_their_own_types_and_the_old_location() -> None:
    text = '%c = "arith.cmpf"(%x, %x) {predicate = 14} : (T, T) -> tensor<4xi1> loc("m.py":7:0)\n'
    module = function(text + '%r = "arith.select"(%c, %x, %y) : (tensor<4xi1>, T, T) -> T')
    rewrite(module, PATTERNS)
    verify(module)
    first = module.body.first
    assert first is not None and first.name == "math.isnan" and first.location.line == 7
    assert str(first.result.type) == "tensor<4xi1>"


def test_the_same_variable_is_the_same_value() -> None:
    module = function('%r = "arith.maximumf"(%x, %y) : (T, T) -> T')
    assert rewrite(module, PATTERNS).total == 0


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
    assert [remark.text for remark in remarks.query("rewrite", "applied")] == [NEGATED.name]


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
    there, back = pattern("addf(x, y)", "subf(x, negf(y))"), NEGATED
    module = function('%r = "arith.addf"(%x, %y) : (T, T) -> T')
    with pytest.raises(CompilerBug, match="did not end after 50 steps"):
        rewrite(module, [there, back], limit=50)
