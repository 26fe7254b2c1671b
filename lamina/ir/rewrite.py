"""The rewrite driver: applies patterns until none applies.

A pattern looks at one operation and, through a `Rewriter`, replaces or changes it. Operations wait in a list;
what a rewrite touches (new operations, users of new values, makers of values no longer used) is looked at
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.errors import CompilerBug
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_removable
from lamina.ir.remarks import Remarks
from lamina.ir.types import Type

ANY = "*"
"""The root of a pattern that looks at every operation."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """`apply` changes an operation named `root` through the rewriter and says whether it did.

    It must not change anything when it gives False. Of several patterns the one with the largest `benefit`
    is tried first, then the one listed first.
    """

    name: str
    root: str
    apply: Callable[[Operation, Rewriter], bool]
    benefit: int = 1


Listener = Callable[[str, Operation], None]
"""Is told "inserted", "changed", "replaced" or "erased" and the operation (before it goes)."""


class Rewriter:
    """What patterns change programs with; makes operations before the one that is being rewritten."""

    def __init__(self, driver: Driver, operation: Operation) -> None:
        self._driver = driver
        self._builder = Builder.before_op(operation)

    def op(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> Operation:
        """A new operation, at the place and with the location of the one being rewritten."""
        return self._driver.note_inserted(self._builder.op(name, operands, result_types, attributes))

    def value(
        self, name: str, operands: Iterable[Value], type_: Type, attributes: Mapping[str, Any] | None = None
    ) -> Value:
        return self.op(name, operands, (type_,), attributes).result

    def replace(self, operation: Operation, values: Sequence[Value]) -> None:
        """Give users `values` instead of the results, and erase the operation."""
        self._driver.note_replaced(operation, values)
        operation.replace_with(values)

    def replace_by(self, operation: Operation, rule: Callable[[Operation, Builder], Value | None]) -> bool:
        """Replace the operation by the value that a rule builds before it; False where it builds none."""
        before = operation.previous
        value = rule(operation, self._builder)
        if value is None:
            return False
        assert operation.parent is not None
        at = operation.parent.first if before is None else before.next
        while at is not None and at is not operation:
            self._driver.note_inserted(at)
            at = at.next
        self.replace(operation, [value])
        return True

    def erase(self, operation: Operation) -> None:
        """Erase an operation whose results nobody uses."""
        self._driver.note_erased(operation)
        operation.erase()

    def change(self, operation: Operation, action: Callable[[], None]) -> None:
        """Change an operation in place by `action`."""
        action()
        self._driver.note_changed(operation)


@dataclass(slots=True)
class Statistics:
    """How often each pattern applied, and how many operations were looked at."""

    applied: Counter[str] = field(default_factory=Counter)
    visited: int = 0

    @property
    def total(self) -> int:
        return sum(self.applied.values())


@dataclass(slots=True)
class Driver:
    """One run of a set of patterns. See `rewrite`."""

    patterns: Mapping[str, Sequence[Pattern]]
    listener: Listener | None = None
    remarks: Remarks | None = None
    pass_name: str = "rewrite"
    statistics: Statistics = field(default_factory=Statistics)
    _waiting: dict[Operation, None] = field(default_factory=dict)

    def run(self, root: Operation, limit: int) -> None:
        """Rewrite what is inside `root`; CompilerBug after `limit` rewrites."""
        self._waiting = dict.fromkeys(operation for operation in root.walk() if operation is not root)
        while self._waiting:
            # First in, first out: producers come before users on the first round.
            operation = next(iter(self._waiting))
            del self._waiting[operation]
            if operation.parent is None:
                continue
            self.statistics.visited += 1
            if _is_unused(operation):
                self.note_erased(operation)
                operation.erase()
            elif self._apply(operation) and self.statistics.total > limit:
                most = ", ".join(
                    f"{name} ({count})" for name, count in self.statistics.applied.most_common(3)
                )
                raise CompilerBug(f"rewriting did not end after {limit} steps: {most}", stage=self.pass_name)

    def _apply(self, operation: Operation) -> bool:
        for pattern in self.patterns.get(operation.name, self.patterns[ANY]):
            name, location = operation.name, operation.location
            if not pattern.apply(operation, Rewriter(self, operation)):
                continue
            self.statistics.applied[pattern.name] += 1
            if self.remarks is not None:
                self.remarks.add(self.pass_name, location, pattern.name, "applied", operation=name)
            return True
        return False

    def note_inserted(self, operation: Operation) -> Operation:
        self._waiting[operation] = None
        self._tell("inserted", operation)
        return operation

    def note_changed(self, operation: Operation) -> None:
        self._waiting[operation] = None
        self._waiting.update(dict.fromkeys(user for value in operation.results for user in value.users))
        self._tell("changed", operation)

    def note_replaced(self, operation: Operation, values: Sequence[Value]) -> None:
        self._tell("replaced", operation)
        self._waiting.update(dict.fromkeys(user for value in operation.results for user in value.users))
        self._look_at_makers(operation)

    def note_erased(self, operation: Operation) -> None:
        self._tell("erased", operation)
        self._look_at_makers(operation)

    def _look_at_makers(self, operation: Operation) -> None:
        self._waiting.pop(operation, None)
        for value in operation.operands:
            maker = value.defining_op
            if maker is not None:
                self._waiting[maker] = None

    def _tell(self, what: str, operation: Operation) -> None:
        if self.listener is not None:
            self.listener(what, operation)


def rewrite(
    root: Operation,
    patterns: Iterable[Pattern],
    *,
    limit: int | None = None,
    listener: Listener | None = None,
    remarks: Remarks | None = None,
    pass_name: str = "rewrite",
) -> Statistics:
    """Apply patterns inside `root` until none applies; unused pure operations go on the way.

    limit: the most rewrites, 100 and 10 for each operation if not given; more is a CompilerBug that names the
    patterns. remarks: one is left for each rewrite, under `pass_name`.
    """
    if limit is None:
        limit = 100 + 10 * sum(1 for _ in root.walk())
    driver = Driver(_by_root(patterns), listener, remarks, pass_name)
    driver.run(root, limit)
    return driver.statistics


def _by_root(patterns: Iterable[Pattern]) -> dict[str, list[Pattern]]:
    """Patterns by the name they look at, those for any operation included, best first."""
    listed = sorted(patterns, key=lambda pattern: -pattern.benefit)
    roots = {ANY, *(pattern.root for pattern in listed)}
    return {root: [pattern for pattern in listed if pattern.root in (root, ANY)] for root in roots}


def _is_unused(operation: Operation) -> bool:
    has_no_use = operation.results and not any(value.uses for value in operation.results)
    return bool(has_no_use) and is_removable(operation)
