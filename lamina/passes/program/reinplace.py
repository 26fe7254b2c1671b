"""Write into an argument at once instead of computing a copy and copying it back.

    %1 = program.call "aten.index_copy.default"(%cache, ...)
    program.copy(%1, %cache)                       =>   program.call "aten.index_copy_.default"(%cache, ...)

    %1 = program.alloc                                  program.launch @k(%x, %x)
    program.launch @k(%x, %1)                      =>
    program.copy(%1, %x)

Legal when nothing reads the argument's old value after that operation. A kernel may read and write one
buffer only when it reads each element where it writes it, and by then is done with all that depends on it, as
pointwise kernels are, whatever else they write in the same loop, and those that normalise rows and write
nothing else. (An argument that is written shares memory with no other one: the trace refuses such calls.)
No kernel writes into an argument before values are checked: a call that fails there has changed nothing, and
is made again in eager, which raises eager's error.
"""

from __future__ import annotations

from collections.abc import Mapping

from lamina.ir.attributes import attribute, plain
from lamina.ir.core import BlockArgument, Operation, Value, symbol_name
from lamina.ir.facts import OVERWRITES, written_buffers
from lamina.ir.types import MemRefType, TensorType
from lamina.passes.program.to_program import buffer_root
from lamina.passes.program.views import has_equal_strides

NAME = "reinplace"
IN_PLACE = {
    f"aten.{packet}.{overload}": f"aten.{packet}_.{overload}"
    for packet, overload in (
        ("index_copy", "default"),
        ("index_put", "default"),
        ("index_add", "default"),
        ("index_fill", "int_Scalar"),
        ("scatter", "src"),
        ("scatter", "value"),
        ("scatter_add", "default"),
        ("masked_fill", "Scalar"),
        ("masked_scatter", "default"),
    )
}
"""Library operations whose first argument can be written in place, with the name of that variant."""
CHECK = "aten._assert_async.msg"
MOVING = frozenset({"lamina.index", "lamina.reverse", "lamina.pad"})
"""Operations in kernels that read elsewhere than they write."""


def run(module: Operation, program: Operation) -> int:
    """Rewrite one `program.func` of the module; returns how many copies went."""
    kernels = {symbol_name(each) or "": each for each in module.body}
    if not any(map(_is_mutation, program.body)):
        return 0
    order = {operation: place for place, operation in enumerate(program.body)}
    last_check = max((order[each] for each in program.body if is_check(each)), default=-1)
    count = 0
    for copy, writers in _find_copies(program):
        if _in_place_call(copy, order) or _in_place_launch(copy, writers, kernels, order, last_check):
            copy.erase()
            count += 1
    return count


Order = Mapping[Operation, int]
"""Where an operation stands in the program."""


def _find_copies(program: Operation) -> list[tuple[Operation, list[Operation]]]:
    """Copies into arguments, each with the writes of what it copies that reach it."""
    found = []
    writers: dict[Value, list[Operation]] = {}
    for operation in program.body:
        if _is_mutation(operation):
            found.append((operation, writers.get(buffer_root(operation.operand()), [])))
        for buffer in written_buffers(operation):
            before = [] if operation.name in OVERWRITES else writers.get(buffer, [])
            writers[buffer] = [*before, operation]
    return found


def _is_mutation(operation: Operation) -> bool:
    """Whether an argument gets its new value here."""
    return operation.name == "program.copy" and isinstance(operation.operand(1), BlockArgument)


def _in_place_call(copy: Operation, order: Order) -> bool:
    source, target = copy.operands
    call = source.defining_op
    if call is None or call.name != "program.call" or call.operand() is not target:
        return False
    name = IN_PLACE.get(plain(call.attributes["callee"]))
    if name is None or not _is_last_use(target, call, copy, order) or source.type is not target.type:
        return False
    if any(buffer_root(value) is target for value in call.operands[1:]) or _is_returned(source, call):
        return False
    call.attributes["callee"] = attribute(name)
    source.replace_all_uses_with(target)
    return True


def is_check(operation: Operation) -> bool:
    """Whether the program fails here for values that eager does not take."""
    return operation.name == "program.call" and plain(operation.attributes["callee"]) == CHECK


def _is_returned(value: Value, call: Operation) -> bool:
    """Whether the caller gets the value, or a view of it, as memory of its own."""
    assert call.parent is not None
    return any(buffer_root(result) is buffer_root(value) for result in call.parent.terminator.operands)


def _in_place_launch(
    copy: Operation,
    writers: list[Operation],
    kernels: Mapping[str, Operation],
    order: Order,
    last_check: int,
) -> bool:
    """`writers` of what is copied: it must be the work of one launch, behind all checks of values."""
    source, target = copy.operands
    buffer = buffer_root(source)
    alloc = buffer.defining_op
    is_whole = isinstance(source.type, MemRefType) and isinstance(target.type, MemRefType)
    if (
        alloc is None
        or alloc.name != "program.alloc"
        or plain(alloc.attributes["space"]) != "arena"
        or not is_whole
    ):
        return False
    assert isinstance(source.type, MemRefType) and isinstance(target.type, MemRefType)
    if not isinstance(buffer.type, MemRefType) or buffer.type.element is not source.type.element:
        return False
    writers = [writer for writer in writers if writer is not alloc]
    if len(writers) != 1 or not has_equal_strides(source.type, target.type) or offset_of(source) != 0:
        return False
    launch = writers[0]
    if launch.name != "program.launch" or not writes(launch, buffer) or order[launch] < last_check:
        return False
    if not _is_last_use(target, launch, copy, order):
        return False
    if not can_write_over(launch, buffer, target, kernels[plain(launch.attributes["kernel"])]):
        return False
    view = Operation("program.view", (target,), (buffer.type,), {"offset": 0}, location=alloc.location)
    assert alloc.parent is not None
    alloc.parent.insert(view, alloc)
    alloc.replace_with([view.result])
    return True


def offset_of(value: Value) -> int:
    """Elements from the start of the root buffer."""
    offset, operation = 0, value.defining_op
    while operation is not None and operation.name == "program.view":
        offset += plain(operation.attributes["offset"])
        operation = operation.operand().defining_op
    return offset


def writes(launch: Operation, buffer: Value) -> bool:
    """Whether a launch writes a buffer (as itself, not as a view)."""
    outputs = plain(launch.attributes["outputs"])
    return buffer in launch.operands[len(launch.operands) - outputs :]


def can_write_over(launch: Operation, output: Value, old: Value, kernel: Operation) -> bool:
    """Whether the launch may write `output` into the memory of `old`, which it may also read."""
    read = [k for k, value in enumerate(launch.operands) if buffer_root(value) is old]
    if not read:
        return True
    if plain(launch.attributes["outputs"]) != 1 and not _is_one_loop(kernel):
        return False
    if not _is_done_before_writing(kernel, output):
        return False
    for position in read:
        value = launch.operand(position)
        if value.type is not output.type or offset_of(value) != 0:
            return False
        if any(user.name in MOVING for user in kernel.body.arguments[position].users):
            return False
    return True


def _is_one_loop(kernel: Operation) -> bool:
    """Whether all outputs are written in one loop, where an element is loaded before anything is stored.

    Pointwise kernels have a loop for each shape among their outputs.
    """
    if plain(kernel.attributes["nests"]) != 1 or plain(kernel.attributes["reduced"]):
        return False
    results = [value.type for value in kernel.body.terminator.operands]
    return len({type_.shape for type_ in results if isinstance(type_, TensorType)}) == 1


def _is_done_before_writing(kernel: Operation, output: Value) -> bool:
    """Whether an element is written only when nothing else needs what lay there.

    So it is where nothing is reduced, and where all is reduced over the same dimensions and the output has
    them all (a softmax over rows): a row depends on itself alone, and no element of it can be known before
    each reduction of the row is complete.
    """
    reduced = plain(kernel.attributes["reduced"])
    if not reduced:
        return True
    assert isinstance(output.type, MemRefType)
    reductions = [each for each in kernel.body if each.name == "lamina.reduce"]
    return (
        plain(kernel.attributes["nests"]) == 1
        and list(output.type.shape) == plain(kernel.attributes["domain"])
        and all(plain(each.attributes["dims"]) == reduced for each in reductions)
    )


def _is_last_use(target: Value, operation: Operation, copy: Operation, order: Order) -> bool:
    """Whether no operation after this one, but the copy back, uses the argument or a view of it."""
    for user in target.users:
        is_read = user.name != "program.view" and user is not copy
        if is_read and order[user] > order[operation]:
            return False
        if buffer_root(target) in map(buffer_root, user.results) and not all(
            _is_last_use(each, operation, copy, order) for each in user.results
        ):
            return False
    return True
