"""How the three kinds of failure are drawn, and that they survive a process boundary."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lamina.errors import CompilerBug, LaminaError, SourceLocation, Unsupported, UserError


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text("def f(x):\n    return x.frobnicate()\n")
    return str(path)


def test_a_user_error_says_what_to_change() -> None:
    assert str(UserError("unknown pass 'tiel'", hint="did you mean 'tile'?")) == (
        "user error: unknown pass 'tiel'\n  = help: did you mean 'tile'?"
    )


def test_unsupported_is_drawn_at_the_line(source: str) -> None:
    error = Unsupported(
        "unknown-method", "no rule", (source, 2), "call it outside", operation="aten.frobnicate"
    )
    assert str(error).splitlines() == [
        "unsupported[unknown-method]: no rule",
        f"  --> {source}:2",
        "   |",
        " 2 |     return x.frobnicate()",
        "   |     ^^^^^^^^^^^^^^^^^^^^^",
        "  = op: aten.frobnicate",
        "  = help: call it outside",
    ]


def test_a_column_is_marked_alone(source: str) -> None:
    error = UserError("here", location=SourceLocation(source, 2, 14))
    assert str(error).splitlines()[-1] == "   |              ^"


def test_a_compiler_bug_says_how_to_replay() -> None:
    error = CompilerBug("lost a use", stage="fuse", replay_folder="/r/1", replay_command="lamina opt /r/1")
    assert str(error) == (
        "compiler bug: lost a use\n  = stage: fuse\n  = replay folder: /r/1\n  = replay: lamina opt /r/1"
    )


def test_a_place_without_source_is_only_named() -> None:
    assert str(UserError("x", location=("<string>", 3))) == "user error: x\n  --> <string>:3"


@pytest.mark.parametrize(
    "error",
    [
        UserError("a", location=("f.py", 1), hint="b"),
        Unsupported("code", "a", ("f.py", 1), "b", operation="c"),
        CompilerBug("a", stage="s", replay_folder="r", replay_command="c"),
    ],
)
def test_pickling(error: LaminaError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)
