"""The kinds of kernels, named in reports.

    copy            moves elements only (layout changes, pieces of concatenations)
    pointwise       elementwise operations, broadcasts, gathers
    reduction       elementwise operations into reductions, only reduced values are written
    normalization   reductions broadcast back over what they reduced (softmax, layer norm, norm chains)
    mixed           reductions beside whole values that do not depend on them (siblings over one pass)

and how two groups came together:

    producer-consumer   the second reads what the first computes
    sibling             both read one value
"""

from __future__ import annotations

from lamina.ir.core import Value
from lamina.passes.fusion.atoms import flatten
from lamina.passes.fusion.groups import Group

KINDS = ("copy", "pointwise", "reduction", "normalization", "mixed")
RELATIONS = ("producer-consumer", "sibling")


def name_kind(group: Group) -> str:
    """The kind of a finished group."""
    if not group.has_reduction:
        moves_only = all(node.kind in ("copy", "pad", "reverse") for node in group.nodes)
        return "copy" if moves_only else "pointwise"
    reduced = group.reduced
    after: set[Value] = set()
    is_back, is_full = False, False
    for node in group.nodes:
        follows = node.kind == "reduce" or any(read.base in after for read in node.reads)
        if follows and node.result is not None:
            after.add(node.result)
        walks_row = bool(reduced & set(flatten(node.map)))
        is_back |= follows and walks_row
        is_full |= walks_row and node in group.outputs
    if is_back:
        return "normalization"
    return "mixed" if is_full else "reduction"
