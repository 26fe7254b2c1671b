"""Options: what is accepted, what is refused and how, where values come from, what enters the cache key."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.options import Options, describe


def test_defaults_need_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, _, variable, _ in describe():
        monkeypatch.delenv(variable, raising=False)
    assert Options.from_user() == Options()
    assert Options.from_user({"fusion": False}) == dataclasses.replace(Options(), fusion=False)


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ({"fuson": True}, "unknown option 'fuson'", "did you mean 'fusion'? allowed: vector_isa, numerics"),
        ({"zzz": 1}, "unknown option 'zzz'", "allowed: vector_isa, "),
        ({"vector_isa": "sse"}, "option 'vector_isa' is 'sse'", "allowed: auto, scalar, avx2, avx512, neon"),
        ({"threads": True}, "option 'threads' is True", "a whole number is needed"),
        ({"threads": -1}, "option 'threads' is -1", "0 or more is needed"),
        ({"fusion": 1}, "option 'fusion' is 1", "True or False is needed"),
        ({"disabled_passes": 3}, "option 'disabled_passes' is 3", "pass names are needed"),
    ],
)
def test_mistakes_say_what_is_allowed(values: dict[str, object], message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        Options.from_user(values)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("LAMINA_THREADS", "3", "threads", 3),
        ("LAMINA_FUSION", "off", "fusion", False),
        ("LAMINA_VERIFY", "1", "verify", True),
        ("LAMINA_TRACE", "tile, fuse", "trace", ("fuse", "tile")),
        ("LAMINA_CACHE_DIR", "/somewhere", "cache_dir", "/somewhere"),
    ],
)
def test_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: object
) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(Options.from_user(), name) == value


def test_caller_wins_over_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_THREADS", "3")
    assert Options.from_user({"threads": 2}).threads == 2


@pytest.mark.parametrize(
    ("variable", "text"), [("LAMINA_THREADS", "two"), ("LAMINA_CACHE", "maybe"), ("LAMINA_VECTOR_ISA", "x")]
)
def test_bad_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(UserError, match=variable):
        Options.from_user()


def test_cache_key_holds_what_changes_code_and_nothing_else() -> None:
    base = Options()
    for field in dataclasses.fields(Options):
        other: object = {bool: not field.default, int: 1, str: "other", tuple: ("other",)}[
            type(field.default)
        ]
        changed = dataclasses.replace(base, **{field.name: other})
        assert (changed.cache_key() != base.cache_key()) is field.metadata["changes_code"], field.name


def test_order_of_pass_names_does_not_matter() -> None:
    keys = {
        Options.from_user({"disabled_passes": names}).cache_key()
        for names in ("a,b", ["b", "a"], ("a", "b", "a"))
    }
    assert len(keys) == 1


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options(cache_dir=str(tmp_path)).replay_path() == tmp_path / "replays"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Options().cache_path() == tmp_path / "lamina"
    assert Options.from_user({"replay_dir": tmp_path}).replay_path() == tmp_path
