"""Make each kernel a function of its own; kernels that are equal (locations aside) share one.

    %1 = "lamina.kernel"(%x) ({ ... })        %1 = "func.call"(%x) {callee = @kernel_0}
    %2 = "lamina.kernel"(%y) ({ ... })   =>   %2 = "func.call"(%y) {callee = @kernel_0}
                                              func.func @kernel_0(%a) -> ... { ... }

The function takes the inputs and gives the outputs, still as tensors; `lamina.arg_strides` and
`lamina.result_strides` say how the buffers lie, `kind`, `domain`, `reduced`, `stages`, `nests` are as on
the kernel. `lamina.sizes` names the sizes known at run time that it needs: arguments at the next level.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from lamina.ir.attributes import Attribute, SymbolRefAttr
from lamina.ir.core import Block, Builder, Operation, Region, Value, symbol_name
from lamina.ir.size_names import names_in
from lamina.ir.types import FunctionType

NAME = "outline"
PREFIX = "kernel_"
CARRIED = ("kind", "domain", "reduced", "stages", "nests")


def run(module: Operation, context: Any = None) -> None:
    """Outline every `lamina.kernel` of the module's functions, in place."""
    outline(module)


def outline(module: Operation) -> list[Operation]:
    """The kernel functions made, in the order of first use."""
    taken = {name for operation in module.body if (name := symbol_name(operation)) is not None}
    known: dict[Hashable, Operation] = {}
    number = 0
    for function in [operation for operation in module.body if operation.name == "func.func"]:
        for operation in [inner for inner in function.walk() if inner.name == "lamina.kernel"]:
            key = structure(operation)
            if key not in known:
                while f"{PREFIX}{number}" in taken:
                    number += 1
                known[key] = _make_function(operation, f"{PREFIX}{number}")
                number += 1
                module.body.append(known[key])
            _call(operation, known[key])
    return list(known.values())


def structure(kernel: Operation) -> Hashable:
    """Equal for kernels of equal text, names of values and locations aside."""
    numbers: dict[Value, int] = {}
    for argument in kernel.body.arguments:
        numbers[argument] = len(numbers)
    lines: list[Hashable] = [tuple(argument.type for argument in kernel.body.arguments)]
    for operation in kernel.body:
        operands = tuple(numbers[value] for value in operation.operands)
        for value in operation.results:
            numbers[value] = len(numbers)
        types = tuple(value.type for value in operation.results)
        lines.append((operation.name, operands, types, _entries(operation.attributes)))
    return (*lines, _entries(kernel.attributes))


def _entries(attributes: dict[str, Attribute]) -> Hashable:
    return tuple(sorted(attributes.items(), key=lambda entry: entry[0]))


def _make_function(kernel: Operation, name: str) -> Operation:
    inputs = tuple(argument.type for argument in kernel.body.arguments)
    results = tuple(value.type for value in kernel.results)
    block = Block(inputs)
    mapping: dict[Value, Value] = dict(zip(kernel.body.arguments, block.arguments, strict=True))
    for operation in kernel.body:
        if operation.name == "lamina.yield":
            returned = [mapping[value] for value in operation.operands]
            block.append(Operation("func.return", returned, location=operation.location))
        else:
            block.append(operation.clone(mapping))
    attributes: dict[str, Any] = {"sym_name": name, "function_type": FunctionType.get(inputs, results)}
    attributes["lamina.arg_strides"] = kernel.attributes["arg_strides"]
    attributes["lamina.result_strides"] = kernel.attributes["result_strides"]
    attributes |= {key: kernel.attributes[key] for key in CARRIED}
    names = names_in(kernel)
    if names:
        attributes["lamina.sizes"] = list(names)
    return Operation("func.func", attributes=attributes, regions=[Region([block])], location=kernel.location)


def _call(kernel: Operation, function: Operation) -> None:
    name = symbol_name(function)
    assert name is not None
    builder = Builder.before_op(kernel)
    types = [value.type for value in kernel.results]
    call = builder.op("func.call", kernel.operands, types, {"callee": SymbolRefAttr((name,))})
    kernel.replace_with(call.results)
