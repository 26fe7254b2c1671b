"""Tensor-level programs for the tests: random ones, torch programs imported, and running either."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from lamina.autograd.import_graph import import_graph
from lamina.autograd.trace import trace_inference
from lamina.ir.arrays import dtype_of
from lamina.ir.attributes import attribute, integers, plain
from lamina.ir.core import Block, Builder, Operation, Region, Value, lookup, make_module
from lamina.ir.interpret import Interpreter
from lamina.ir.machine import Target
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.ops.aten import arguments, is_extern
from lamina.ir.types import FunctionType, ScalarType, TensorType, element_of, f16, f32, i1, i32
from lamina.passes.tensor.fold import make_splat
from lamina.passes.tensor.reshape import reshape, static_shape
from lamina.passes.tensor.weights import VIEWS
from lamina.runtime.library_calls import callable_for, convert

AVX512 = Target(
    name="test", isa="avx512", vector_bits=512, features=("avx512f",), cores=2, l1_bytes=48 << 10, l2_bytes=2 << 20,
    l3_bytes=32 << 20, copy_bandwidth=2e10, cache_bandwidth=2e11, peak_flops=2e11, launch_seconds=3e-6,
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, -2.0, 3.0, float("inf"), float("-inf"), float("nan"))
INTEGERS = (0, 1, -1, 2, 8, -3)
SIZES = (1, 2, 3, 4)


class RandomProgram:
    """Grows a program full of what the simplifying passes look for: constants, inverse steps, equal steps."""

    def __init__(self, seed: int, steps: int = 30) -> None:
        self.random = random.Random(seed)
        elements = (f32, f32, f16, i32, i1)
        block = Block(TensorType.get(self.shape(), self.random.choice(elements)) for _ in range(4))
        self.builder = Builder(block)
        self.values: list[Value] = list(block.arguments)
        for _ in range(steps):
            made = self.random.choice(self.steps)(self, self.random.choice(self.values))
            if made is not None:
                self.values.append(made)
        results = self.values[-6:]
        self.builder.op("func.return", results)
        type_ = FunctionType.get(tuple(a.type for a in block.arguments), tuple(v.type for v in results))
        self.module = make_module()
        attributes = {"sym_name": "main", "function_type": type_}
        self.module.body.append(Operation("func.func", attributes=attributes, regions=[Region([block])]))

    def shape(self) -> tuple[int, ...]:
        return tuple(self.random.choice(SIZES) for _ in range(self.random.randint(0, 3)))

    def constant(self, like: Value) -> Value:
        element = element_of(like.type)
        choices = NUMBERS if element.is_float else (False, True) if element is i1 else INTEGERS
        assert isinstance(like.type, TensorType)
        return make_splat(self.builder, self.random.choice(choices), like.type)

    def partner(self, x: Value) -> Value:
        equal = [value for value in self.values if value.type is x.type]
        return self.constant(x) if self.random.random() < 0.5 else self.random.choice(equal)

    def same(self, name: str, *operands: Value) -> Value:
        return self.builder.value(name, operands, operands[0].type)

    def unary(self, x: Value) -> Value | None:
        if not element_of(x.type).is_float:
            return None
        names = ("arith.negf", "math.absf", "math.floor", "math.ceil", "math.roundeven", "math.sqrt")
        return self.same(self.random.choice(names), x)

    def binary(self, x: Value) -> Value:
        element = element_of(x.type)
        names = ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi")
        if element.is_float:
            names = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "addf", "mulf")
        if element is i1:
            names = ("andi", "ori", "xori")
        pair = [x, self.partner(x)]
        self.random.shuffle(pair)
        return self.same(f"arith.{self.random.choice(names)}", *pair)

    def compare(self, x: Value) -> Value:
        assert isinstance(x.type, TensorType)
        is_float = x.type.element.is_float
        predicate = self.random.randrange(len(CMPF) if is_float else 6)
        assert len(CMPI) > 6
        type_ = TensorType.get(x.type.shape, i1)
        name = "arith.cmpf" if is_float else "arith.cmpi"
        return self.builder.value(name, [x, self.partner(x)], type_, {"predicate": predicate})

    def select(self, x: Value) -> Value:
        assert isinstance(x.type, TensorType)
        mask = TensorType.get(x.type.shape, i1)
        known = [value for value in self.values if value.type is mask]
        condition = self.random.choice(known) if known else make_splat(self.builder, True, mask)
        if self.random.random() < 0.3:
            condition = self.same("arith.xori", condition, make_splat(self.builder, True, mask))
        return self.builder.value("arith.select", [condition, x, self.partner(x)], x.type)

    def cast(self, x: Value) -> Value:
        assert isinstance(x.type, TensorType)
        source = x.type.element
        targets: dict[ScalarType, tuple[str, ScalarType]] = {
            f16: ("extf", f32), f32: ("truncf", f16), i1: ("extui", i32), i32: ("sitofp", f32)
        }  # fmt: skip
        name, target = targets[source]
        if source is i1 and self.random.random() < 0.5:
            name, target = "uitofp", f32
        return self.builder.value(f"arith.{name}", [x], TensorType.get(x.type.shape, target))

    def permute(self, x: Value) -> Value:
        order = list(range(len(static_shape(x))))
        self.random.shuffle(order)
        return self._view(
            "lamina.permute", x, [static_shape(x)[k] for k in order], {"perm": integers(*order)}
        )

    def reshape(self, x: Value) -> Value:
        sizes = list(static_shape(x))
        for _ in range(self.random.randint(0, 2)):
            sizes.insert(self.random.randint(0, len(sizes)), 1)
        if len(sizes) > 1 and self.random.random() < 0.5:
            sizes[:2] = [sizes[0] * sizes[1]]
        return reshape(self.builder, x, sizes)

    def broadcast(self, x: Value) -> Value:
        sizes = [self.random.choice(SIZES) if size == 1 else size for size in static_shape(x)]
        dims = list(range(len(sizes)))
        if len(sizes) < 3:
            place = self.random.randint(0, len(sizes))
            sizes.insert(place, self.random.choice(SIZES))
            dims = [dim + (dim >= place) for dim in dims]
        return self._view("lamina.broadcast", x, sizes, {"dims": integers(*dims)})

    def slice(self, x: Value) -> Value:
        columns = []
        for size in static_shape(x):
            start = self.random.randrange(size)
            step = self.random.randint(1, 2)
            columns.append((start, self.random.randint(1, (size - start - 1) // step + 1), step))
        offsets, sizes, strides = zip(*columns, strict=True) if columns else ((), (), ())
        attributes = {
            "static_offsets": integers(*offsets),
            "static_sizes": integers(*sizes),
            "static_strides": integers(*strides),
        }
        return self._view("tensor.extract_slice", x, sizes, attributes)

    def concat(self, x: Value) -> Value | None:
        if not static_shape(x):
            return None
        dim = self.random.randrange(len(static_shape(x)))
        parts = [x] if self.random.random() < 0.3 else [x, self.partner(x)]
        sizes = list(static_shape(x))
        sizes[dim] *= len(parts)
        assert isinstance(x.type, TensorType)
        type_ = TensorType.get(tuple(sizes), x.type.element)
        return self.builder.value("tensor.concat", parts, type_, {"dim": dim})

    def reverse(self, x: Value) -> Value:
        dims = [k for k in range(len(static_shape(x))) if self.random.random() < 0.5]
        return self._view("lamina.reverse", x, static_shape(x), {"dims": integers(*dims)})

    def pad(self, x: Value) -> Value:
        low = [self.random.randint(0, 1) for _ in static_shape(x)]
        high = [self.random.randint(0, 1) for _ in static_shape(x)]
        sizes = tuple(a + n + b for a, n, b in zip(low, static_shape(x), high, strict=True))
        assert isinstance(x.type, TensorType)
        filler = make_splat(self.builder, 1, TensorType.get((), x.type.element))
        type_ = TensorType.get(sizes, x.type.element)
        attributes = {"low": integers(*low), "high": integers(*high)}
        return self.builder.value("lamina.pad", [x, filler], type_, attributes)

    def reduce(self, x: Value) -> Value | None:
        element = element_of(x.type)
        kinds = ("and", "or", "xor") if element is i1 else ("max", "min", "add")
        if element.is_float:
            # Sums of floats may be taken in another order; the largest of them may not.
            kinds = ("max", "min")
        dims = [k for k in range(len(static_shape(x))) if self.random.random() < 0.6]
        sizes = [size for k, size in enumerate(static_shape(x)) if k not in dims]
        attributes = {"kind": self.random.choice(kinds), "dims": integers(*dims)}
        return self._view("lamina.reduce", x, sizes, attributes) if dims else None

    def _view(self, name: str, x: Value, sizes: Sequence[int], attributes: dict[str, Any]) -> Value:
        assert isinstance(x.type, TensorType)
        return self.builder.value(name, [x], TensorType.get(tuple(sizes), x.type.element), attributes)

    steps: tuple[Callable[[RandomProgram, Value], Value | None], ...] = (
        unary, binary, binary, compare, select, cast, permute, reshape, broadcast, slice, concat, reverse, pad,
        reduce,
    )  # fmt: skip

    def inputs(self) -> list[Any]:
        """Numbers with zeros of both signs, infinities and nan among them."""
        numbers = np.random.default_rng(self.random.randrange(1 << 30))
        arrays = []
        for argument in lookup(self.module, "main").body.arguments:
            element, shape = element_of(argument.type), static_shape(argument)
            if element.is_float:
                plain_numbers = numbers.choice([*NUMBERS, 0.3, -7.25, 100.0], shape)
                arrays.append(np.asarray(plain_numbers).astype(dtype_of(element)))
            else:
                arrays.append(np.asarray(numbers.integers(-4, 5, shape)).astype(dtype_of(element)))
        return arrays


class LibraryRun(Interpreter):
    """Interprets a module, with torch for the library calls; packed data goes through as it is.

    As in a compiled program views keep their operand's memory and everything else is written row-major, so
    that library calls see operands in the strides that they will have.
    """

    def run(self, operation: Operation) -> None:
        super().run(operation)
        if operation.name in VIEWS or is_extern(operation):
            return
        for result in operation.results:
            # Of rank 0 NumPy makes rank 1.
            array = self.values[result]
            self.values[result] = np.ascontiguousarray(array).reshape(array.shape)

    def _library_call(self, operation: Operation) -> Sequence[Any]:
        taken, keywords = arguments(operation)
        name = operation.name
        args = [self._to_torch(name, k, value) for k, value in enumerate(taken)]
        named = {key: self._to_torch(name, key, value) for key, value in keywords.items()}
        results = callable_for(name)(*args, **named)
        given = [results] if isinstance(results, torch.Tensor) else list(results)
        if "opaque" in operation.attributes:
            return given
        stated = plain(operation.attributes["result_strides"])
        assert [list(each.stride()) for each in given] == stated, f"{name}: strides"
        return [each.numpy() for each in given]

    def _to_torch(self, name: str, place: int | str, value: Any) -> Any:
        if isinstance(value, Value):
            held = self.values[value]
            return held if isinstance(held, torch.Tensor) else torch.from_numpy(held)
        if isinstance(value, list):
            return [self._to_torch(name, place, each) for each in value]
        return convert(name, place, value)


def import_module(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[Operation, list[Any]]:
    """A module's tensor-level IR, and the arrays for its arguments; weights are marked as such."""
    graph = fx.symbolic_trace(model)
    names = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    lifted, held = _lift_weights(graph, dict(model.state_dict(keep_vars=True)), names)
    everything = [*inputs, *held]
    with torch.no_grad():
        module = import_graph(trace_inference(lifted, everything))
    main = lookup(module, "main")
    kinds = ["input"] * len(inputs) + ["parameter"] * len(held)
    main.attributes["lamina.arg_kinds"] = attribute(kinds)
    return module, [value.detach().numpy() for value in everything]


def _lift_weights(
    graph: fx.GraphModule, state: dict[str, torch.Tensor], names: set[str]
) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The same program as a function of inputs and weights, by calling the module functionally."""
    keys = [key for key in state if key in names]
    inputs = sum(node.op == "placeholder" for node in graph.graph.nodes)

    class Lifted(torch.nn.Module):
        def forward(self, *values: torch.Tensor) -> Any:
            weights = dict(zip(keys, values[inputs:], strict=True))
            return torch.func.functional_call(graph, weights, values[:inputs])

    tensors = [state[key] for key in keys]
    lifted = Lifted()
    outer = fx.Graph()
    places = [outer.placeholder(f"a{k}") for k in range(inputs + len(keys))]
    outer.output((outer.call_module("inner", tuple(places)),))
    return fx.GraphModule({"inner": lifted}, outer), tensors


def run_module(module: Operation, arrays: Sequence[Any]) -> list[Any]:
    """The results of @main, after @prepare where there is one."""
    main = lookup(module, "main")
    given = list(arrays)
    places = main.attributes.get("lamina.prepare_arguments")
    if places is not None:
        prepare = lookup(module, "prepare")
        given += LibraryRun(module).run_region(prepare.region, [arrays[k] for k in plain(places)])
    return list(LibraryRun(module).run_region(main.region, given))


def library_calls(module: Operation, function: str = "main") -> list[str]:
    """Names of the library calls of a function, in order."""
    return [operation.name for operation in lookup(module, function).body if is_extern(operation)]
