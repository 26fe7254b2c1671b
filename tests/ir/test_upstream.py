"""Our text against a real MLIR: it accepts what we print, we read what it prints, and both refuse the same."""

from __future__ import annotations

import pytest

from lamina.codegen.llvm.to_llvm import to_llvm
from lamina.ir.compare import equal
from lamina.ir.core import Operation
from lamina.ir.ops import RECORDS
from lamina.ir.passes import Context
from lamina.ir.text import ParseError, parse_module, print_module
from lamina.ir.types import bf16, f16, f32, i1
from lamina.ir.verify import find_problems, verify
from lamina.passes.loops.expand_math import expand
from lamina.pipeline import LOWER, lower_kernel
from tests.ir.invalid import RULES, SYNTAX
from tests.ir.samples import SHARED, samples
from tests.ir.upstream import HAS_MLIR, judge, judge_each
from tests.passes.loops.check import target_of
from tests.passes.loops.kernels import layer_norm, pointwise, reduction, softmax

needs_mlir = pytest.mark.skipif(not HAS_MLIR, reason="needs iree-base-compiler")


def test_there_is_a_sample_of_every_shared_operation() -> None:
    seen = {operation.name for text in samples() for operation in parse_module(text).walk()}
    shared = {name for name, found in RECORDS.items() if found.dialect in SHARED - {"llvm"}}
    assert shared <= seen


def test_samples_are_well_formed_and_round_trip() -> None:
    for text in samples():
        module = parse_module(text)
        verify(module)
        printed = print_module(module)
        assert equal(parse_module(printed), module) and print_module(parse_module(printed)) == printed


def assert_accepted(modules: list[Operation]) -> None:
    """MLIR reads all of them (one process for speed), and we read what it prints of them."""
    text = "".join(map(print_module, modules))
    is_accepted, shown = judge(text)
    assert is_accepted, shown
    again = parse_module(shown)
    assert not find_problems(again)
    assert sum(1 for _ in again.walk()) == 1 + sum(1 for module in modules for _ in module.walk())


@needs_mlir
def test_mlir_accepts_all_samples() -> None:
    assert_accepted([parse_module(text) for text in samples()])


@needs_mlir
@pytest.mark.parametrize("isa", ["avx512", "avx2", "scalar"])
def test_mlir_accepts_every_level_of_real_kernels(isa: str) -> None:
    kernels = [
        softmax(5, 67), softmax(5, 67, 0), layer_norm(5, 67), layer_norm(5, 67, bf16),
        reduction(3, 70, "argmax", f32, 1), reduction(3, 70, "and", i1, 0), pointwise((5, 13), f16),
        pointwise((20, 30), f32, [[1, 20], [30, 1]]),
    ]  # fmt: skip
    modules: list[Operation] = []
    for kernel in kernels:
        modules.append(parse_module(print_module(kernel)))
        lowered = lower_kernel(
            kernel,
            Context(target=target_of(isa)),
            lambda _, step: modules.append(parse_module(print_module(step))),
            LOWER[:3],
        )
        expand(lowered, isa)
        modules.append(parse_module(print_module(lowered)))
        modules.append(to_llvm([lowered]))
    assert_accepted(modules)


@needs_mlir
def test_mlir_reads_our_locations_and_we_read_its() -> None:
    text = """"func.func"() ({
    }) {function_type = () -> (), sym_name = "f", sym_visibility = "private"} : () -> ()
        loc(callsite("a b.py":1:2 at callsite("c.py":3:0 at "d.py":4:5)))
    """
    module = parse_module(text)
    is_accepted, shown = judge(print_module(module, locations=True), locations=True)
    assert is_accepted, shown
    assert equal(parse_module(shown).body.terminator, module.body.terminator, locations=True)


def test_there_are_enough_invalid_texts() -> None:
    assert len(SYNTAX) + len(RULES) >= 100


@pytest.mark.parametrize(("place", "text"), SYNTAX)
def test_bad_syntax_is_refused_at_its_place(place: str, text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text, "x.mlir")
    assert str(caught.value).startswith(f"x.mlir:{place}: error: ")


@pytest.mark.parametrize(("place", "text"), RULES)
def test_broken_rules_are_found_at_their_operation(place: str, text: str) -> None:
    problems = find_problems(parse_module(text, "x.mlir", locate=True))
    assert problems
    location = problems[0].operation.location
    assert f"{location.line}:{location.column}" == place


@needs_mlir
def test_mlir_refuses_them_too() -> None:
    texts = [text for _, text in (*SYNTAX, *RULES)]
    verdicts = judge_each([*texts, *samples()])
    accepted = [text for text, is_accepted in zip(texts, verdicts, strict=False) if is_accepted]
    assert not accepted and all(verdicts[len(texts) :])
