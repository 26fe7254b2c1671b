"""Let go of what a library call returned after its last use.

    %1 = program.call "aten.mm.default"(...)        %1 = program.call "aten.mm.default"(...)
    program.launch @kernel_0(%1, %2)           =>   program.launch @kernel_0(%1, %2)
                                                    program.free(%1)

A use of a view is a use of the buffer; returned buffers are the caller's.
"""

from __future__ import annotations

from lamina.ir.core import Builder, Operation, Value
from lamina.passes.program.last_uses import last_uses
from lamina.passes.program.to_program import buffer_root

NAME = "insert_frees"


def run(program: Operation) -> None:
    """Insert the frees of one `program.func`."""
    last = {
        root: operation
        for root, operation in last_uses(program).items()
        if root.defining_op is not None and root.defining_op.name == "program.call"
    }
    views: dict[Value, list[Value]] = {}
    for operation in program.body:
        for result in operation.results:
            root = buffer_root(result)
            if root in last:
                views.setdefault(root, []).append(result)
    for root, operation in last.items():
        if operation.name != "program.return":
            Builder.after_op(operation).op("program.free", views[root])
