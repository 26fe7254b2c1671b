"""Pipelines as text, and the manager: levels, verifying, printing, analyses, bisecting, replay folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.errors import CompilerBug, UserError
from lamina.ir.analyses import Analysis
from lamina.ir.core import Operation
from lamina.ir.passes import Context, Pass, PassManager, chain, parse_pipeline
from lamina.ir.text import parse, print_module
from lamina.ir.verify import VerificationError
from lamina.options import Options

TEXT = """"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "math.exp"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) {function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "f"} : () -> ()
  "func.func"() ({
  ^bb0(%arg0: tensor<4xf32>):
    "func.return"(%arg0) : (tensor<4xf32>) -> ()
  }) {function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "g"} : () -> ()
}) : () -> ()
"""


def rename(module: Operation, context: Context, to: str = "math.log") -> None:
    for operation in module.walk():
        if operation.name.startswith("math."):
            operation.name = to
            context.statistics["renamed"] += 1


def mark(operation: Operation, context: Context, **options: Any) -> None:
    operation.attributes.update(Operation("t.op", attributes={"marked": options or True}).attributes)


def nothing(module: Operation, context: Context) -> None:
    """Changes nothing."""


def crash(module: Operation, context: Context) -> None:
    raise ZeroDivisionError("by zero")


ACCEPTS = {"to": "x", "size": 1, "rate": 1.0, "order": (), "fast": False}
REGISTRY = {
    each.name: each
    for each in (
        Pass("rename", rename, accepts={"to": "math.log"}),
        Pass("mark", mark, accepts=ACCEPTS, preserves=frozenset({"names"})),
        Pass("nothing", nothing, preserves=frozenset({"all"})),
        Pass("liar", rename, preserves=frozenset({"names"})),
        Pass("crash", crash),
        Pass("lower", nothing, takes="tensor", gives="linalg", is_required=True),
        Pass("tensor", nothing, takes="tensor", gives="tensor"),
    )
}


def manager(text: str, **options: Any) -> PassManager:
    return PassManager(pipeline=parse_pipeline(text, REGISTRY), **options)


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "nothing,nothing", "rename{to=math.sin}", "func.func(nothing,mark{size=3}),nothing",
     'mark{to="a b" size=-3 rate=0.5 order=[1,0,[2]] fast=true}', 'mark{to="true"}', "mark{order=[]}"],
)  # fmt: skip
def test_pipeline_text_round_trips(text: str) -> None:
    assert str(parse_pipeline(text, REGISTRY)) == text


FAULTS = [
    ("nothin", "1:1", "did you mean 'nothing'?"),
    ("nothing nothing", "1:9", "expected ',' between passes"),
    ("nothing,", "1:9", "expected the name of a pass"),
    ("mark{sise=3}", "1:6", "has no option 'sise'"),
    ("mark{size=3 size=4}", "1:13", "given twice"),
    ("mark{size=x}", "1:10", "needs a whole number"),
    ("mark{fast=1}", "1:10", "needs true or false"),
    ("mark{size=", "1:11", "expected an option's value"),
    ("func.func(nothing", "1:18", "expected ')'"),
]


@pytest.mark.parametrize(("text", "place", "message"), FAULTS)
def test_bad_pipelines_say_where_and_what_is_allowed(text: str, place: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_pipeline(text, REGISTRY)
    assert f"<passes>:{place}: error:" in str(caught.value) and message in str(caught.value)


def test_levels_must_meet() -> None:
    parse_pipeline("tensor,lower", REGISTRY)
    with pytest.raises(UserError, match="'tensor' takes level 'tensor', but 'lower' before gives 'linalg'"):
        chain(REGISTRY["lower"], REGISTRY["tensor"])


def test_passes_run_in_order_with_options_and_statistics() -> None:
    module, context = parse(TEXT), Context()
    manager("rename{to=math.sin},rename").run(module, context)
    assert "math.log" in print_module(module) and context.statistics == {"renamed": 2}


def test_nested_passes_run_on_each_function() -> None:
    module = parse(TEXT)
    manager("func.func(mark{size=2})").run(module)
    marked = [operation.name for operation in module.walk() if "marked" in operation.attributes]
    assert marked == ["func.func", "func.func"]


def test_the_verifier_blames_the_pass() -> None:
    with pytest.raises(VerificationError, match=r"after 'rename': unknown operation math\.what"):
        manager("nothing,rename{to=math.what},nothing", verify=True).run(parse(TEXT))
    with pytest.raises(VerificationError, match=r"math.exp|tensor<4xf32> is not legal at level linalg"):
        manager("lower", verify=True).run(parse(TEXT))


def test_printing_before_after_and_on_change() -> None:
    shown: list[str] = []
    manager("nothing,rename", print_before=frozenset({"rename"}), write=shown.append).run(parse(TEXT))
    assert shown == [f"// before rename\n{TEXT}"]
    shown.clear()
    manager("nothing,rename", print_after=frozenset({"all"}), write=shown.append).run(parse(TEXT))
    assert [text.split("\n")[0] for text in shown] == ["// after nothing", "// after rename"]
    shown.clear()
    manager("nothing,rename,nothing", print_changed=True, write=shown.append).run(parse(TEXT))
    assert shown == [f"// after rename\n{TEXT.replace('math.exp', 'math.log')}"]


def test_timing_names_every_pass() -> None:
    ran = manager("nothing,rename,nothing", verify=True)
    ran.run(parse(TEXT))
    assert [timing.name for timing in ran.timings] == ["nothing", "rename", "nothing"]
    names = [line.split()[0] for line in ran.report().splitlines()]
    assert sorted(names) == ["(all)", "(verifying)", "nothing", "rename"]


NAMES: Analysis[list[str]] = Analysis("names", lambda module: [operation.name for operation in module.walk()])


def test_analyses_are_kept_only_while_they_hold() -> None:
    module, context = parse(TEXT), Context()
    context.analyses.get(NAMES, module)
    manager("nothing,mark").run(module, context)
    assert context.analyses.is_known(NAMES, module) and context.analyses.computed == 1
    manager("rename").run(module, context)
    assert not context.analyses.is_known(NAMES, module)
    assert "math.log" in context.analyses.get(NAMES, module)


def test_a_pass_that_lies_about_an_analysis_is_caught() -> None:
    module, context = parse(TEXT), Context()
    context.analyses.get(NAMES, module)
    manager("mark", check_preserved=True).run(module, context)
    with pytest.raises(CompilerBug, match="'liar' says that it preserves 'names'"):
        manager("liar", check_preserved=True).run(module, context)


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_bisecting_leaves_out_the_last_passes(limit: int, expected: int) -> None:
    module, context = parse(TEXT), Context()
    shown: list[str] = []
    ran = manager("rename,lower,rename,rename", bisect_limit=limit, write=shown.append)
    ran.run(module, context)
    assert context.statistics["renamed"] == expected
    assert len(shown) == 3 and sum("running" in line for line in shown) == expected
    assert "lower" in [timing.name for timing in ran.timings]


def test_disabled_passes_are_left_out() -> None:
    module, context = parse(TEXT), Context(Options(disabled_passes=("rename",)))
    manager("rename,nothing").run(module, context)
    assert print_module(module) == TEXT


def test_a_crash_leaves_a_folder_that_replays_it(tmp_path: Path) -> None:
    with pytest.raises(CompilerBug) as caught:
        manager("rename,crash,mark{size=2}", replay_dir=tmp_path).run(parse(TEXT))
    folder = Path(caught.value.replay_folder)
    assert folder.parent == tmp_path and caught.value.stage == "crash"
    assert (folder / "passes.txt").read_text() == "crash,mark{size=2}\n"
    assert str(folder / "before.mlir") in caught.value.replay_command
    again = parse((folder / "before.mlir").read_text())
    assert "math.log" in print_module(again)
    with pytest.raises(ZeroDivisionError):
        manager((folder / "passes.txt").read_text()).run(again)


def test_the_callers_mistakes_are_not_compiler_bugs(tmp_path: Path) -> None:
    def refuse(module: Operation, context: Context) -> None:
        raise UserError("no")

    with pytest.raises(UserError):
        PassManager(pipeline=chain(Pass("refuse", refuse)), replay_dir=tmp_path).run(parse(TEXT))
    assert not list(tmp_path.iterdir())
