"""The symbols of one trace: sizes and numbers from outside that may differ from call to call.

    x: (s0, 8), strides (8, 1)       dimension 0 is dynamic
    x[: s0 // 2]                     runs on fakes whose sizes are expressions over s0
    guards: 2 <= s0, s0 // 2 <= s0   what was decided on the way, checked on each call

Each symbol stands at a place of the call (`Leaf`). torch's shape environment does the algebra and lists what
it assumed; nothing else is assumed, so the list, the ranges and the layouts are the whole guard.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from lamina.capture.fake import (
    FakeTensorMode,
    evaluate_expression,
    make_dynamic_fake,
    make_shape_environment,
    make_symbol,
    print_expression,
)
from lamina.capture.generated import Writer
from lamina.capture.guards import ARGUMENTS, GuardSet
from lamina.capture.layouts import Layout, Leaf, relate_strides
from lamina.capture.machine.signals import stop
from lamina.capture.sources import Source

NAMES = {"math": math, "torch": torch}
"""What the text of an expression may name beside builtins and symbols."""


@dataclass(slots=True)
class Symbols:
    """The shape environment of one trace, made when the first symbol is."""

    mode: FakeTensorMode
    environment: Any = None
    leaves: dict[str, Leaf] = field(default_factory=dict)
    layouts: dict[Any, Layout] = field(default_factory=dict)
    """By the key of the tensor's source."""

    def prepare(self) -> None:
        """Have a shape environment."""
        if self.environment is None:
            self.environment = make_shape_environment(self.mode)

    def is_unknown(self, size: Any) -> bool:
        """Whether a size depends on values of tensors."""
        return not isinstance(size, int) and not all(
            symbol.name in self.leaves for symbol in size.node.expr.free_symbols
        )

    def make(
        self, hint: int, source: Source, dimension: int | None, low: int, high: int | None
    ) -> tuple[Leaf, Any]:
        """A new symbol and the SymInt that stands for it."""
        self.prepare()
        name, symbolic = make_symbol(self.environment, len(self.leaves), hint, low, high)
        leaf = self.leaves[name] = Leaf(name, hint, source, dimension, low, high)
        return leaf, symbolic

    def make_fake(
        self, tensor: torch.Tensor, source: Source, dimensions: dict[int, tuple[int, int | None]]
    ) -> torch.Tensor:
        """A fake of `tensor` with these dimensions dynamic, each within its bounds."""
        sizes: list[Leaf | int] = list(tensor.shape)
        symbolic: list[Any] = list(tensor.shape)
        for dimension, (low, high) in dimensions.items():
            sizes[dimension], symbolic[dimension] = self.make(
                tensor.shape[dimension], source, dimension, low, high
            )
        layout = Layout(sizes, relate_strides(sizes, tuple(tensor.shape), tensor.stride()))
        self.layouts[source.key] = layout
        strides = []
        for stride in layout.strides:
            product: Any = stride if isinstance(stride, int) else stride[0]
            for dimension in () if isinstance(stride, int) else stride[1:]:
                product = product * symbolic[dimension]
            strides.append(product)
        return make_dynamic_fake(self.mode, tensor, symbolic, strides)

    def hint_of(self, symbolic: Any) -> Any:
        """The value in this call of a SymInt or SymFloat, without a guard."""
        hints = {name: leaf.hint for name, leaf in self.leaves.items()}
        value = evaluate_expression(symbolic.node.expr, hints)
        return float(value) if isinstance(symbolic, torch.SymFloat) else int(value)

    def write(self, expression: Any, writer: Writer) -> str:
        """Text of an expression in a function being written."""
        writer.namespace.update(NAMES)
        return self._text(expression, lambda leaf: leaf.read(writer))

    def _text(self, expression: Any, read: Callable[[Leaf], str]) -> str:
        text = print_expression(expression)
        if text is None:
            stop(
                "size-expression",
                f"the size {expression} has no Python text",
                "use simpler arithmetic on sizes",
            )
        names = {symbol.name for symbol in expression.free_symbols}
        return re.sub(r"[A-Za-z_]\w*", lambda found: self._rename(found[0], names, read), text)

    def _rename(self, word: str, names: set[str], read: Callable[[Leaf], str]) -> str:
        return read(self.leaves[word]) if word in names else word

    def add_guards(self, guards: GuardSet) -> None:
        """Guards for what the shape environment decided on this call's sizes, and ranges of dynamic ints."""
        for leaf in self.leaves.values():
            if leaf.dimension is None:
                guards.on_value(
                    leaf.source, "dynamic int", f"an int {leaf.range()}", partial(write_int, leaf)
                )
        if self.environment is None:
            return
        for expression in dict.fromkeys(guard.expr for guard in self.environment.guards):
            if not all(symbol.name in self.leaves for symbol in expression.free_symbols):
                stop("data-dependent", f"that {expression} holds depends on the values of a tensor")
            self._verify(expression)
            guards.add(
                ARGUMENTS,
                "sizes",
                self._text(expression, Leaf.describe),
                partial(self.write, expression),
                partial(self._write_actual, expression),
            )

    def _verify(self, expression: Any) -> None:
        """See that a guard's text holds for this very call: it says in Python what was meant in algebra."""
        text = self._text(expression, lambda leaf: f"({leaf.hint})")
        try:
            holds = eval(text, dict(NAMES))
        except Exception:
            holds = False
        if holds is not True:
            stop("size-expression", f"{expression} is not what Python makes of it", "pass the size as it is")

    def _write_actual(self, expression: Any, writer: Writer) -> str:
        leaves = [self.leaves[symbol.name] for symbol in expression.free_symbols]
        return f"({', '.join(leaf.read(writer) for leaf in leaves)},)"


def write_int(leaf: Leaf, writer: Writer, name: str) -> str:
    """The guard on an int that may differ from call to call."""
    return leaf.condition(writer)
