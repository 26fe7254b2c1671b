"""Whether two operations are the same program, and a short stable name for what an operation computes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.text.print import print_module


def equal(a: Operation, b: Operation, *, locations: bool = False) -> bool:
    """Same names, attributes, types, regions and data flow; values are matched by place."""
    return Comparison(locations).operations(a, b)


def text_hash(operation: Operation) -> str:
    """32 hexadecimal digits that depend on the text without locations: equal kernels, equal hash."""
    return hashlib.blake2b(print_module(operation).encode(), digest_size=16).hexdigest()


class Comparison:
    """`values` and `blocks` map what has been met in the first program to its partner in the second."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.values: dict[Value, Value] = {}
        self.blocks: dict[Block, Block] = {}

    def operations(self, a: Operation, b: Operation) -> bool:
        if a.name != b.name or a.attributes != b.attributes or len(a.regions) != len(b.regions):
            return False
        if self.locations and a.location != b.location:
            return False
        if not self._lists(a.operands, b.operands) or not self._lists(a.results, b.results):
            return False
        if len(a.successors) != len(b.successors):
            return False
        if any(self.blocks.get(x, x) is not y for x, y in zip(a.successors, b.successors, strict=True)):
            return False
        return all(self._regions(x, y) for x, y in zip(a.regions, b.regions, strict=True))

    def _lists(self, a: Sequence[Value], b: Sequence[Value]) -> bool:
        """Values met for the first time become partners (a use may come before its definition)."""
        if len(a) != len(b):
            return False
        for x, y in zip(a, b, strict=True):
            if x.type is not y.type or self.values.setdefault(x, y) is not y:
                return False
        return True

    def _regions(self, a: Region, b: Region) -> bool:
        if len(a.blocks) != len(b.blocks):
            return False
        for x, y in zip(a.blocks, b.blocks, strict=True):
            self.blocks[x] = y
            if not self._lists(x.arguments, y.arguments):
                return False
        return all(self._contents(x, y) for x, y in zip(a.blocks, b.blocks, strict=True))

    def _contents(self, a: Block, b: Block) -> bool:
        left, right = list(a), list(b)
        return len(left) == len(right) and all(
            self.operations(x, y) for x, y in zip(left, right, strict=True)
        )
