"""Let go of what a library call returned after its last use.

    %1 = program.call "aten.mm.default"(...)        %1 = program.call "aten.mm.default"(...)
    program.launch @kernel_0(%1, %2)           =>   program.launch @kernel_0(%1, %2)
                                                    program.free(%1)

A use of a view is a use of the buffer; returned buffers are the caller's.
"""

from __future__ import annotations

from lamina.ir.core import Builder, Operation, Value
from lamina.passes.program.to_program import buffer_root

NAME = "insert_frees"


def run(program: Operation) -> None:
    """Insert the frees of one `program.func`."""
    last: dict[Value, Operation] = {}
    for operation in program.body:
        for value in (*operation.results, *operation.operands):
            root = buffer_root(value)
            owner = root.defining_op
            if owner is not None and owner.name == "program.call":
                last[root] = operation
    views: dict[Value, list[Value]] = {}
    for operation in program.body:
        for result in operation.results:
            root = buffer_root(result)
            if root in last:
                views.setdefault(root, []).append(result)
    for root, operation in last.items():
        if operation.name != "program.return":
            Builder.after_op(operation).op("program.free", views[root])
