"""Whether a launch is worth several threads, where that is known only when the program is bound to sizes.

program.launch @k(%x, %y) {sizes = [s0], work = [64*s0, 24*s0]}   =>   {sizes = [37], threads = 1}
"""

from __future__ import annotations

from lamina.ir.attributes import attribute, plain
from lamina.ir.core import Operation
from lamina.ir.machine import Target
from lamina.ir.ops import is_elementwise
from lamina.ir.sizes import Size
from lamina.ir.types import TensorType, element_count
from lamina.passes.loops.costs import operation_cost
from lamina.passes.loops.schedule import is_worth_sharing


def work_of(kernel: Operation) -> tuple[Size, Size]:
    """Bytes that a tensor-level kernel function moves, and the scalar operations it does."""
    moved: Size = 0
    for value in (*kernel.body.arguments, *kernel.body.terminator.operands):
        assert isinstance(value.type, TensorType)
        moved = moved + element_count(value.type) * value.type.element.bytes
    steps: Size = 0
    for operation in kernel.body:
        if operation.name == "lamina.reduce" or (is_elementwise(operation) and operation.operands):
            type_ = operation.operand().type
            assert isinstance(type_, TensorType)
            steps = steps + element_count(type_) * operation_cost(operation.name)
    return moved, steps


def share(launch: Operation, target: Target) -> None:
    """Decide for a launch whose `work` is known by now."""
    work = launch.attributes.pop("work", None)
    if work is None:
        return
    moved, steps = plain(work)
    lanes = max(1, target.vector_bits // 32)
    if not is_worth_sharing(moved, steps / lanes, target):
        launch.attributes["threads"] = attribute(1)
