"""Write a kernel of tensor operations as `linalg.generic`s on buffers.

    func @k(%x: tensor<8x64xf32>) -> tensor<8x64xf32>
      %m = lamina.reduce %x {kind = "max", dims = [1]}
      %b = lamina.broadcast %m
      %y = arith.subf %x, %b
    =>
    func @k(%x: memref<8x64xf32>, %y: memref<8x64xf32>)
      %m = memref.alloc : memref<8xf32>
      linalg.generic outs(%m) { yield -inf }
      linalg.generic ins(%x) outs(%m) [parallel, reduction] { yield maximumf }
      linalg.generic ins(%x, %m) outs(%y) [parallel, parallel] { yield subf }

Every access that is linear in the dimensions is a view (`memref.reinterpret_cast`) whose dimensions are
those of the nest that it walks; others are `memref.load` at computed places. Bools are bytes in memory. All
generics of a nest carry `lamina.nest = [number of the nest, count of parallel dimensions]`; the parallel ones
come first. `lamina.reductions` names the kind of each output that is reduced ("" for others). Temporaries are
whole buffers here; the next levels shrink them to registers and rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamina.errors import Unsupported
from lamina.ir.affine import AffineMap
from lamina.ir.attributes import TypeAttr, attribute, plain
from lamina.ir.core import Block, Builder, Operation, Region, Value, symbol_name
from lamina.ir.ops.func import function_type
from lamina.ir.ops.linalg import generic
from lamina.ir.ops.memref import allocate
from lamina.ir.types import (
    KERNEL_SCALARS,
    FunctionType,
    MemRefType,
    ScalarType,
    TensorType,
    Type,
    i1,
    i8,
    index,
    numbers,
    row_major_strides,
)
from lamina.passes.loops.bodies import Body, View
from lamina.passes.loops.expressions import Node
from lamina.passes.loops.nests import Nest, Reduction, Stage, plan_nests
from lamina.passes.loops.reductions import initial_values, result_types
from lamina.passes.loops.size_values import ATTRIBUTE, SizeValues, size_names

NAME = "to_linalg"


def to_linalg(function: Operation) -> Operation:
    """The kernel over buffers, a new detached `func.func`: inputs, then outputs.

    Unsupported when the body is not of a form that one kernel can compute.
    """
    type_ = function_type(function)
    input_strides = _strides(function, "lamina.arg_strides", type_.inputs)
    result_strides = _strides(function, "lamina.result_strides", type_.results)
    inputs = [_buffer(tensor, strides) for tensor, strides in zip(type_.inputs, input_strides, strict=True)]
    outputs = [
        _buffer(tensor, strides) for tensor, strides in zip(type_.results, result_strides, strict=True)
    ]
    names = size_names(function)
    block = Block([*inputs, *outputs, *[index] * len(names)])
    arguments: dict[Value, Value] = dict(zip(function.body.arguments, block.arguments, strict=False))
    last = len(inputs) + len(outputs)
    size_values = SizeValues(Builder(block), dict(zip(names, block.arguments[last:], strict=True)))
    nests = plan_nests(
        function, dict(zip(function.body.arguments, input_strides, strict=True)), result_strides
    )
    for number, nest in enumerate(nests):
        builder = Builder(block, location=function.location)
        _NestWriter(builder, number, arguments, block.arguments[len(inputs) : last], size_values).write(nest)
    block.append(Operation("func.return", location=function.location))
    attributes = {
        "sym_name": symbol_name(function) or "kernel",
        "function_type": TypeAttr(FunctionType.get(tuple(each.type for each in block.arguments), ())),
        "lamina.inputs": len(inputs),
    }
    if names:
        attributes[ATTRIBUTE] = attribute(names)
    return Operation("func.func", (), (), attributes, [Region([block])], location=function.location)


def _strides(function: Operation, name: str, types: Sequence[Type]) -> list[tuple[int, ...]]:
    given = function.attributes.get(name)
    if given is not None:
        return [tuple(strides) for strides in plain(given)]
    return [numbers(row_major_strides(_tensor(type_).shape) or ()) for type_ in types]


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise Unsupported("kernel-form", f"a kernel takes and gives tensors, not {type_}")
    if type_.element not in KERNEL_SCALARS:
        raise Unsupported("kernel-element-type", f"kernels do not compute {type_.element}")
    return type_


def _buffer(type_: Type, strides: Sequence[int]) -> MemRefType:
    tensor = _tensor(type_)
    return MemRefType.get(tensor.shape, stored(tensor.element), tuple(strides))


def stored(element: ScalarType) -> ScalarType:
    """How an element lies in memory: a bool takes a byte."""
    return i8 if element is i1 else element


class _NestWriter:
    """Writes one nest: its temporaries, then a `linalg.generic` for each stage."""

    def __init__(
        self,
        builder: Builder,
        number: int,
        arguments: Mapping[Value, Value],
        outputs: Sequence[Value],
        numbers: SizeValues,
    ) -> None:
        self.builder = builder
        self.number = number
        self.arguments = arguments
        self.outputs = outputs
        self.numbers = numbers
        self.temporaries: dict[Operation, list[Value]] = {}
        self.kept: dict[Node, View] = {}

    def write(self, nest: Nest) -> None:
        parallel = nest.parallel
        self.order = [*parallel, *(k for k, is_inner in enumerate(nest.inner) if is_inner)]
        self.parallel = len(parallel)
        for stage in nest.stages:
            for reduction in stage.reductions:
                self._initialize(nest, reduction)
            self._write_stage(nest, stage)

    def _initialize(self, nest: Nest, reduction: Reduction) -> None:
        sizes = tuple(nest.sizes[k] for k in nest.parallel)
        block = Block()
        body = Builder(block, location=reduction.operation.location)
        self.builder.location = reduction.operation.location
        element = reduction.node.type
        buffers: list[Value] = []
        numbers: list[Value] = []
        starts = initial_values(reduction.kind, element)
        for type_, initial in zip(result_types(reduction.kind, element), starts, strict=True):
            buffers.append(allocate(self.builder, "memref.alloc", MemRefType.get(sizes, type_), self.numbers))
            block.add_argument(type_)
            numbers.append(body.value("arith.constant", (), type_, {"value": initial}))
        body.op("linalg.yield", numbers)
        maps = [AffineMap.identity(len(sizes))] * len(buffers)
        self._generic([], buffers, maps, ["parallel"] * len(sizes), Region([block]), [])
        self.temporaries[reduction.operation] = buffers

    def _write_stage(self, nest: Nest, stage: Stage) -> None:
        dims = self.order if stage.is_full else self.order[: self.parallel]
        body = Body(self.builder, nest.sizes, dims, self.arguments, self.temporaries, self.kept, self.numbers)
        kinds: list[str] = []
        for reduction in stage.reductions:
            body.builder.location = self.builder.location = reduction.operation.location
            old = [body.add_output(View(buffer, None)) for buffer in self.temporaries[reduction.operation]]
            inner = next((k for k, is_inner in enumerate(nest.inner) if is_inner), -1)
            for value in body.accumulate(reduction.kind, reduction.node, old, inner):
                body.yield_value(value)
                kinds.append(reduction.kind)
        kept: dict[Node, View] = {}
        for output in stage.outputs:
            view = View(self.outputs[output.number], output.address)
            body.add_output(view)
            body.yield_stored(output.node, as_byte=output.node.type is i1)
            kinds.append("")
            if output.node in stage.kept:
                kept[output.node] = view
        for node in stage.kept:
            if node not in kept:
                kept[node] = self._keep(nest, body, node)
                kinds.append("")
        region, inputs, outputs, maps = body.finish()
        reduces = bool(stage.reductions)
        iterators = ["reduction" if reduces and nest.inner[dim] else "parallel" for dim in dims]
        self._generic([*inputs], outputs, maps, iterators, region, kinds)
        self.kept.update(kept)

    def _keep(self, nest: Nest, body: Body, node: Node) -> View:
        """Store a value over all dimensions for the stages after this one."""
        sizes = tuple(nest.sizes[k] for k in self.order)
        type_ = MemRefType.get(sizes, stored(node.type))
        view = View(allocate(self.builder, "memref.alloc", type_, self.numbers), None)
        body.add_output(view)
        body.yield_stored(node, as_byte=node.type is i1)
        return view

    def _generic(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
        region: Region,
        kinds: Sequence[str],
    ) -> None:
        attributes = {"lamina.nest": attribute([self.number, self.parallel])}
        if any(kinds):
            attributes["lamina.reductions"] = attribute(list(kinds))
        generic(self.builder, inputs, outputs, maps, iterators, region, attributes)
