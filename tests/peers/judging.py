"""Judges one call of a strange program: eager against `lamina.compile`, cold and warm, from equal states."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

import lamina
from tests.parity.compare import copy_arguments, find_difference, widen

SEED = 0
Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass
class Outcome:
    """same, asked, differs, refused (compiled raises, eager does not), skipped (eager raises) or late.

    asked: same as eager is when `torch.compiler.is_compiling()` is true, and the program asks that.

    is_whole: one compiled graph and nothing beside it; breaks: `code: message @ line` each; reason: what differs.
    """

    verdict: str
    is_whole: bool = False
    breaks: list[str] = dataclasses.field(default_factory=list)
    reason: str = ""

    def line(self) -> str:
        """One word, or the word and what stopped the capture: what is kept in a results file."""
        if self.verdict not in ("same", "asked"):
            return f"{self.verdict} {self.reason}".strip()
        return (
            "whole"
            if self.is_whole
            else "same " + "; ".join(sorted({text.split(":")[0] for text in self.breaks}))
        )


NO_SAMPLE = "no sample that eager takes"


def worst(outcomes: Iterable[Outcome], otherwise: str = "") -> Outcome:
    """The first outcome that is wrong, else one that is not whole, over samples that eager takes.

    Where it takes none: skipped for the reason `otherwise`, without one for that of the first sample.
    """
    found: Outcome | None = None
    skipped = Outcome("skipped", reason=otherwise) if otherwise else None
    for number, outcome in enumerate(outcomes):
        if outcome.verdict == "skipped":
            skipped = skipped or outcome
            continue
        if outcome.verdict != "same":
            outcome.reason = f"sample {number}: {outcome.reason}"
            return outcome
        if found is None or (found.is_whole and not outcome.is_whole):
            found = outcome
    return found or skipped or Outcome("skipped", reason=NO_SAMPLE)


def judge(program: Callable[..., Any], make_call: Callable[[], Call], backend: Any = None) -> Outcome:
    """Call `program` (a function or a module, which is copied) eagerly and compiled, twice, with grad mode off.

    Every call gets arguments of its own and starts from the same random state.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lamina.reset()
        calls = [make_call() for _ in range(3)]
        eager, ours = copy_program(program), copy_program(program)
        try:
            expected = run(eager, calls[0])
        except Exception as error:
            return Outcome("skipped", reason=f"eager raises {type(error).__name__}: {error}")
        compiled = lamina.compile(ours, backend=backend)
        outcome = Outcome("same")
        for number in (1, 2):
            fresh = copy_program(program) if number == 2 else None
            if fresh is not None:
                restore(ours, fresh)
            try:
                actual = run(compiled, calls[number])
            except Exception as error:
                return Outcome("refused", reason=f"{type(error).__name__}: {error}"[:300])
            difference = compare(program, expected, actual, [calls[0], calls[number]], make_call)
            difference = difference or compare_state(eager, ours)
            if difference and not compare(
                program, run_asked(program, make_call()), actual, [calls[number], calls[number]], make_call
            ):
                outcome.verdict, outcome.reason = "asked", "it asks torch.compiler.is_compiling()"
            elif difference:
                outcome.verdict, outcome.reason = "differs", f"call {number}: {difference}"[:300]
                break
        describe(outcome, compiled, make_call())
        return outcome


def describe(outcome: Outcome, compiled: Any, call: Call) -> None:
    """What was compiled and what stopped."""
    explanation = lamina.explain(compiled, *call[0], **call[1])
    for each in explanation.breaks:
        outcome.breaks.append(f"{each['code']}: {each['message']} @ {each['location']}")
    for graph in explanation.graphs:
        if graph.eager_reason:
            outcome.breaks.append(f"eager graph: {graph.eager_reason}")
    outcome.is_whole = len(explanation.graphs) == 1 and not outcome.breaks


def run(function: Callable[..., Any], call: Call) -> Any:
    torch.manual_seed(SEED)
    return function(*call[0], **call[1])


def run_asked(program: Any, call: Call) -> Any:
    """Eager's result while `torch.compiler.is_compiling()` is true."""
    asked = ("is_compiling", "is_dynamo_compiling")
    real = {name: getattr(torch.compiler, name) for name in asked}
    try:
        for name in asked:
            setattr(torch.compiler, name, lambda: True)
        return run(copy_program(program), call)
    except Exception as error:
        return error
    finally:
        for name, function in real.items():
            setattr(torch.compiler, name, function)


def copy_program(program: Any) -> Any:
    return copy.deepcopy(program) if isinstance(program, torch.nn.Module) else program


def restore(module: Any, fresh: Any) -> None:
    """Give a module the buffers of a fresh copy again."""
    if isinstance(module, torch.nn.Module):
        for (_, old), (_, new) in zip(module.named_buffers(), fresh.named_buffers(), strict=False):
            if old.shape == new.shape:
                old.copy_(new)


def compare(program: Any, expected: Any, actual: Any, calls: list[Call], make_call: Any) -> str:
    """How results and arguments differ; a higher precision decides between two that are near each other."""
    both = simplify(expected), simplify(actual)
    if type(expected) is not type(actual) and not is_same_local_class(type(expected), type(actual)):
        return f"a {type(actual).__name__}, not a {type(expected).__name__}"
    arguments = simplify(calls[0]), simplify(calls[1])
    difference = find_difference(*both, arguments)
    if difference and "values" in difference:
        exact = run_exactly(program, make_call())
        difference = find_difference(*both, arguments, exact=exact)
    return difference


def is_same_local_class(one: type, other: type) -> bool:
    """Whether both were made by the same statement inside a function, which makes a new class each time."""
    if (one.__module__, one.__qualname__) != (other.__module__, other.__qualname__):
        return False
    return getattr(sys.modules.get(one.__module__), one.__qualname__, None) is not one


def compare_state(eager: Any, ours: Any) -> str:
    """How buffers differ after the calls."""
    if not isinstance(eager, torch.nn.Module):
        return ""
    pairs = zip(eager.named_buffers(), ours.named_buffers(), strict=True)
    for (name, one), (_, other) in pairs:
        difference = find_difference(one, other, ((), ()))
        if difference:
            return f"buffer {name}: {difference}"
    return ""


def run_exactly(program: Any, call: Call) -> Any:
    """The result in double precision, None where that does not run."""
    try:
        wide = copy_program(program)
        if isinstance(wide, torch.nn.Module):
            wide = wide.double()
        return simplify(run(wide, widen(copy_arguments(call))))
    except Exception:
        return None


def simplify(value: Any, depth: int = 0) -> Any:
    """Outputs of any class as tuples, lists and dicts of tensors and plain values."""
    if isinstance(value, torch.Tensor) or depth > 12:
        return value
    if isinstance(value, dict):
        return {str(key): simplify(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [simplify(item, depth + 1) for item in value]
    if isinstance(
        value, int | float | str | bool | complex | bytes | type(None) | torch.dtype | torch.device
    ):
        return value
    if inspect.isroutine(value) or isinstance(value, type | torch.nn.Module):
        return type(value).__name__
    entries = getattr(value, "__dict__", None)
    return type(value).__name__ if entries is None else simplify(dict(entries), depth + 1)
