"""Errors about places, which torch's shape rules do not raise and its kernels do.

x.select(1, 5) of a tensor of 3 columns (torch 2.11), select_scatter, slice_scatter
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

aten = torch.ops.aten
SELECTING: dict[Any, tuple[str, ...]] = {
    aten.select.int: ("self", "dim", "index"),
    aten.select_copy.int: ("self", "dim", "index"),
    aten.select_scatter.default: ("self", "src", "dim", "index"),
}
"""What takes one place of a dimension, with the names of its arguments."""
SCATTER = ("self", "src", "dim", "start", "end", "step")
DEFAULTS = {"dim": 0, "start": None, "end": None, "step": 1}


def check_places(run: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise what eager raises for an index out of range, and for a source that does not fit its slice.

    run(func, types, args, kwargs) runs an operation on fakes. Sizes that depend on data are not looked at.
    """
    if func in SELECTING:
        given = {**dict(zip(SELECTING[func], args, strict=False)), **kwargs}
        size, index = given["self"].shape[given["dim"]], given["index"]
        if is_known(size) and is_known(index) and not -size <= index < size:
            raise IndexError(f"select(): index {index} out of range for {size} at dimension {given['dim']}")
    elif func is aten.slice_scatter.default:
        given = {**DEFAULTS, **dict(zip(SCATTER, args, strict=False)), **kwargs}
        place = tuple(given[name] for name in ("self", "dim", "start", "end", "step"))
        wanted, source = run(aten.slice.Tensor, (), place, {}).shape, given["src"].shape
        is_open = not all(map(is_known, (*wanted, *source)))
        if not is_open and (len(wanted) != len(source) or any(map(differ, wanted, source))):
            raise RuntimeError(f"expected a source of {tuple(wanted)}, got {tuple(source)}")


def differ(wanted: Any, size: Any) -> bool:
    return bool(wanted != size)


def is_known(size: Any) -> bool:
    """Whether a size or index is a number, or a symbol that has a value in this call."""
    if not isinstance(size, torch.SymInt):
        return True
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return not free_unbacked_symbols(size)
