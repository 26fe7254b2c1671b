"""Let a kernel write its output over an input that nobody needs any more.

    %1 = program.call "aten.mm.default"(...)         %1 = program.call "aten.mm.default"(...)
    %2 = program.alloc {space = "arena"}        =>   program.launch @k(%1, %1)
    program.launch @k(%1, %2)

The output then lies in cache already, and the arena is smaller. Legal for kernels that `can_write_over` their
input, when the input's buffer is an intermediate of the program's own with no later use: an arena buffer, or
what a library call returns that is not marked as `aliases`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lamina.ir.attributes import plain
from lamina.ir.core import Builder, Operation, Value, symbol_name
from lamina.ir.types import MemRefType, element_count
from lamina.passes.program.last_uses import last_uses
from lamina.passes.program.reinplace import can_write_over, offset_of
from lamina.passes.program.to_program import buffer_root

NAME = "write_over"


def run(module: Operation, program: Operation) -> int:
    """Rewrite one `program.func` of the module; returns how many outputs lie over an input."""
    kernels = {symbol_name(each) or "": each for each in module.body}
    position = {operation: place for place, operation in enumerate(program.body)}
    last = {buffer: position[operation] for buffer, operation in last_uses(program).items()}
    count = 0
    for launch in position:
        if launch.name == "program.launch" and _rewrite(launch, kernels, last, position[launch]):
            count += 1
    return count


def _rewrite(launch: Operation, kernels: Mapping[str, Operation], last: dict[Value, int], place: int) -> bool:
    if plain(launch.attributes["outputs"]) != 1:
        return False
    output = launch.operands[-1]
    alloc = output.defining_op
    if alloc is None or alloc.name != "program.alloc" or plain(alloc.attributes["space"]) != "arena":
        return False
    kernel = kernels[plain(launch.attributes["kernel"])]
    for value in launch.operands[:-1]:
        old = buffer_root(value)
        is_over = last[old] == place and value.type is output.type and offset_of(value) == 0
        if is_over and _is_own(old, output) and can_write_over(launch, output, old, kernel):
            _lay_over(launch, alloc, output, old)
            last[old] = last[output]
            return True
    return False


def _is_own(old: Value, output: Value) -> bool:
    """Whether a buffer is an intermediate of this program, as large as the output."""
    owner = old.defining_op
    if owner is None or not isinstance(old.type, MemRefType) or not isinstance(output.type, MemRefType):
        return False
    is_arena = owner.name == "program.alloc" and plain(owner.attributes["space"]) == "arena"
    is_fresh = owner.name == "program.call" and "aliases" not in owner.attributes
    same_element = old.type.element is output.type.element
    return (is_arena or is_fresh) and same_element and element_count(old.type) == element_count(output.type)


def _lay_over(launch: Operation, alloc: Operation, output: Value, old: Value) -> None:
    """The output's first use is the launch, and by then `old` is made."""
    view = Builder.before_op(launch).value("program.view", (old,), output.type, {"offset": 0})
    alloc.replace_with([view])
