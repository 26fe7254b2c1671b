"""The result of capture: a torch-level graph and all that is needed to call it instead of the user's code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from lamina.capture.breaks.resume_point import ResumePoint
from lamina.capture.generated import Writer
from lamina.capture.guards import NATIVELY, GuardSet, write_question
from lamina.capture.identities import Checker
from lamina.capture.layouts import Leaf
from lamina.capture.sources import Source
from lamina.capture.values.sizes import NumberValue, constant_of
from lamina.capture.values.tensor import TensorValue
from lamina.errors import Unsupported


class Captured:
    """One captured call.

    match(args, kwargs)                the graph's inputs in the order of its placeholders, or None where the
                                       capture does not hold for these arguments
    finish(outputs, args, kwargs)      the user's result; replays side effects on the real objects
    graph_module                       takes the inputs, returns a tuple of tensors
    example_inputs                     fake tensors as the inputs are before the call
    varying                            (input, dimension) of each size that differs from call to call; the
                                       dimension is None for a number
    mutated_inputs                     indices of inputs that the graph writes to in place
    effect_count                       how many outside changes `finish` makes
    pause                              where the capture ends before the call does: then `finish` gives the
                                       values of the frame at that point, and `reason` says why
    """

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        inputs: list[TensorValue | NumberValue],
        guards: GuardSet,
        finish: Writer,
        effect_count: int,
        mutated_inputs: list[int],
        pause: ResumePoint | None = None,
    ) -> None:
        self.graph_module = graph_module
        self.sources: list[Source] = [value.source for value in inputs]
        places = {
            place: is_open for k, value in enumerate(inputs) for place, is_open in list_places(k, value)
        }
        # Where the program pins all, the compile is to find out which operation does.
        self.varying = [place for place, is_open in places.items() if is_open] or list(places)
        self.example_inputs: list[Any] = [value.node.meta["example_value"] for value in inputs]
        self.guards = guards
        self.effect_count = effect_count
        self.mutated_inputs = mutated_inputs
        self.pause = pause
        self.reason: Unsupported | None = None
        self.match, self._match_text = guards.build_match(self.sources)
        self.finish: Callable[[Sequence[torch.Tensor], Sequence[Any], dict[str, Any]], Any] = finish.build()
        self._finish_text = finish.text()

    def check_natively(self, make: Checker) -> None:
        """Let identities be checked by native code, where they are many."""
        rows = self.guards.list_rows()
        check = make(rows) if rows else None
        if check is None:
            return
        # Versions are those of now, so what they stand for must still be as it was captured.
        if self.guards.hold_versions() if check() else self.guards.hold_identities():
            namespace: dict[str, Any] = self.match.__globals__
            namespace[NATIVELY] = check

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the capture holds for these arguments."""
        return self.match(args, kwargs) is not None

    def fetch_inputs(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The graph's inputs for arguments for which the capture is taken to hold."""
        fetch = Writer("fetch_inputs", "args, kwargs")
        names = [source.expression(fetch) for source in self.sources]
        fetch.add(f"return [{', '.join(names)}]")
        inputs: list[Any] = fetch.build()(args, kwargs)
        return inputs

    @property
    def reads_values(self) -> bool:
        """Whether sizes or numbers in the graph depend on the values of tensors."""
        return any(node.meta.get("reads_values") for node in self.graph_module.graph.nodes)

    @property
    def is_checked(self) -> bool:
        """Whether the graph checks what it assumes of such sizes: then it writes to no input."""
        return any(node.meta.get("checks") for node in self.graph_module.graph.nodes)

    @property
    def has_history(self) -> bool:
        """Whether eager would make tensors that autograd follows back to others."""
        return any(node.meta.get("has_history") for node in self.graph_module.graph.nodes)

    def forget_examples(self) -> None:
        """Free the fake tensors of a graph that is compiled for good: calls need `match` and `finish`."""
        self.example_inputs = []
        for node in self.graph_module.graph.nodes:
            node.meta.clear()

    def explain_failure(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """The guard that fails first for these arguments, with expected and actual; empty if all hold."""
        reason = self.guards.explain(tuple(args), kwargs)
        if not reason and not self.check(args, kwargs):
            return "the tensors: expected different objects, got one more than once"
        return reason

    def guards_text(self) -> str:
        """One line a guard: what is assumed."""
        return "\n".join(f"{guard.subject}: {guard.expected}" for guard in self.guards.ordered())

    def generated_text(self) -> str:
        """The generated functions, for debugging."""
        asked = write_question(self.guards.identities).text(guarded=True) if self.guards.identities else ""
        return "\n".join((asked + self._match_text, self._finish_text))

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the captured graph as it is: the meaning every back end must keep."""
        outputs = self.graph_module(*self.fetch_inputs(args, kwargs))
        return self.finish(outputs, args, kwargs)


def list_places(index: int, value: TensorValue | NumberValue) -> list[tuple[tuple[int, int | None], bool]]:
    """What of one input was captured as varying, and whether the guards leave it open."""
    if type(value) is NumberValue:
        return [((index, None), not is_pinned(value.symbolic))]
    layout = value.builder.symbols.layouts.get(value.source.key)
    sizes = () if layout is None else layout.sizes
    return [
        ((index, dimension), not is_pinned(symbol))
        for dimension, (size, symbol) in enumerate(zip(sizes, value.fake.shape, strict=False))
        if isinstance(size, Leaf)
    ]


def is_pinned(symbol: Any) -> bool:
    """Whether the program decided on one value of what could have varied: a guard says so."""
    return isinstance(symbol, int) or (isinstance(symbol, torch.SymInt) and constant_of(symbol) is not None)
