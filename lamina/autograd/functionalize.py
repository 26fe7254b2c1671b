"""Values instead of memory: what every tensor of a traced program holds, through views and in-place writes.

    y = x[0]; y.add_(1); z = x * 2
 => y = select(x, 0, 0); y1 = add(y, 1); x1 = select_scatter(x, y1, 0, 0); z = mul(x1, 2)

A `Cell` stands for one piece of memory and holds the node of its newest value. A `View` is a tensor's way to
look at it: the root looks at the whole, others apply one view op to their parent. Reading a view whose cell
was written since replays its op; writing one runs the op backwards up to the root. The algorithm is that of
torch's functionalization (Functionalization in PyTorch, "alias sets with view replay"), with the dispatcher
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from lamina.errors import Unsupported

Tensor = torch.Tensor
Emit = Callable[..., fx.Node]
"""emit(op, *args, val=None, **kwargs): appends a node; without `val` the metadata is computed."""

aten = torch.ops.aten


@dataclass(slots=True)
class Cell:
    """One piece of memory. `version` counts the writes; `input_index` is set for memory of the caller.

    refusal: why it cannot be written, empty when it can.
    """

    node: fx.Node
    input_index: int | None = None
    version: int = 0
    refusal: str = ""


@dataclass(slots=True)
class View:
    """How one tensor looks at a cell: `op(parent, *args)`; the root has no parent.

    value: a fake tensor with the view's metadata; node: the value at `version`.
    """

    cell: Cell
    value: Tensor
    node: fx.Node
    parent: View | None = None
    op: Any = None
    args: tuple[Any, ...] = ()
    version: int = 0

    def chain(self) -> list[View]:
        """The views from the root to this one."""
        views = [self]
        while views[-1].parent is not None:
            views.append(views[-1].parent)
        return views[::-1]

    @property
    def root(self) -> View:
        """The view of the whole cell."""
        view = self
        while view.parent is not None:
            view = view.parent
        return view


def read(view: View, emit: Emit) -> fx.Node:
    """The node of the view's present value; replays view ops behind a write."""
    version = view.cell.version
    if view.version == version:
        return view.node
    for link in view.chain():
        if link.version == version:
            continue
        if link.parent is None:
            link.node = link.cell.node
        else:
            link.node = apply_view(link, link.parent.node, emit)
        link.version = version
    return view.node


def write(view: View, node: fx.Node, emit: Emit) -> None:
    """Make `node` the view's value; `node` has the view's shape and dtype."""
    if view.cell.refusal:
        raise Unsupported("write-to-shared-memory", view.cell.refusal, hint="write to a clone() of it")
    chain = view.chain()
    read(view, emit)
    version = view.cell.version = view.cell.version + 1
    if all(is_invertible(link) for link in chain[1:]):
        for link in reversed(chain):
            link.node, link.version = node, version
            if link.parent is not None:
                node = invert_view(link, node, emit)
    else:
        # The other views of the chain stay behind and are replayed when they are next read.
        root = chain[0]
        root.node = node = _scatter_strided(view, node, emit)
        root.version = version
    view.cell.node = node


def is_invertible(link: View) -> bool:
    """Whether a write through `link` can be told from its op; else it goes through the strides."""
    if link.op is aten.expand.default:
        assert link.parent is not None
        return link.value.numel() == link.parent.value.numel()
    return link.op in INVERSES or link.op in RESHAPES


def apply_view(link: View, parent: fx.Node, emit: Emit) -> fx.Node:
    """The value of `link` from its parent's value."""
    if link.op is aten.as_strided.default:
        return _gather_strided(link, emit)
    if link.op in RESHAPES:
        return emit(aten.reshape.default, parent, list(link.value.shape), val=link.value)
    return emit(LAZY.get(link.op, link.op), parent, *link.args, val=link.value)


def invert_view(link: View, new: fx.Node, emit: Emit) -> fx.Node:
    """The parent's value after `link` was given the value `new`."""
    assert link.parent is not None
    parent = link.parent
    if link.op in RESHAPES:
        return emit(aten.reshape.default, new, list(parent.value.shape), val=parent.value)
    return INVERSES[link.op](link, parent, new, emit)


RESHAPES = frozenset(
    {
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.unsqueeze.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.flatten.using_ints,
        aten._reshape_alias.default,
        aten.unflatten.int,
        aten.view_as.default,
    }
)
"""View ops that change the shape only: as values all of them are one op, reshape."""


def _permute_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    order = [dim % len(parent.value.shape) for dim in link.args[0]]
    back = sorted(range(len(order)), key=order.__getitem__)
    return emit(aten.permute.default, new, back, val=parent.value)


def _transpose_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.transpose.int, new, *link.args, val=parent.value)


def _t_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.t.default, new, val=parent.value)


def _slice_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.slice_scatter.default, parent.node, new, *_slice_bounds(link.args), val=parent.value)


def _slice_bounds(args: tuple[Any, ...]) -> tuple[Any, ...]:
    defaults = (0, None, None, 1)
    return args + defaults[len(args) :]


def _select_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.select_scatter.default, parent.node, new, *link.args, val=parent.value)


def _diagonal_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.diagonal_scatter.default, parent.node, new, *link.args, val=parent.value)


def _expand_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.reshape.default, new, list(parent.value.shape), val=parent.value)


def _same_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return new


def _dtype_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.view.dtype, new, parent.value.dtype, val=parent.value)


def _real_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.view_as_complex.default, new, val=parent.value)


def _complex_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(aten.view_as_real.default, new, val=parent.value)


LAZY = {aten._conj.default: aten._conj_physical.default, aten._neg_view.default: aten.neg.default}
"""Views that only set a bit, and the op that does as they say."""


def _lazy_back(link: View, parent: View, new: fx.Node, emit: Emit) -> fx.Node:
    return emit(LAZY[link.op], new, val=parent.value)


INVERSES: dict[Any, Callable[[View, View, fx.Node, Emit], fx.Node]] = {
    aten.permute.default: _permute_back,
    aten.transpose.int: _transpose_back,
    aten.t.default: _t_back,
    aten.slice.Tensor: _slice_back,
    aten.select.int: _select_back,
    aten.diagonal.default: _diagonal_back,
    aten.expand.default: _expand_back,
    aten.alias.default: _same_back,
    aten.detach.default: _same_back,
    aten.lift_fresh.default: _same_back,
    aten.view.dtype: _dtype_back,
    aten.view_as_real.default: _real_back,
    aten.view_as_complex.default: _complex_back,
    aten._conj.default: _lazy_back,
    aten._neg_view.default: _lazy_back,
}
"""How a write through a view changes its parent. What is missing here goes through the strides."""


# Views known only by their strides. The root's elements are laid out in memory order, so that a memory place
# is an index; this needs a root without holes or overlaps.


def memory_order(value: Tensor) -> list[int] | None:
    """The dims of `value` from the widest stride to the narrowest, or None if its memory has holes."""
    order = sorted(range(value.dim()), key=lambda dim: (value.stride(dim), value.shape[dim]), reverse=True)
    expected = 1
    for dim in reversed(order):
        if value.shape[dim] == 1:
            continue
        if value.stride(dim) != expected:
            return None
        expected *= value.shape[dim]
    return order


def may_overlap(value: Tensor) -> bool:
    """Whether two elements may share a place; exact for all but contrived strides."""
    reach = 0
    for step, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size == 1:
            continue
        if step <= reach:
            return value.numel() > 0
        reach += (size - 1) * step
    return False


def _flat_root(root: View, emit: Emit) -> fx.Node:
    order = memory_order(root.value)
    if order is None or root.value.numel() == 0:
        raise Unsupported(
            "strided-view", "a view by strides (as_strided, unfold) of a tensor whose memory has holes"
        )
    permuted = emit(aten.permute.default, root.node, order)
    return emit(aten.reshape.default, permuted, [root.value.numel()])


def _places(view: Tensor, root: Tensor, emit: Emit) -> fx.Node:
    """An int64 node of the view's shape: the place of each element within the root's memory."""
    first = int(view.storage_offset()) - int(root.storage_offset())
    last = first + sum((size - 1) * step for size, step in zip(view.shape, view.stride(), strict=True))
    if first < 0 or last >= root.numel() or view.dtype != root.dtype:
        raise Unsupported("strided-view", "a view by strides reaches beyond the tensor it was made from")
    places = emit(aten.full.default, [1] * view.dim(), first, dtype=torch.int64)
    for dim, (size, step) in enumerate(zip(view.shape, view.stride(), strict=True)):
        if size == 1 or step == 0:
            continue
        line = emit(aten.arange.start_step, 0, size * step, step, dtype=torch.int64)
        shape = [size if index == dim else 1 for index in range(view.dim())]
        places = emit(aten.add.Tensor, places, emit(aten.reshape.default, line, shape))
    return emit(aten.expand.default, places, list(view.shape))


def _gather_strided(link: View, emit: Emit) -> fx.Node:
    flat = _flat_root(link.root, emit)
    return emit(aten.index.Tensor, flat, [_places(link.value, link.root.value, emit)])


def _scatter_strided(link: View, new: fx.Node, emit: Emit) -> fx.Node:
    """The root's value after a write through `link`."""
    root = link.root.value
    if may_overlap(link.value):
        raise Unsupported(
            "write-to-overlapping",
            "the program writes to a tensor several elements of which are one place in memory",
            hint="clone() the tensor before the write",
        )
    flat = _flat_root(link.root, emit)
    flat = emit(aten.index_put.default, flat, [_places(link.value, root, emit)], new)
    order = memory_order(root) or []
    wide = emit(aten.reshape.default, flat, [root.shape[dim] for dim in order])
    back = sorted(range(len(order)), key=order.__getitem__)
    return emit(aten.permute.default, wide, back, val=root)
