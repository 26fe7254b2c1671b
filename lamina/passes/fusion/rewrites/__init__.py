"""Rewrites of @main right before fusion: other spellings of the same values that fit more kernels."""

from __future__ import annotations

from lamina.ir.core import Block
from lamina.passes.fusion.rewrites import clone_cheap, concat_last, slices_first, unroll_reductions

REWRITES = (
    unroll_reductions.unroll_reductions, concat_last.concat_last, slices_first.slices_first,
    clone_cheap.clone_cheap,
)  # fmt: skip
"""In this order: unrolling makes slices, and what comes before a concatenation is computed piece by piece."""


def prepare(block: Block) -> None:
    """Apply all rewrites."""
    for rewrite in REWRITES:
        rewrite(block)
