"""Import a traced graph as tensor-level IR.

    %2 = aten.gelu(%1)   =>   %2 = arith.mulf %1, 0.5 ... math.erf ... arith.mulf
    %3 = aten.mm(%2, %w) =>   %3 = "aten.mm.default"(%2, %w) {args = [unit, unit], result_strides = [[64, 1]]}

Ops with a lowering become kernel ops; all others stay library calls with eager's strides and effects.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch import fx

from lamina.autograd.decompose import argument_values
from lamina.autograd.lower import LOWERINGS
from lamina.autograd.lower.dtypes import SCALAR_OF, element
from lamina.autograd.lower.emitter import Call, Emitter
from lamina.autograd.lower.numbers import Decided, OpenNumber
from lamina.autograd.lower.records import record_lowering
from lamina.autograd.symbols import STATIC, OpenSizes
from lamina.autograd.trace import Traced
from lamina.autograd.value_errors import may_raise
from lamina.errors import CompilerBug, Unsupported
from lamina.ir.attributes import STORAGE, UNIT, DenseElementsAttr
from lamina.ir.core import UNKNOWN, Block, Builder, Location, Operation, Region, Value, make_module
from lamina.ir.sizes import SymbolicSize, UndecidedSize
from lamina.ir.types import KERNEL_SCALARS, FunctionType, TensorType, Type, f64, none

Tensor = torch.Tensor
MAY_ALIAS = frozenset(
    {
        "aten._reshape_alias.default", "aten._unsafe_view.default", "aten.contiguous.default",
        "aten.reshape.default", "aten.unsafe_chunk.default", "aten.unsafe_split.Tensor",
        "aten.unsafe_split_with_sizes.default", "aten.view.default",
    }
)  # fmt: skip
"""Operators whose result may be a view of an operand, though not all of their schemas say so."""
FLOAT_OPERATIONS = {"Add": "arith.addf", "Mul": "arith.mulf", "FloatTrueDiv": "arith.divf"}
"""By the name of the class in sympy, or in torch's functions beside it."""


def import_graph(traced: Traced) -> Operation:
    """A module with `func.func @main`: one argument for each tensor input, one result for each result.

    The function carries `lamina.arg_strides` and `lamina.result_strides`, one list for each, and
    `lamina.mutations`, pairs (argument, result): the caller copies the result into the argument. Raises
    Unsupported for dtypes that the IR does not have.
    """
    positions = [index for index, value in enumerate(traced.inputs) if isinstance(value, Tensor)]
    tensors = [traced.inputs[index] for index in positions]
    sizes = traced.sizes
    block = Block(ir_type(tensor, sizes) for tensor in tensors)
    importer = Importer(traced, block)
    results = importer.run()
    type_ = FunctionType.get(
        tuple(argument.type for argument in block.arguments), tuple(value.type for value in results)
    )
    attributes = {
        "sym_name": "main",
        "function_type": type_,
        "lamina.arg_strides": [list(sizes.read_all(tensor.stride())) for tensor in tensors],
        "lamina.result_strides": [list(result.stride) for result in traced.results],
        "lamina.mutations": [[positions.index(target), result] for target, result in traced.mutations],
    }
    module = make_module()
    module.body.append(Operation("func.func", attributes=attributes, regions=[Region([block])]))
    return module


def ir_type(tensor: Tensor, sizes: OpenSizes = STATIC) -> TensorType:
    """The tensor type of a fake."""
    scalar = SCALAR_OF.get(tensor.dtype)
    if scalar is None:
        raise Unsupported("dtype", f"the program has a tensor of dtype {tensor.dtype}")
    return TensorType.get(sizes.read_all(tensor.shape), scalar)


class Importer:
    """Imports the nodes of one graph, in order, into `block`."""

    def __init__(self, traced: Traced, block: Block) -> None:
        self.traced = traced
        self.block = block
        self.builder = Builder(block)
        self.emitter = Emitter(self.builder)
        self.values: dict[fx.Node, Any] = {}
        self.arguments: dict[int, Value] = {}
        """Those of @main, by the positions of the inputs that they are."""
        self.sizes = traced.sizes

    def run(self) -> list[Value]:
        """Import all nodes and the return; the values of the results."""
        arguments = iter(self.block.arguments)
        for index, node in enumerate(self.traced.graph_module.graph.nodes):
            if node.op == "placeholder":
                value: Any = self.traced.inputs[index]
                if isinstance(value, Tensor):
                    self.values[node] = self.arguments[index] = next(arguments)
                else:
                    self.values[node] = self.sizes.read(value)
            elif node.op != "output":
                self.builder.location = _location(node)
                self.values[node] = self.import_node(node)
        results = [self.values[result.node] for result in self.traced.results]
        self.builder.location = UNKNOWN
        self.builder.op("func.return", results)
        return results

    def import_node(self, node: fx.Node) -> Any:
        """The value, or list of values, of one node."""
        if node.op == "get_attr":
            return self.constant(getattr(self.traced.graph_module, str(node.target)))
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]  # type: ignore[index]
        value = None if node.meta.get("effects") else self.lower(node)
        return self.library_call(node) if value is None else value

    def lower(self, node: fx.Node) -> Value | list[Value] | None:
        """The node's value or values from kernel ops, or None where it stays a library call."""
        lowering = LOWERINGS.get(str(node.target)) or record_lowering(str(node.target))
        if lowering is None:
            return None
        fake = node.meta["val"]
        fakes = [fake] if isinstance(fake, Tensor) else list(fake or ())
        if not self.is_kernel_node(node, fakes):
            return None
        args, kwargs = self.read_arguments(node.args), self.read_arguments(node.kwargs)
        types = tuple(ir_type(item, self.sizes) for item in fakes)
        call = Call(str(node.target), argument_values(node.target, args, kwargs), types)
        value = lowering(self.emitter, call)
        given = (
            ()
            if value is None
            else (value.type,)
            if isinstance(value, Value)
            else tuple(v.type for v in value)
        )
        if value is not None and given != types:
            if list(map(self.at_hand, given)) == list(map(self.at_hand, types)):
                # The trace took a quotient of sizes for the number that it is now.
                raise UndecidedSize(f"{node.target} needs to know a size computed of others")
            raise CompilerBug(
                f"the lowering of {node.target} gives {given}, eager {types}",
                location=node.meta.get("location"),
                operation=str(node.target),
                stage="import_graph",
            )
        return value

    def at_hand(self, type_: Type) -> tuple[Any, ...]:
        """The sizes of a tensor's type in this trace, and its elements."""
        assert isinstance(type_, TensorType)
        hints = self.sizes.hints
        sizes = (size.value(hints) if isinstance(size, SymbolicSize) else size for size in type_.shape)
        return (*sizes, type_.element)

    def read_arguments(self, arguments: Any) -> Any:
        """Values in place of nodes, sizes as the IR has them."""
        if isinstance(arguments, fx.Node):
            return self.values[arguments]
        if isinstance(arguments, dict):
            return {name: self.read_arguments(each) for name, each in arguments.items()}
        if isinstance(arguments, list | tuple):
            read = [self.read_arguments(each) for each in arguments]
            return tuple(read) if isinstance(arguments, tuple) else read
        number: Any = arguments
        return self.open_number(number) if isinstance(number, torch.SymFloat) else self.sizes.read(number)

    def open_number(self, number: torch.SymFloat) -> OpenNumber:
        """A float that varies, or a sum or quotient of one and a constant, as a lowering takes it.

        Raises UndecidedSize for what else is computed of such floats.
        """
        found = self.sizes.find_number(number)
        if found is None:
            return self.computed_number(number)
        decided = Decided(found.name, found.hint, self.sizes.number_conditions)
        return OpenNumber(self.emitter, self.arguments[found.position], decided)

    def computed_number(self, number: torch.SymFloat) -> OpenNumber:
        """A sum, product or quotient of a float that varies and a constant, in f64 as Python has it."""
        expression = number.node.expr
        operation = FLOAT_OPERATIONS.get(type(expression).__name__)
        if operation is None or len(expression.args) != 2:
            raise UndecidedSize(f"{number} is computed from numbers that vary")
        operands = [self.number_operand(each) for each in expression.args]
        return OpenNumber(self.emitter, self.emitter.op(operation, *operands))

    def number_operand(self, expression: Any) -> Value:
        """A constant or a float that varies, or its negative, as f64 without dimensions."""
        if expression.is_number:
            return self.emitter.constant(float(expression), (), f64)
        found = self.sizes.numbers.get(str(expression if expression.is_Symbol else -expression))
        if found is None:
            raise UndecidedSize(f"{expression} is computed from numbers that vary")
        value = self.arguments[found.position]
        return value if expression.is_Symbol else self.emitter.op("arith.negf", value)

    def is_kernel_node(self, node: fx.Node, fakes: list[Any]) -> bool:
        """Whether kernels have all of the node's element types."""
        for fake in fakes:
            if not isinstance(fake, Tensor) or SCALAR_OF.get(fake.dtype) not in KERNEL_SCALARS:
                return False
            if fake.device.type != "cpu":
                return False
        for operand in node.all_input_nodes:
            value = self.values[operand]
            if not isinstance(value, Value) or element(value) not in KERNEL_SCALARS:
                return False
        return bool(fakes)

    def library_call(self, node: fx.Node) -> Any:
        """The node as a call of torch's own operator; a float that varies is an operand of f64.

        Raises UndecidedSize for such a float where no overload takes one.
        """
        callee = overload_for_numbers(node)
        operands: list[Value] = []

        def encode(value: Any) -> Any:
            if isinstance(value, fx.Node):
                value = self.values[value]
            if isinstance(value, torch.SymFloat):
                value = self.open_number(value).value
            if isinstance(value, Value):
                operands.append(value)
                return UNIT
            return (
                [encode(item) for item in value]
                if isinstance(value, list | tuple)
                else encode_constant(self.sizes.read(value))
            )

        attributes: dict[str, Any] = {"args": [encode(value) for value in node.args]}
        kwargs = {name: encode(value) for name, value in node.kwargs.items()}
        if kwargs:
            attributes["kwargs"] = kwargs
        fake = node.meta["val"]
        fakes = [fake] if isinstance(fake, Tensor) else list(fake or ())
        present = [item for item in fakes if isinstance(item, Tensor)]
        attributes["result_strides"] = [list(self.sizes.read_all(item.stride())) for item in present]
        if node.meta.get("effects"):
            attributes["effects"] = node.meta["effects"]
        elif may_raise(node):
            attributes["raises"] = True
        # A view of what it takes (of another dtype, say, or complex): its memory must live as long as this.
        is_view = any(returned.alias_info is not None for returned in schema_of(node).returns)
        if is_view or str(node.target) in MAY_ALIAS:
            attributes["aliases"] = True
        if not isinstance(fake, Tensor) and (len(present) == 1 or len(present) < len(fakes)):
            attributes["returned"] = [isinstance(item, Tensor) for item in fakes]
        call = self.builder.op(
            str(callee), operands, [ir_type(item, self.sizes) for item in present], attributes
        )
        if isinstance(fake, Tensor):
            return call.results[0]
        results = iter(call.results)
        return [next(results) if isinstance(item, Tensor) else None for item in fakes]

    def constant(self, tensor: Tensor) -> Value:
        """A constant tensor of the graph."""
        type_ = ir_type(tensor)
        storage = STORAGE.get(type_.element.name)
        if storage is None:
            raise Unsupported("dtype", f"the program has a constant of dtype {tensor.dtype}")
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        dense = DenseElementsAttr.from_array(np.frombuffer(raw.tobytes(), storage), type_)
        return self.builder.value("arith.constant", (), type_, {"value": dense})


def schema_of(node: fx.Node) -> Any:
    """The schema of a node's operator."""
    return node.target._schema  # type: ignore[union-attr]


def overload_for_numbers(node: fx.Node) -> Any:
    """The node's operator, or its overload that takes for `other` the float that varies.

    In a tensor's place such a float would have another weight. Raises UndecidedSize where there is none.
    """
    arguments = schema_of(node).arguments
    named = {each.name: value for each, value in zip(arguments, node.args, strict=False)} | node.kwargs
    callee: Any = node.target
    for each in arguments:
        kind = str(each.real_type)
        if not isinstance(named.get(each.name), torch.SymFloat) or "number" in kind or "float" in kind:
            continue
        if each.name != "other" or "Scalar" not in callee.overloadpacket.overloads():
            raise UndecidedSize(f"{callee} takes a number that varies for a tensor")
        callee = callee.overloadpacket.Scalar
    return callee


def encode_constant(value: Any) -> Any:
    """A constant argument of a library call as a plain attribute value."""
    if value is None:
        return none
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise Unsupported("library-argument", f"a library call has the argument {value}, beyond 64 bits")
    if isinstance(value, bool | int | float | str | SymbolicSize):
        return value
    if isinstance(value, torch.dtype) and value in SCALAR_OF:
        return SCALAR_OF[value]
    if isinstance(value, torch.device | torch.layout | torch.memory_format):
        return str(value)
    raise Unsupported("library-argument", f"a library call has the argument {value!r}")


def _location(node: fx.Node) -> Location:
    place = node.meta.get("location")
    return Location(place[0], place[1]) if place is not None else UNKNOWN
