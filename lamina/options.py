"""The one record of options, and the only reader of the environment.

A value comes from the caller (`Options.from_user`), else from the environment variable named beside the
field, else from the default here. Only the fields marked `changes_code` enter `cache_key()`: what merely
shows or stores things never invalidates a cached kernel.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lamina.errors import UserError

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})


def setting(
    default: Any,
    meaning: str,
    *,
    environment: str = "",
    allowed: tuple[Any, ...] = (),
    lowest: int | None = None,
    changes_code: bool = False,
) -> Any:
    """One option: default, meaning, the values it accepts (none listed: any of the default's type)."""
    facts = {"meaning": meaning, "environment": environment, "allowed": allowed, "lowest": lowest}
    return dataclasses.field(default=default, metadata=facts | {"changes_code": changes_code})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compile and run. Frozen: make another one with `dataclasses.replace`."""

    vector_isa: str = setting(
        "auto",
        "the vector instructions that kernels use; auto = the widest this processor has",
        environment="LAMINA_VECTOR_ISA",
        allowed=("auto", "scalar", "avx2", "avx512", "neon"),
        changes_code=True,
    )
    numerics: str = setting(
        "default",
        "eager = keep the roundings eager makes between ops; default = intermediate values stay in f32",
        environment="LAMINA_NUMERICS",
        allowed=("default", "eager"),
        changes_code=True,
    )
    threads: int = setting(
        0,
        "the number of threads a kernel uses; 0 = torch.get_num_threads()",
        environment="LAMINA_THREADS",
        lowest=0,
        changes_code=True,
    )
    fusion: bool = setting(
        True, "false gives each op a kernel of its own", environment="LAMINA_FUSION", changes_code=True
    )
    fold_weights: bool = setting(
        True,
        "do weights-only work once per weight version (batch-norm folding, packing)",
        environment="LAMINA_FOLD_WEIGHTS",
        changes_code=True,
    )
    disabled_passes: tuple[str, ...] = setting(
        (),
        "optional passes to leave out, by name, separated by commas",
        environment="LAMINA_DISABLED_PASSES",
        changes_code=True,
    )
    cache: bool = setting(True, "keep compiled programs on disk", environment="LAMINA_CACHE")
    cache_dir: str = setting(
        "", "where they are kept; empty = lamina/ in the user's cache folder", environment="LAMINA_CACHE_DIR"
    )
    replay_dir: str = setting(
        "",
        "where replay folders of compiler bugs go; empty = replays/ in the cache folder",
        environment="LAMINA_REPLAY_DIR",
    )
    verify: bool = setting(False, "verify the IR after every pass", environment="LAMINA_VERIFY")
    trace: tuple[str, ...] = setting(
        (),
        "print the IR after these passes, separated by commas; all = after each",
        environment="LAMINA_TRACE",
    )
    progress: bool = setting(
        True,
        "show what a compile longer than a second is doing, on a terminal",
        environment="LAMINA_PROGRESS",
    )

    @staticmethod
    def from_user(values: Mapping[str, Any] | Options | None = None) -> Options:
        """The options a caller asked for, over the environment's, over the defaults; raises UserError."""
        if isinstance(values, Options):
            return values
        known = {field.name: field for field in dataclasses.fields(Options)}
        chosen = _read_environment(known)
        for name, value in (values or {}).items():
            if name not in known:
                raise UserError(f"unknown option {name!r}", hint=_say_known(name, list(known)))
            chosen[name] = _check(known[name], value, f"option {name!r}")
        return Options(**chosen)

    def cache_key(self) -> str:
        """The fields that change code, as stable text."""
        fields = [field for field in dataclasses.fields(self) if field.metadata["changes_code"]]
        return ";".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields)

    def cache_path(self) -> Path:
        """The cache folder; not created here."""
        if self.cache_dir:
            return Path(self.cache_dir).expanduser()
        base = os.environ.get("XDG_CACHE_HOME")
        return (Path(base) if base else Path.home() / ".cache") / "lamina"

    def replay_path(self) -> Path:
        """The folder under which each compiler bug gets a folder of its own; not created here."""
        return Path(self.replay_dir).expanduser() if self.replay_dir else self.cache_path() / "replays"

    def is_traced(self, pass_name: str) -> bool:
        """Whether the IR after this pass is to be printed."""
        return pass_name in self.trace or "all" in self.trace


def describe() -> list[tuple[str, str, str, str]]:
    """(name, default, environment variable, meaning and allowed values) of each option, for help texts."""
    rows = []
    for field in dataclasses.fields(Options):
        allowed = field.metadata["allowed"]
        among = f" ({', '.join(map(str, allowed))})" if allowed else ""
        meaning = field.metadata["meaning"] + among
        rows.append((field.name, repr(field.default), field.metadata["environment"], meaning))
    return rows


def _read_environment(known: Mapping[str, dataclasses.Field[Any]]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, field in known.items():
        variable = field.metadata["environment"]
        text = os.environ.get(variable, "")
        if text:
            chosen[name] = _check(field, _parse(field, text, variable), f"environment variable {variable}")
    return chosen


def _parse(field: dataclasses.Field[Any], text: str, variable: str) -> Any:
    default = field.default
    if isinstance(default, bool):
        if text.lower() in TRUE_WORDS | FALSE_WORDS:
            return text.lower() in TRUE_WORDS
        words = ", ".join(sorted(TRUE_WORDS) + sorted(FALSE_WORDS))
        raise UserError(f"environment variable {variable} is {text!r}", hint=f"allowed: {words}")
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            problem = f"environment variable {variable} is {text!r}"
            raise UserError(problem, hint="a whole number is needed") from None
    return text


def _check(field: dataclasses.Field[Any], value: Any, where: str) -> Any:
    """The value in the field's own type, or a UserError that says what is allowed."""
    default = field.default
    if isinstance(default, tuple):
        return _check_names(value, where)
    if isinstance(value, Path):
        value = str(value)
    # bool is an int in Python: {"threads": True} is a mistake, not one thread.
    if type(value) is not type(default):
        wanted = {bool: "True or False", int: "a whole number", str: "a string"}[type(default)]
        raise UserError(f"{where} is {value!r}", hint=f"{wanted} is needed")
    allowed = field.metadata["allowed"]
    if allowed and value not in allowed:
        raise UserError(f"{where} is {value!r}", hint="allowed: " + ", ".join(map(str, allowed)))
    lowest = field.metadata["lowest"]
    if lowest is not None and value < lowest:
        raise UserError(f"{where} is {value!r}", hint=f"{lowest} or more is needed")
    return value


def _check_names(value: Any, where: str) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    is_collection = isinstance(names, list | tuple | set | frozenset)
    if not is_collection or not all(isinstance(name, str) for name in names):
        hint = "pass names are needed: a list of strings, or one string with commas"
        raise UserError(f"{where} is {value!r}", hint=hint)
    # Sorted, so that the same set of names always makes the same cache key.
    return tuple(sorted({name.strip() for name in names} - {""}))


def _say_known(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}allowed: {', '.join(known)}"
