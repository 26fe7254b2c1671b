"""Facts about programs that passes ask for, computed once and dropped when a pass may have changed them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from lamina.errors import CompilerBug
from lamina.ir.core import Operation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Analysis(Generic[T]):
    """`compute` gives the facts of an operation; `same` says whether two results hold the same facts."""

    name: str
    compute: Callable[[Operation], T]
    same: Callable[[T, T], bool] = operator.eq


class Analyses:
    """Results by analysis and operation."""

    def __init__(self) -> None:
        self._known: dict[tuple[Analysis[Any], Operation], Any] = {}
        self.computed = 0

    def get(self, analysis: Analysis[T], operation: Operation) -> T:
        """The facts of `operation`, computed now unless they are known."""
        key = analysis, operation
        if key not in self._known:
            self._known[key] = analysis.compute(operation)
            self.computed += 1
        return cast(T, self._known[key])

    def is_known(self, analysis: Analysis[Any], operation: Operation) -> bool:
        return (analysis, operation) in self._known

    def keep(self, preserved: Iterable[str]) -> None:
        """Forget all but the analyses of these names ("all" keeps everything)."""
        names = set(preserved)
        if "all" not in names:
            self._known = {key: value for key, value in self._known.items() if key[0].name in names}

    def check(self, pass_name: str) -> None:
        """Compute every known result again; CompilerBug when one differs: the pass said it preserves it."""
        for (analysis, operation), known in self._known.items():
            if not analysis.same(known, analysis.compute(operation)):
                raise CompilerBug(
                    f"pass {pass_name!r} says that it preserves {analysis.name!r} and does not",
                    stage=pass_name,
                )
