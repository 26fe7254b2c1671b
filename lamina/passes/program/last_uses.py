"""Where each buffer of a program is used for the last time: after that nobody needs its memory.

    %1 = program.call ...        %0 and %1 live
    %2 = program.view %1         %0, %1 and %2 live
    program.launch @k(%0, %2)    last use of %0 and, by its view %2, of %1

A buffer lives as long as any view of it does, so what liveness says of values is gathered by buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lamina.ir.core import Operation, Value
from lamina.ir.facts import liveness
from lamina.passes.program.to_program import buffer_root


def last_uses(program: Operation) -> dict[Value, Operation]:
    """The operation after which each buffer of a `program.func` is dead; unused arguments are left out."""
    roots: dict[Value, Value] = {}

    def buffers_of(values: Iterable[Value]) -> Counter[Value]:
        for value in values:
            if value not in roots:
                roots[value] = buffer_root(value)
        return Counter(roots[value] for value in values)

    found: dict[Value, Operation] = {}
    solution = liveness(program.region)
    living = buffers_of(solution.at_start[program.body])
    for operation, before, after in solution.walk(program.body):
        gone = buffers_of(before - after)
        living += buffers_of(after - before)
        living -= gone
        # A result that nobody uses dies where it is made.
        for buffer in (*gone, *buffers_of(operation.results)):
            if not living[buffer]:
                found[buffer] = operation
    return found
