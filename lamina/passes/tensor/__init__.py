"""Passes on the tensor level, and the order in which the pipeline runs them.

`SIMPLIFY` may run anywhere and any number of times. `PREPARE_WEIGHTS` is for programs whose weights stay: it
folds and packs them, and ends with the function @prepare.
"""

from __future__ import annotations

from lamina.ir.passes import Pass
from lamina.passes.tensor import (
    canonicalize,
    cse,
    dce,
    expand,
    fold,
    fold_batch_norm,
    layout,
    merge_linears,
    pack_convolution,
    pack_linear,
    pack_lstm,
    prepare,
    split_reduction,
)

CANONICALIZE = Pass(canonicalize.NAME, canonicalize.run, takes="tensor", gives="tensor")
CSE = Pass(cse.NAME, cse.run)
DCE = Pass(dce.NAME, dce.run)
EXPAND = Pass(expand.NAME, expand.run, takes="tensor", gives="tensor", is_required=True)
FOLD = Pass(fold.NAME, fold.run, takes="tensor", gives="tensor")
FOLD_BATCH_NORM = Pass(fold_batch_norm.NAME, fold_batch_norm.run, takes="tensor", gives="tensor")
MERGE_LINEARS = Pass(merge_linears.NAME, merge_linears.run, takes="tensor", gives="tensor")
PACK_CONVOLUTION = Pass(pack_convolution.NAME, pack_convolution.run, takes="tensor", gives="tensor")
PACK_LINEAR = Pass(pack_linear.NAME, pack_linear.run, takes="tensor", gives="tensor")
PACK_LSTM = Pass(pack_lstm.NAME, pack_lstm.run, takes="tensor", gives="tensor")
LAYOUT = Pass(layout.NAME, layout.run, takes="tensor", gives="tensor")
SPLIT_REDUCTION = Pass(split_reduction.NAME, split_reduction.run, takes="tensor", gives="tensor")
PREPARE = Pass(prepare.NAME, prepare.run, takes="tensor", gives="tensor")

SIMPLIFY = (CANONICALIZE, CSE)
PREPARE_WEIGHTS = (
    FOLD_BATCH_NORM, MERGE_LINEARS, PACK_CONVOLUTION, PACK_LINEAR, PACK_LSTM, LAYOUT, *SIMPLIFY, PREPARE,
)  # fmt: skip
PASSES = (EXPAND, *SIMPLIFY, *PREPARE_WEIGHTS, SPLIT_REDUCTION, DCE)
"""The tensor level from import to fusion."""
REGISTRY = {each.name: each for each in (*PASSES, FOLD)}
"""By name, for pipelines as text."""
