"""Text, object code, machine code: what is in them and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from lamina.codegen.llvm.build import build
from lamina.codegen.llvm.compile import assembly, compile_text, features, optimised_text
from lamina.codegen.llvm.emit import emit
from lamina.codegen.llvm.to_llvm import missing_operations, to_llvm
from lamina.errors import CompilerBug, UserError
from lamina.ir.attributes import OpaqueAttr, StringAttr
from lamina.ir.core import Operation, Value
from lamina.ir.text import parse_module, print_module
from lamina.ir.types import f32
from lamina.ir.verify import verify
from lamina.passes.loops.expand_math import expand
from tests.codegen.programs import Body, elementwise, function, instruction_sets, memref, run, vector, widest
from tests.ir.upstream import HAS_MLIR, judge

LANES = {"avx512": 16, "avx2": 8, "neon": 4, "scalar": 0}


def axpy(lanes: int, name: str = "kernel", fast: str = "") -> Operation:
    """y = x * x + y, in a parallel loop."""

    def body(b: Body, x: Value, y: Value) -> None:
        def step(inner: Body, k: Value) -> None:
            form = vector(lanes, f32) if lanes else None
            a, c = inner.load(x, k, type_=form), inner.load(y, k, type_=form)
            attributes = {"fastmath": OpaqueAttr(fast)} if fast else None
            product = inner.value("arith.mulf", (a, a), a.type, attributes)
            inner.store(inner.value("arith.addf", (product, c), a.type, attributes), y, k)

        b.parallel(0, 4096, lanes or 1, step)

    return function([memref([4096], f32)] * 2, body, name)


def exp_kernel(isa: str) -> Operation:
    def body(b: Body, x: Value, y: Value) -> None:
        def step(inner: Body, k: Value) -> Sequence[Value]:
            value = inner.load(x, k, type_=vector(LANES[isa], f32))
            inner.store(inner.value("math.exp", (value,), value.type), y, k)
            return ()

        b.loop(0, 4096, LANES[isa], step)

    made = function([memref([4096], f32)] * 2, body)
    expand(made, isa)
    return made


@pytest.mark.parametrize(
    ("isa", "register"), [("avx512", "zmm"), ("avx2", "ymm"), ("scalar", "xmm"), ("neon", "v")]
)
def test_machine_code_uses_the_vector_registers(isa: str, register: str) -> None:
    if isa not in instruction_sets():
        pytest.skip(f"this processor lacks {isa}")
    code = assembly(emit(to_llvm([axpy(LANES[isa])])), isa)
    if isa == "neon":
        assert re.search(r"fmla\s+v\d+\.4s", code)
        return
    assert re.search(rf"vfmadd\d+[ps]s\s.*%{register}", code)
    if isa == "avx2":
        assert "zmm" not in code


def test_exp_takes_few_instructions() -> None:
    """Clamping 2, reduction 5, polynomial 6, scaling 1, and the loop's load, store and counting."""
    if "avx512" not in instruction_sets():
        pytest.skip("counted for AVX-512")
    code = assembly(emit(to_llvm([exp_kernel("avx512")])), "avx512")
    assert "call" not in code
    loop = re.search(r"^(\.LBB\d+_\d+):[^:]*?\bj\w+\s+\1$", code, re.MULTILINE)
    assert loop is not None
    instructions = [
        line for line in loop.group().splitlines()[1:] if line.strip() and not line.strip().startswith(".")
    ]
    assert len(instructions) <= 21, loop.group()


def test_products_and_sums_fuse_only_where_allowed() -> None:
    isa = widest()
    fused = r"\bv?fn?ml?add|fmla"
    assert re.search(fused, assembly(emit(to_llvm([axpy(LANES[isa])])), isa))
    assert not re.search(fused, assembly(emit(to_llvm([axpy(LANES[isa])], contract=False)), isa))
    assert not re.search(
        fused, assembly(emit(to_llvm([axpy(LANES[isa], fast="#arith.fastmath<none>")])), isa)
    )


def test_no_flag_that_changes_results_but_contraction() -> None:
    text = emit(to_llvm([axpy(16)]))
    assert "contract" in text
    assert not re.search(r"\b(reassoc|nnan|ninf|arcp|afn|fast) ", text)


def test_many_kernels_in_one_object() -> None:
    functions = [axpy(LANES[widest()], f"kernel_{k}") for k in range(5)]
    built = build(functions, widest())
    assert built.symbols == tuple(f"kernel_{k}" for k in range(5))
    assert built.text.count("declare void @lamina_parallel(") == 1
    assert set(built.seconds) == {"to_llvm", "emit", "parse", "optimise", "codegen"}
    x, y = np.full(4096, 2, np.float32), np.ones(4096, np.float32)
    run(built, x, y, threads=2)
    assert (y == 5).all()


def test_missing_operations_are_named() -> None:
    made = axpy(16)
    for operation in list(made.walk()):
        if operation.name == "arith.mulf":
            operation.name = "arith.frobnicate"
    assert missing_operations([made]) == ["arith.frobnicate"]
    with pytest.raises(CompilerBug, match=re.escape("lacks: arith.frobnicate")):
        to_llvm([made])


def test_kernels_take_only_memrefs() -> None:
    made = axpy(16)
    made.region.blocks[0].add_argument(f32)
    with pytest.raises(CompilerBug, match="takes a f32"):
        to_llvm([made])


def test_vector_access_across_a_stride_is_refused() -> None:
    made = function(
        [memref([64], f32, [2])], lambda b, x: b.store(b.load(x, b.at(0), type_=vector(4, f32)), x, b.at(8))
    )
    with pytest.raises(CompilerBug, match="last stride is not 1"):
        to_llvm([made])


def test_broken_text_is_a_compiler_bug() -> None:
    with pytest.raises(CompilerBug, match="LLVM rejects"):
        compile_text("define void @f() {", widest())


def test_unknown_instruction_set() -> None:
    with pytest.raises(UserError, match="unknown instruction set 'sse9'"):
        features("sse9")


def test_llvm_dialect_is_valid_and_reads_back() -> None:
    isa = widest()
    module = to_llvm([axpy(LANES[isa]), exp_kernel(isa)])
    for position, operation in enumerate(module.body):
        if operation.attributes.get("sym_name") == StringAttr("kernel"):
            operation.attributes["sym_name"] = StringAttr(f"kernel_{position}")
    verify(module, "llvm")
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    if HAS_MLIR:
        accepted, message = judge(text)
        assert accepted, message


def test_optimised_text_keeps_the_kernels() -> None:
    assert "define void @kernel(" in optimised_text(emit(to_llvm([axpy(16)])), widest())


def test_same_input_gives_same_object() -> None:
    first, second = (build([axpy(16), exp_kernel_named(widest())], widest()).object_code for _ in range(2))
    assert first == second


def exp_kernel_named(isa: str) -> Operation:
    made = exp_kernel(isa)
    made.attributes["sym_name"] = StringAttr("exp_kernel")
    return made


def test_no_compiler_on_the_path_is_needed(tmp_path: Path) -> None:
    script = (
        "import numpy as np\n"
        "from tests.codegen.test_compile import axpy\n"
        "from tests.codegen.programs import run, widest\n"
        "from tests.codegen.test_compile import LANES\n"
        "x, y = np.full(4096, 3, np.float32), np.ones(4096, np.float32)\n"
        "run(axpy(LANES[widest()]), x, y, threads=2)\n"
        "assert (y == 10).all()\n"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)}
    environment |= {key: value for key, value in os.environ.items() if key.startswith("LD_")}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=300)


@pytest.mark.parametrize("name", ["math.exp", "math.sin", "math.tanh", "math.erf", "math.log", "math.powf"])
def test_text_is_good_for_aarch64(name: str) -> None:
    """Nothing in the text is particular to x86: another processor's code generator takes it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip("this llvmlite makes code for its own machine only")
    made = elementwise(name, [f32] * (2 if name == "math.powf" else 1), f32, 4096, LANES["neon"])
    expand(made, "neon")
    module = llvm.parse_assembly(emit(to_llvm([made])))
    module.triple = triple
    code = target.create_target_machine(cpu="neoverse-n1", opt=3).emit_assembly(module)
    assert re.search(r"fmla\s+v\d+\.(4s|2d)", code)
    calls = set(re.findall(r"\bbl\s+(\S+)", code))
    assert calls <= ({"sinf", "lamina.lanes.sinf.4"} if name == "math.sin" else set())
