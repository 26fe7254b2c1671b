"""Rewrites of @main right before fusion: other spellings of the same values that fit more kernels."""

from __future__ import annotations

from lamina.ir.core import Block
from lamina.passes.fusion.rewrites import (
    clone_cheap,
    concat_last,
    pads_first,
    slices_first,
    unroll_reductions,
)
from lamina.passes.tensor.dce import sweep

REWRITES = (
    unroll_reductions.unroll_reductions, pads_first.pads_first, concat_last.concat_last,
    slices_first.slices_first, clone_cheap.clone_cheap,
)  # fmt: skip
"""In this order: unrolling makes slices, and what comes before a concatenation is computed piece by piece."""


def prepare(block: Block) -> None:
    """Apply all rewrites, and drop what they leave unused."""
    for rewrite in REWRITES:
        rewrite(block)
    sweep(block)
