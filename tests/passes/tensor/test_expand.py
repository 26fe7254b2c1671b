"""expand: operations with an expansion are spelled in others, also where an expansion has further ones."""

from __future__ import annotations

import pytest

from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import RECORDS
from lamina.ir.ops.arith import same_type
from lamina.ir.record import ELEMENTWISE, PURE, OpRecord
from lamina.ir.text import parse_module
from lamina.passes.tensor import expand

TEXT = """
"func.func"() ({
^bb0(%x: tensor<4xf32>):
  %y = "lamina.fourfold"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = "math.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  "func.return"(%z) : (tensor<4xf32>) -> ()
}) {function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"} : () -> ()
"""


def record(name: str, times: str) -> OpRecord:
    def spell(build: Builder, operands: tuple[Value, ...]) -> Value:
        (x,) = operands
        once = build.value(times, (x, x) if times == "arith.addf" else (x,), x.type)
        return build.value(times, (once, once) if times == "arith.addf" else (once,), x.type)

    return OpRecord(name, 1, 1, frozenset({PURE, ELEMENTWISE}), infer=same_type, expand=spell)


def names(module: Operation) -> list[str]:
    return [each.name for each in module.walk() if each.name.split(".")[0] in ("lamina", "arith", "math")]


def test_expansions_of_expansions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECORDS, "lamina.fourfold", record("lamina.fourfold", "lamina.twofold"))
    monkeypatch.setitem(RECORDS, "lamina.twofold", record("lamina.twofold", "arith.addf"))
    module = parse_module(TEXT)
    expand.run(module)
    assert names(module) == ["arith.addf"] * 4 + ["math.exp"]
    before = names(module)
    expand.run(module)
    assert names(module) == before
