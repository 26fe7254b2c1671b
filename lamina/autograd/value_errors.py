"""ATen operations that raise for some values of their tensors: they run whether or not their result is used.

x[i]            an index out of bounds
n // m          an integer division by zero
eigh(a)         a matrix for which an algorithm does not converge
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

INDEXED = frozenset(
    {
        "_ctc_loss", "_embedding_bag", "_embedding_bag_forward_only", "_unsafe_index_put",
        "cross_entropy_loss", "embedding", "embedding_bag", "gather", "index", "index_add", "index_copy",
        "index_fill", "index_put", "index_reduce", "index_select", "masked_scatter", "max_unpool2d",
        "max_unpool3d", "multi_margin_loss", "multilabel_margin_loss_forward", "nll_loss", "nll_loss2d",
        "nll_loss2d_forward", "nll_loss_forward", "put", "scatter", "scatter_add", "scatter_reduce",
        "searchsorted", "segment_reduce", "take",
    }
)  # fmt: skip
"""By indices, class numbers or lengths among their operands."""
SOLVED = frozenset(
    {
        "_linalg_eigh", "_linalg_svd", "_linalg_eigvals", "linalg_eig", "linalg_lstsq", "geqrf", "linalg_qr",
        "linalg_inv_ex", "cholesky", "cholesky_inverse", "lu_unpack", "_linalg_solve_ex", "histc",
        "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "histogram", "binary_cross_entropy",
    }
)  # fmt: skip
"""By numbers that an algorithm does not take, nan among them."""
DIVIDED = frozenset({"div", "floor_divide", "remainder", "fmod"})
"""By a zero among integers."""


def may_raise(node: fx.Node) -> bool:
    """Whether a node of a functional graph raises for some values of its operands."""
    target: Any = node.target
    packet = getattr(target, "overloadpacket", None)
    if packet is None or target.namespace != "aten":
        return False
    name = packet.__name__
    if name in DIVIDED:
        return is_integer_division(node)
    return name in INDEXED or name in SOLVED


def is_integer_division(node: fx.Node) -> bool:
    """Whether a node divides by integers that only the running program knows."""
    divisor = node.args[1]
    value = node.meta["val"]
    is_whole = isinstance(value, torch.Tensor) and not (
        value.dtype.is_floating_point or value.dtype.is_complex
    )
    return is_whole and isinstance(divisor, fx.Node)
