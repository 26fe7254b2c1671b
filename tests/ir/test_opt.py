"""Passes on text."""

from __future__ import annotations

import pytest

from lamina.errors import UserError
from lamina.ir.core import Operation
from lamina.ir.opt import opt
from lamina.ir.passes import Context, Pass
from lamina.ir.text import ParseError
from lamina.ir.verify import VerificationError

TEXT = """"func.func"() ({
^bb0(%x: tensor<4xf32>):
  %e = "math.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  "func.return"(%e) : (tensor<4xf32>) -> ()
}) {function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "f"} : () -> ()
"""


def rename(module: Operation, context: Context, to: str = "math.log") -> None:
    for operation in module.walk():
        if operation.name.startswith("math."):
            operation.name = to


REGISTRY = {"rename": Pass("rename", rename, accepts={"to": "math.log"})}


def test_passes_run_on_text() -> None:
    result = opt(TEXT, "rename{to=math.sin}", REGISTRY)
    assert '"math.sin"(%arg0)' in result and result.startswith('"builtin.module"')
    assert opt(result, "", REGISTRY) == result


def test_faults_name_the_line_of_the_text() -> None:
    with pytest.raises(ParseError, match=r"x\.mlir:3:11: error: expected '\('"):
        opt(TEXT.replace('"math.exp"(', '"a"['), "", REGISTRY, filename="x.mlir")
    with pytest.raises(VerificationError, match=r"x\.mlir:3:3"):
        opt(TEXT.replace("math.exp", "math.what"), "", REGISTRY, filename="x.mlir")
    with pytest.raises(VerificationError, match=r"after 'rename': unknown operation math\.what"):
        opt(TEXT, "rename{to=math.what}", REGISTRY)
    with pytest.raises(VerificationError, match=r"not legal at level loops"):
        opt(TEXT, "", REGISTRY, level="loops")
    with pytest.raises(UserError, match="unknown pass 'renam'"):
        opt(TEXT, "renam", REGISTRY)
