"""Convolutions of batches whose size varies.

    x: (s0, 64, 14, 14)     torch chooses its library by whether there are 16 images: s0 >= 16, or not

The choice shows in nothing but the layout of the result, and seldom there. Where it does not, one result
serves all batches and nothing is taken for granted of their size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
CONVOLUTION: Any = aten.convolution.default
BATCHES = (2, 16)
"""Batches that torch tells apart."""


def run_for_all_batches(
    run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> FakeTensor | None:
    """The result of a convolution of fakes, with no condition on its batch; None where there is none such.

    run: a fake mode's own dispatch.
    """
    x = args[0]
    batch, *rest = x.shape
    strides = x.stride()
    if not isinstance(batch, torch.SymInt) or any(
        map(symbols_of(batch).intersection, map(symbols_of, strides))
    ):
        return None
    options = {"dtype": x.dtype, "device": x.device}
    found = []
    for number in BATCHES:
        image = run(aten.empty_strided.default, (), ((number, *rest), strides), options)
        found.append(run(CONVOLUTION, (), (image, *args[1:]), kwargs))
    layouts = [[each if isinstance(each, int) else each.node.expr for each in one.stride()] for one in found]
    if layouts[0] != layouts[1]:
        return None
    sizes = (batch, *found[0].shape[1:])
    made: FakeTensor = run(aten.empty_strided.default, (), (sizes, found[0].stride()), options)
    return made


def symbols_of(size: Any) -> set[Any]:
    """The symbols in a size or stride."""
    return set() if isinstance(size, int) else set(size.node.expr.free_symbols)
