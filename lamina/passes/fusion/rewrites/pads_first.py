"""Pad what an elementwise chain reads instead of its result, and put the padding value in place at the end.

    %0 = arith.minimumf %x, 6                 %0 = lamina.pad %x, 0
    %1 = lamina.pad %0, 1             =>      %1 = arith.minimumf %0, 6
                                              %2 = arith.select (inside), %1, 1

A kernel pads only what lies in memory; so the chain and its padding become one kernel. What the chain makes
of the padded places is thrown away.
"""

from __future__ import annotations

from lamina.ir.attributes import Attribute, DenseElementsAttr, integers, plain
from lamina.ir.core import Block, Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.ops.arith import CMPI
from lamina.ir.types import ScalarType, TensorType, i1, i64
from lamina.passes.fusion.graph import is_splat, is_view, kind_of, root_of, shape_of, tensor_type

TRAPS = frozenset(f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi"))
"""Undefined for some operands: not to be computed on places that are thrown away."""
LONGEST_CHAIN = 32


def pads_first(block: Block) -> None:
    """One pass: each pad of a chain that nothing else reads."""
    for operation in block:
        if operation.name == "lamina.pad" and kind_of(operation) == "pad" and is_splat(operation.operand(1)):
            chain = _chain_behind(operation)
            if chain:
                _Padding(operation, chain).rewrite()


def _chain_behind(pad: Operation) -> set[Operation]:
    """The elementwise operations between memory and a pad, when nothing else reads them; else none."""
    chain: set[Operation] = set()
    waiting = [pad.operand()]
    while waiting:
        value = waiting.pop()
        operation = value.defining_op
        if operation is None or operation in chain or is_splat(value) or is_unpadded(pad, operation):
            continue
        if kind_of(operation) == "outside":
            maker = root_of(value).defining_op
            if is_view(operation) and maker is not None and kind_of(maker) != "outside":
                return set()
            continue
        if not is_elementwise(operation) or operation.name in TRAPS or len(chain) > LONGEST_CHAIN:
            return set()
        chain.add(operation)
        waiting.extend(operation.operands)
    is_read_elsewhere = any(
        user is not pad and user not in chain for operation in chain for user in operation.result.users
    )
    return set() if is_read_elsewhere else chain


def is_unpadded(pad: Operation, operation: Operation) -> bool:
    """Whether the operation makes the padded dimensions by broadcasting: it can as well make longer ones."""
    if operation.name != "lamina.broadcast":
        return False
    low, high = plain(pad.attributes["low"]), plain(pad.attributes["high"])
    sizes, dims = shape_of(operation.operand()), plain(operation.attributes["dims"])
    return all(size == 1 or not (low[dim] or high[dim]) for size, dim in zip(sizes, dims, strict=True))


class _Padding:
    """Computes values on the padded shape."""

    def __init__(self, pad: Operation, chain: set[Operation]) -> None:
        self.pad = pad
        self.chain = chain
        self.low, self.high = plain(pad.attributes["low"]), plain(pad.attributes["high"])
        self.shape = shape_of(pad.result)
        self.builder = Builder.before_op(pad)
        self.made: dict[Value, Value] = {}

    def rewrite(self) -> None:
        value = self._value(self.pad.operand())
        self.builder.location = self.pad.location
        filling = self._constant_like(self.pad.operand(1))
        type_ = self.pad.result.type
        chosen = self.builder.value("arith.select", (self._is_inside(), value, filling), type_)
        self.pad.replace_with([chosen])

    def _value(self, value: Value) -> Value:
        found = self.made.get(value)
        if found is None:
            found = self._make(value)
            self.made[value] = found
        return found

    def _make(self, value: Value) -> Value:
        operation = value.defining_op
        element = tensor_type(value).element
        type_ = TensorType.get(self.shape, element)
        if is_splat(value):
            return self._constant_like(value)
        if operation in self.chain and operation is not None:
            operands = [self._value(operand) for operand in operation.operands]
            self.builder.location = operation.location
            return self.builder.value(operation.name, operands, type_, operation.attributes)
        if operation is not None and is_unpadded(self.pad, operation):
            attributes = operation.attributes
            return self.builder.value("lamina.broadcast", operation.operands, type_, attributes)
        filling = self.builder.value(
            "arith.constant", (), TensorType.get((), element), _splat(0, element, ())
        )
        attributes = {"low": integers(*self.low), "high": integers(*self.high)}
        return self.builder.value("lamina.pad", (value, filling), type_, attributes)

    def _constant_like(self, value: Value) -> Value:
        operation = value.defining_op
        assert operation is not None
        dense = operation.attributes["value"]
        assert isinstance(dense, DenseElementsAttr)
        type_ = TensorType.get(self.shape, dense.type.element)
        splat = DenseElementsAttr.splat(dense.splat_value(), type_)
        return self.builder.value("arith.constant", (), type_, {"value": splat})

    def _is_inside(self) -> Value:
        """Whether a place is one of the chain's own."""
        total: Value | None = None
        for dim, size in enumerate(shape_of(self.pad.operand())):
            for is_needed, predicate, bound in (
                (self.low[dim], "sge", self.low[dim]),
                (self.high[dim], "slt", self.low[dim] + size),
            ):
                if is_needed:
                    holds = self._compare(dim, predicate, bound)
                    total = holds if total is None else self._and(total, holds)
        if total is None:
            type_ = TensorType.get(self.shape, i1)
            return self.builder.value("arith.constant", (), type_, _splat(True, i1, self.shape))
        return total

    def _and(self, one: Value, other: Value) -> Value:
        return self.builder.value("arith.andi", (one, other), one.type)

    def _compare(self, dim: int, predicate: str, bound: int) -> Value:
        """`position along dim <predicate> bound`, made on that dimension alone."""
        positions = TensorType.get((self.shape[dim],), i64)
        place = self.builder.value("lamina.iota", (), positions, {"dim": 0})
        limit = self.builder.value("arith.constant", (), positions, _splat(bound, i64, (self.shape[dim],)))
        flags = TensorType.get((self.shape[dim],), i1)
        holds = self.builder.value("arith.cmpi", (place, limit), flags, {"predicate": CMPI.index(predicate)})
        type_ = TensorType.get(self.shape, i1)
        return self.builder.value("lamina.broadcast", (holds,), type_, {"dims": integers(dim)})


def _splat(value: float | int | bool, element: ScalarType, shape: tuple[int, ...]) -> dict[str, Attribute]:
    return {"value": DenseElementsAttr.splat(value, TensorType.get(shape, element))}
