"""What a capture assumed about the outside, as one generated function and as an explanation.

    v0 = args[0]
    if not (type(v0) is Tensor and v0.dtype is float32 and v0.shape == (8,)): return None
    ...
    return [v0]

Order: arguments first (cheapest and likeliest to fail), then modes, training flags, other objects. Soundness:
whatever was read from outside has a guard of type as well as value; see docs on trusted library code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from lamina.capture.generated import LazyWriter, Writer
from lamina.capture.identities import FEWEST, Identity, rows_of_class, rows_of_value
from lamina.capture.layouts import Layout
from lamina.capture.sources import Attribute, Fixed, Source
from lamina.capture.tensor_guards import TensorFacts, native_checker

Condition = Callable[[Writer], str]
"""Writes a guard's test: an expression that is true when the assumption holds."""
Match = Callable[[Sequence[Any], dict[str, Any]], list[Any] | None]


@dataclass(frozen=True, slots=True)
class Guard:
    """One assumption. `rank` orders groups of guards; within a group the order of discovery stays."""

    rank: int
    condition: Condition
    subject: str
    expected: str
    actual: Condition | None = None
    tensor_key: Any = None
    """The path of the tensor, where the guard is about a tensor's metadata: those are checked together."""
    rows: tuple[Identity, ...] = ()
    """Identities that say as much, where there are such."""


ARGUMENTS, MODES, FLAGS, OBJECTS = 0, 1, 2, 3


def rank_of(source: Source) -> int:
    """The group of a guard on what lies at `source`."""
    if not source.is_fixed:
        return ARGUMENTS
    return FLAGS if isinstance(source, Attribute) and source.name == "training" else OBJECTS


def equal_constant(writer: Writer, variable: str, value: Any) -> str:
    """A test for an immutable constant that tells True from 1, nan from nan's absence, -0.0 from 0.0."""
    kind = type(value)
    if value is None or value is True or value is False or value is Ellipsis or value is NotImplemented:
        return f"{variable} is {writer.constant(value)}"
    test = f"type({variable}) is {kind.__name__}"
    writer.namespace.setdefault(kind.__name__, kind)
    if kind is float:
        return f"{test} and {equal_float(writer, variable, value)}"
    if kind is complex:
        parts = (equal_float(writer, f"{variable}.{part}", getattr(value, part)) for part in ("real", "imag"))
        return f"{test} and {' and '.join(parts)}"
    return f"{test} and {variable} == {writer.constant(value)}"


def equal_float(writer: Writer, variable: str, value: float) -> str:
    if math.isnan(value):
        return f"{variable} != {variable}"
    if value != 0.0:  # -0.0 == 0.0, so zero needs its sign
        return f"{variable} == {writer.constant(value)}"
    writer.namespace["copysign"] = math.copysign
    return f"{variable} == 0.0 and copysign(1.0, {variable}) == {math.copysign(1.0, value)!r}"


COMPARED_KEYS = frozenset({str, int, bool, bytes, type(None)})
"""Classes of dict keys of which equal ones are the same."""
OTHER_CONSTANTS = frozenset({torch.Size, torch.device, range})


def are_same_keys(found: tuple[Any, ...], keys: tuple[Any, ...]) -> bool:
    """Whether a dict's keys are these: constants equal and of the same class, objects the very same."""
    return len(found) == len(keys) and all(map(is_same_key, found, keys))


def is_same_key(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is tuple:
        return are_same_keys(one, other)
    if kind is float:
        return bool(one == other) and math.copysign(1.0, one) == math.copysign(1.0, other)
    return (kind in COMPARED_KEYS or kind in OTHER_CONSTANTS) and bool(one == other)


def add_tests(writer: Writer, guards: list[Guard]) -> None:
    """A function that `writer` writes returns None where one of `guards` does not hold."""
    for guard in guards:
        writer.add(f"if not ({guard.condition(writer)}): return None")


def write_question(guards: list[Guard]) -> LazyWriter:
    """A function of no arguments: whether `guards`, which are about fixed places, hold."""
    writer = LazyWriter("hold_identities", "")
    add_tests(writer, guards)
    writer.add("return True")
    return writer


NATIVELY = "hold_natively"
"""The name by which `match` calls a native check of identities; it knows nothing until there is one."""


@dataclass(slots=True)
class GuardSet:
    """The guards of one capture, each path and kind once."""

    guards: list[Guard] = field(default_factory=list)
    identities: list[Guard] = field(default_factory=list)
    """Those whose rows `match` asks natively, or else by `hold_identities`."""
    in_python: Callable[[], Any] | None = None
    """What answers for them where native code cannot, once it was needed."""
    _known: set[Any] = field(default_factory=set)
    _tensors: dict[Any, tuple[torch.Tensor, Layout | None]] = field(default_factory=dict)

    def is_new(self, *key: Any) -> bool:
        """Whether no guard was added under `key` yet; notes it."""
        if key in self._known:
            return False
        self._known.add(key)
        return True

    def add(
        self,
        rank: int,
        subject: str,
        expected: str,
        condition: Condition,
        actual: Condition | None = None,
        rows: tuple[Identity, ...] = (),
    ) -> None:
        self.guards.append(Guard(rank, condition, subject, expected, actual, None, rows))

    def on_value(
        self,
        source: Source,
        kind: str,
        expected: str,
        test: Callable[[Writer, str], str],
        rows: tuple[Identity, ...] = (),
    ) -> None:
        """Guard the value at `source`; `test` writes the condition over its variable."""
        if not self.is_new(kind, source.key):
            return
        self.add(
            rank_of(source),
            source.describe(),
            expected,
            lambda writer: test(writer, source.expression(writer)),
            source.expression,
            rows,
        )

    def identity(self, source: Source, value: Any) -> None:
        if isinstance(source, Fixed):
            return
        self.on_value(
            source,
            "identity",
            f"is {describe(value)}",
            lambda writer, name: f"{name} is {writer.constant(value)}",
            rows_of_value(source, value),
        )

    def constant(self, source: Source, value: Any) -> None:
        def test(writer: Writer, name: str) -> str:
            equal = equal_constant(writer, name, value)
            # A fixed object usually still holds the very same constant, which one comparison tells.
            is_worth = source.is_fixed and type(value) in (int, float, str)
            return f"{name} is {writer.name_constant(value)} or {equal}" if is_worth else equal

        self.on_value(source, "constant", describe(value), test, rows_of_value(source, value))

    def kind(self, source: Source, kind: type) -> None:
        self.on_value(
            source,
            "kind",
            f"type is {kind.__qualname__}",
            lambda writer, name: f"type({name}) is {writer.constant(kind)}",
            rows_of_class(source, kind),
        )

    def length(self, source: Source, length: int) -> None:
        self.on_value(source, "length", f"length {length}", lambda writer, name: f"len({name}) == {length}")

    def keys(self, source: Source, keys: tuple[Any, ...]) -> None:
        if not keys:
            self.length(source, 0)
            return
        kinds = tuple(type(key) for key in keys)
        is_plain = COMPARED_KEYS.issuperset(kinds)

        def test(writer: Writer, name: str) -> str:
            if not is_plain:
                return f"{writer.constant(are_same_keys)}(tuple({name}), {writer.constant(keys)})"
            same = f"tuple({name}) == {writer.constant(keys)}"
            if all(kind is str for kind in kinds):
                return same
            return f"{same} and tuple(map(type, {name})) == {writer.constant(kinds)}"

        shown = f"keys {keys!r}" if is_plain else f"{len(keys)} keys, objects among them"
        self.on_value(source, "keys", shown, test)

    def same(self, first: Source, second: Source) -> None:
        """Both paths lead to one object."""
        if not self.is_new("same", first.key, second.key):
            return
        rank = max(rank_of(first), rank_of(second))
        self.add(
            rank,
            second.describe(),
            f"is the object at {first.describe()}",
            lambda writer: f"{first.expression(writer)} is {second.expression(writer)}",
            second.expression,
        )

    def distinct(self, first: Source, second: Source) -> None:
        """The two paths lead to different objects."""
        if (first.is_fixed and second.is_fixed) or not self.is_new("distinct", first.key, second.key):
            return
        self.add(
            ARGUMENTS,
            second.describe(),
            f"is not the object at {first.describe()}",
            lambda writer: f"{first.expression(writer)} is not {second.expression(writer)}",
            second.expression,
        )

    def tensor(self, source: Source, tensor: torch.Tensor, layout: Layout | None = None) -> None:
        """Guard the metadata of an input tensor; its sizes and strides by `layout` if that is given."""
        if not self.is_new("tensor", source.key):
            return
        facts = TensorFacts(tensor, layout)
        self.guards.append(
            Guard(
                rank_of(source),
                lambda writer: facts.condition(writer, source.expression(writer)),
                source.describe(),
                describe(tensor) if layout is None else f"{describe(tensor)}, {layout.describe()}",
                source.expression,
                source.key,
            )
        )
        self._tensors[source.key] = (tensor, layout)

    def _write_tensors(self, writer: Writer, guards: list[Guard]) -> None:
        """One native check for many tensors, or a Python test for each."""
        known = [self._tensors[guard.tensor_key] for guard in guards]
        check = native_checker([tensor for tensor, _ in known], [layout for _, layout in known])
        if check is None:
            add_tests(writer, guards)
            return
        names = [guard.actual(writer) for guard in guards if guard.actual is not None]
        writer.add(f"if not {writer.constant(check)}({', '.join(names)}): return None")
        for name, (_, layout) in zip(names, known, strict=True):
            if layout is not None:
                tests = layout.conditions(writer, name, is_static_known=True)
                writer.add(f"if not ({' and '.join(tests)}): return None")

    def ordered(self) -> list[Guard]:
        """All guards, likeliest to fail first; within a rank in the order of discovery."""
        return sorted(self.guards, key=lambda guard: guard.rank)

    def build_match(self, inputs: list[Source]) -> tuple[Match, str]:
        """`match(args, kwargs)` and its text: the values at `inputs` where all guards hold, else None."""
        writer = LazyWriter("match", "args, kwargs")
        about_tensors = [guard for guard in self.guards if guard.tensor_key is not None]
        others = [guard for guard in self.ordered() if guard.tensor_key is None]
        # The shape of the call comes first of all: it makes reading the arguments safe.
        add_tests(writer, others[:2])
        self._write_tensors(writer, [guard for guard in about_tensors if guard.rank == ARGUMENTS])
        add_tests(writer, [guard for guard in others[2:] if guard.rank <= MODES])
        fixed = [guard for guard in others[2:] if guard.rank > MODES]
        if sum(len(guard.rows) for guard in fixed) >= FEWEST:
            self.identities = [guard for guard in fixed if guard.rows]
            fixed = [guard for guard in fixed if not guard.rows]
            writer.namespace[NATIVELY] = bool
            writer.add(f"if not ({NATIVELY}() or {writer.constant(self.hold_identities)}()): return None")
        add_tests(writer, fixed)
        self._write_tensors(writer, [guard for guard in about_tensors if guard.rank != ARGUMENTS])
        writer.add(f"return [{', '.join(source.expression(writer) for source in inputs)}]")
        # The guards outlive the capture; the caller's tensors must not live as long.
        self._tensors.clear()
        return writer.build(guarded=True), writer.text(guarded=True)

    def list_rows(self) -> list[Identity]:
        """What `match` may ask natively."""
        return [row for guard in self.identities for row in guard.rows]

    def hold_identities(self) -> bool:
        """Whether what rows say holds, or as much as that."""
        if self.in_python is None:
            self.in_python = write_question(self.identities).build(guarded=True)
        return bool(self.in_python())

    def hold_versions(self) -> bool:
        """Of these, whether what is said of classes by their version holds."""
        asked = [guard for guard in self.identities if any(row[0] == "version" for row in guard.rows)]
        return bool(write_question(asked).build(guarded=True)())

    def explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The first guard that fails for these arguments, with what was expected and what is there."""
        for guard in self.ordered():
            writer = Writer("test", "args, kwargs")
            condition = guard.condition(writer)
            writer.add(f"return bool({condition})")
            if not writer.build(guarded=True)(args, kwargs):
                return f"{guard.subject}: expected {guard.expected}, got {read_actual(guard, args, kwargs)}"
        return ""


def read_actual(guard: Guard, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if guard.actual is None:
        return "something else"
    writer = Writer("actual", "args, kwargs")
    writer.add(f"return {guard.actual(writer)}")
    try:
        return describe(writer.build()(args, kwargs))
    except Exception:
        return "nothing"


def describe(value: Any) -> str:
    """A short text for messages: never the contents of a tensor."""
    summary = getattr(value, "shape", None)
    if isinstance(summary, tuple) and hasattr(value, "dtype"):
        grad = ", requires_grad" if getattr(value, "requires_grad", False) else ""
        strides = f", strides {tuple(value.stride())}" if hasattr(value, "stride") else ""
        return f"{type(value).__name__}({value.dtype}, sizes {tuple(summary)}{strides}{grad})"
    if type(value) in (int, float, str, bool, type(None), bytes, complex):
        text = repr(value)
        return text if len(text) < 80 else text[:77] + "..."
    if type(value) is tuple and all(type(item) is int for item in value):
        return repr(value)
    name = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {name}" if isinstance(name, str) else f"a {type(value).__qualname__}"
