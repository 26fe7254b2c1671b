"""Memory traffic: bytes that eager, Lamina and the least possible program read plus write.

A kernel or library call reads each distinct value of memory once and writes its results once; a gather
reads at most as many elements as it gives; views and the flags of checks are free, and so is a
concatenation whose pieces are written in place. Eager runs each operation by itself. The least possible
reads every input that is used and writes every result, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.ir.attributes import ArrayAttr, plain
from lamina.ir.core import Block, BlockArgument, Operation, Value, lookup
from lamina.ir.ops.aten import GATHERS
from lamina.ir.sizes import hint
from lamina.ir.types import TensorType
from lamina.passes.fusion.graph import VIEWS, bytes_of, is_splat, root_of
from lamina.passes.fusion.scatter_in_place import is_in_place, touched_bytes

FREE = frozenset({"arith.constant", "func.return", *VIEWS})


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one operation reads and writes."""

    operation: Operation
    read: int
    written: int

    @property
    def bytes(self) -> int:
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of a whole function."""

    eager: int
    lamina: int
    least: int


def of_function(module: Operation, source: str = "main") -> list[Traffic]:
    """Traffic of each operation of a function at tensor level, fused (outlined or not) or not."""
    function = lookup(module, source)
    found = []
    for operation in function.body:
        if operation.name not in FREE and not is_placed(operation):
            found.append(Traffic(operation, bytes_in(module, operation), bytes_out(operation)))
    for value in dict.fromkeys(function.body.terminator.operands):
        if is_splat(value) and (owner := value.defining_op) is not None:
            found.append(Traffic(owner, 0, bytes_of(value)))
    return found


def total(module: Operation, source: str = "main") -> int:
    """Bytes read plus written by the whole function."""
    return sum(entry.bytes for entry in of_function(module, source))


def least(module: Operation, source: str = "main") -> int:
    """Inputs that anything uses, once, plus results, once (each distinct memory)."""
    function = lookup(module, source)
    used = {root_of(value) for operation in function.body for value in operation.operands}
    inputs = [argument for argument in function.body.arguments if argument in used]
    results = {root_of(value) for value in function.body.terminator.operands} - set(inputs)
    gathered = _gathered_inputs(function)
    read = sum(min(stored_bytes(each), gathered.get(each, stored_bytes(each))) for each in inputs)
    once = read + sum(map(bytes_of, results))
    # A scatter in place touches less than its operand: then what the program does is the least known.
    return min(once, total(module, source))


def _gathered_inputs(function: Operation) -> dict[Value, int]:
    """Arguments that are only gathered from, with the bytes that are read of each at most."""
    found: dict[Value, int] = {}
    for argument in function.body.arguments:
        users = argument.users
        gathers = [user for user in users if user.name in GATHERS or user.name == "lamina.index"]
        if users and len(gathers) == len(users) and all(user.operand() is argument for user in users):
            found[argument] = sum(bytes_of(user.results[0]) for user in users)
    return found


def bytes_out(operation: Operation) -> int:
    """Bytes that an operation writes."""
    if is_in_place(operation):
        return touched_bytes(operation)
    return sum(bytes_of(value) for value in operation.results if not is_check(value))


def bytes_in(module: Operation, operation: Operation) -> int:
    """Distinct bytes that an operation reads: views of one memory count at most as much as all of it."""
    gathered = gathered_operands(module, operation)
    windows: dict[Value, dict[Value, int]] = {}
    for position, value in enumerate(operation.operands):
        if is_splat(root_of(value)) or is_check(value) or (position == 0 and is_in_place(operation)):
            continue
        window = window_of(value)
        size = min(stored_bytes(window), gathered.get(position, stored_bytes(window)))
        per_root = windows.setdefault(root_of(value), {})
        per_root[window] = max(per_root.get(window, 0), size)
    return sum(min(sum(sizes.values()), stored_bytes(root)) for root, sizes in windows.items())


def stored_bytes(value: Value) -> int:
    """Bytes of memory behind a value: an argument whose strides repeat elements has fewer than it shows."""
    function = value.owner.parent_op if isinstance(value, BlockArgument) and value.block.parent else None
    if function is None or "lamina.arg_strides" not in function.attributes:
        return bytes_of(value)
    stated = function.attributes["lamina.arg_strides"]
    assert isinstance(value, BlockArgument) and isinstance(value.type, TensorType)
    assert isinstance(stated, ArrayAttr)
    strides = plain(stated.elements[value.position])
    count = 1
    for size, step in zip(value.type.sizes, strides, strict=True):
        count *= hint(size) if not isinstance(step, int) or step else min(hint(size), 1)
    return count * value.type.element.bytes


def is_check(value: Value) -> bool:
    """Whether the value is the flag of a check, which only an assertion takes: not counted."""
    return bool(value.uses) and all(user.name.startswith("aten._assert") for user in value.users)


def window_of(value: Value) -> Value:
    """The value behind permutes, reshapes and broadcasts: the elements that a view shows, each once."""
    operation = value.defining_op
    while operation is not None and operation.name in VIEWS and operation.name != "tensor.extract_slice":
        value = operation.operand()
        operation = value.defining_op
    return value


def gathered_operands(module: Operation, operation: Operation) -> dict[int, int]:
    """Operands read at computed positions, with the bytes that are read at most."""
    if operation.name == "lamina.index" or operation.name in GATHERS:
        return {0: bytes_of(operation.results[0])}
    block = _kernel_body(module, operation)
    if block is None:
        return {}
    found: dict[int, int] = {}
    for position, argument in enumerate(block.arguments):
        users = argument.users
        if users and all(user.name == "lamina.index" and user.operand() is argument for user in users):
            found[position] = sum(bytes_of(user.result) for user in users)
    return found


def _kernel_body(module: Operation, operation: Operation) -> Block | None:
    if operation.name == "lamina.kernel":
        return operation.body
    return (
        lookup(module, plain(operation.attributes["callee"])).body if operation.name == "func.call" else None
    )


def is_placed(operation: Operation) -> bool:
    """Whether a concatenation's pieces are all written where they belong by kernels of their own."""
    return operation.name == "tensor.concat" and "lamina.placed" in operation.attributes
