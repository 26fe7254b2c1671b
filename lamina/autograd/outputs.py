"""How a call's outputs are made from its inputs and from what the program computed.

def f(x): y = x + 1; return y, y[0], x      =>      fresh 0, view of result 0, input 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class FreshOutput:
    """The output is result `result` itself; its strides are the result's."""

    result: int


@dataclass(frozen=True, slots=True)
class ViewOutput:
    """The output is `as_strided(base, size, stride, offset)`, of memory read as `dtype`.

    is_input: `base` is the index of an input, else of a result. offset counts from the base's own offset.
    is_cast: the base has another dtype. is_detached: autograd does not know the view as one of its base.
    """

    base: int
    is_input: bool
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    is_cast: bool = False
    is_detached: bool = False


@dataclass(frozen=True, slots=True)
class InputOutput:
    """The output is the very tensor object passed as input `input`."""

    input: int


@dataclass(frozen=True, slots=True)
class SameOutput:
    """The output is the same object as the earlier output `output`."""

    output: int


@dataclass(frozen=True, slots=True)
class ConstantOutput:
    """The output is a Python value known at trace time (None, a number, a string, ...)."""

    value: Any


Output = FreshOutput | ViewOutput | InputOutput | SameOutput | ConstantOutput


def kept_results(outputs: Sequence[Output]) -> list[int]:
    """Results that some output is made of."""
    used = [each.result for each in outputs if isinstance(each, FreshOutput)]
    used += [each.base for each in outputs if isinstance(each, ViewOutput) and not each.is_input]
    return sorted(set(used))


def finish_outputs(
    run: Callable[[Sequence[Any]], list[Any]], outputs: Sequence[Output], positions: Sequence[int], count: int
) -> Callable[[Sequence[Any]], list[Any]]:
    """Wrap `run` so that it takes a graph's `count` inputs and gives its outputs.

    run: from the inputs at `positions` to the kept results. The wrapper is written as Python text.
    """
    kept = {result: place for place, result in enumerate(kept_results(outputs))}
    names: dict[str, Any] = {
        "run": run,
        "as_strided": torch.as_strided,
        "view_detached": view_detached,
        "cast": cast_memory,
    }
    lines: list[str] = []
    for place, output in enumerate(outputs):
        match output:
            case FreshOutput(result):
                text = f"results[{kept[result]}]"
            case ViewOutput(base, is_input, size, stride, offset, dtype, is_cast, is_detached):
                source = f"inputs[{base}]" if is_input else f"results[{kept[base]}]"
                if is_cast:
                    lines.append(f"base = cast({source}, {dtype})")
                    source, names["torch"] = "base", torch
                view = "view_detached" if is_detached and is_input else "as_strided"
                text = f"{view}({source}, {size}, {stride}, {source}.storage_offset() + {offset})"
            case InputOutput(index):
                text = f"inputs[{index}]"
            case SameOutput(earlier):
                text = f"o{earlier}"
            case ConstantOutput(value):
                text = f"constant_{place}"
                names[text] = value
        lines.append(f"o{place} = {text}")
    is_whole = len(positions) == count
    if is_whole and _are_the_results(outputs, kept):
        return run
    chosen = "inputs" if is_whole else "[" + ", ".join(f"inputs[{k}]" for k in positions) + "]"
    given = ", ".join(f"o{place}" for place in range(len(outputs)))
    lines = [f"results = run({chosen})", *lines, f"return [{given}]"]
    source = "def finish(inputs):\n    " + "\n    ".join(lines) + "\n"
    exec(compile(source, "<lamina outputs>", "exec"), names)
    finished: Callable[[Sequence[Any]], list[Any]] = names["finish"]
    return finished


def cast_memory(base: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The memory from a tensor's first element to its last as one dimension of another dtype."""
    steps = zip(base.shape, base.stride(), strict=True)
    reach = 1 + sum((size - 1) * step for size, step in steps) if base.numel() else 0
    return torch.as_strided(base, (reach,), (1,), base.storage_offset()).view(dtype)


def view_detached(
    base: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> torch.Tensor:
    """A view that may be written to where gradients are on, as those of `base.detach()` may."""
    with torch.enable_grad():
        return torch.as_strided(base.detach(), size, stride, offset)


def _are_the_results(outputs: Sequence[Output], kept: dict[int, int]) -> bool:
    """Whether the outputs are the kept results, each once and in order."""
    order = [kept[each.result] for each in outputs if isinstance(each, FreshOutput)]
    return bool(outputs) and len(order) == len(outputs) and order == list(range(len(kept)))
