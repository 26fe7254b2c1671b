"""One program, with its kernels, for all sizes of a captured graph's inputs.

    x: (3, 8), then (5, 8)      s0 = 3: traced, fused, kernels built over s0      s0 = 5: bound

The graph is traced on fakes whose varying sizes are symbols; what torch and the passes decide by the sizes at
hand becomes a condition of the program. Sizes that meet the conditions are only put in: types and offsets
become numbers and memory is planned, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from lamina.autograd.fake import fake_mode_of, to_fakes
from lamina.autograd.numbers import NumberInput, is_ordinary, number_name
from lamina.autograd.outputs import ConstantOutput, Output, ViewOutput, finish_outputs
from lamina.autograd.symbols import OpenSizes
from lamina.capture.fake import (
    make_dynamic_fake,
    make_number_symbol,
    make_shape_environment,
    make_symbol,
)
from lamina.capture.layouts import relate_strides
from lamina.driver.graph import Compiled, find_program, keep_program
from lamina.driver.kernels import STORE, Kernel
from lamina.driver.prepared import Prepared
from lamina.driver.program import OpenDimension, Program
from lamina.driver.program_key import program_text
from lamina.driver.scalars import as_scalars, taking_scalars
from lamina.driver.watch import Watch, counters
from lamina.eager.memory import storage_key
from lamina.ir import machine
from lamina.ir.passes import Context
from lamina.ir.sizes import LEAST, SymbolicSize, UndecidedSize, value_of
from lamina.options import Options
from lamina.passes.program import plan_memory
from lamina.passes.program.bind import bind
from lamina.runtime.cache import Cache
from lamina.runtime.devices.cpu import resident
from lamina.runtime.executor import Executor
from lamina.runtime.library_calls import available_libraries

Tensor = torch.Tensor
Places = Sequence[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class OpenGraph:
    """A torch-level graph, and which dimensions of which inputs vary, or which inputs that are ints.

    numbers: which inputs are floats that vary; a program has them as f64 tensors without dimensions.
    """

    graph: fx.GraphModule
    kinds: Sequence[str]
    varying: Places
    options: Options
    numbers: Sequence[int] = ()

    def dimensions(self) -> list[OpenDimension]:
        """A name for each size that varies."""
        return [OpenDimension(f"s{number}", *place) for number, place in enumerate(self.varying)]

    def admits(self, inputs: Sequence[Any]) -> bool:
        """Whether no int that varies is below `LEAST`, and each float is an ordinary one."""
        values = (inputs[k] if d is None else inputs[k].shape[d] for k, d in self.varying)
        return not any(type(value) is int and value < LEAST for value in values) and all(
            is_ordinary(inputs[k]) for k in self.numbers
        )

    def number_values(self, inputs: Sequence[Any]) -> dict[str, float]:
        """The floats at hand by name."""
        return {number_name(k): inputs[k] for k in self.numbers}

    def compile(self, inputs: Sequence[Any], watch: Watch) -> OpenProgram:
        """Compile for all sizes for which the same holds as for those of `inputs`.

        Raises Unsupported where the graph or a pass needs to know a size.
        """
        dimensions = self.dimensions()
        sizes, numbers = dimensions_of(inputs, dimensions), self.number_values(inputs)
        tensors = as_scalars(inputs, self.numbers)
        cache = Cache(self.options.cache_path() if self.options.cache else None)
        is_kept = self.options.cache and not self.options.verify and not self.options.trace
        with watch.stage("program key"):
            text = self._text(tensors, dimensions) if is_kept else None
        program = find_program(text, self.options, cache, watch)
        if program is None or not program.holds(sizes, numbers):
            program = self._make(tensors, numbers, dimensions, cache, watch)
            keep_program(text, program, self.options, cache)
        positions = dict.fromkeys(each.position for each in dimensions if each.dimension is not None)
        layouts = {k: open_layout(inputs[k], k, dimensions) for k in positions}
        return OpenProgram(program, self, layouts)

    def _text(self, inputs: Sequence[Any], dimensions: Sequence[OpenDimension]) -> str | None:
        layouts = {each.position: f"int {each.name}" for each in dimensions}
        layouts |= dict.fromkeys(self.numbers, "float")
        for position in layouts:
            if isinstance(inputs[position], Tensor):
                sizes, strides = open_layout(inputs[position], position, dimensions)
                layouts[position] = f"{sizes} {strides}"
        return program_text(self.graph, inputs, self.kinds, self.options, available_libraries(), layouts)

    def _make(
        self,
        inputs: Sequence[Any],
        numbers: dict[str, float],
        dimensions: Sequence[OpenDimension],
        cache: Cache,
        watch: Watch,
    ) -> Program:
        from lamina.driver.lowering import make_open_program

        context = Context(
            self.options, machine.host(self.options), libraries=available_libraries(), stage=watch.stage
        )
        with watch.stage("trace"):
            fakes, sizes = open_fakes(inputs, dimensions, {k: numbers[number_name(k)] for k in self.numbers})
        program = make_open_program(self.graph, fakes, self.kinds, sizes, context, cache, watch)
        program.dimensions = list(dimensions)
        return program


def dimensions_of(inputs: Sequence[Any], dimensions: Sequence[OpenDimension]) -> dict[str, int]:
    """The sizes at hand by name."""
    return {each.name: each.read(inputs) for each in dimensions}


def open_layout(
    tensor: Tensor, position: int, dimensions: Sequence[OpenDimension]
) -> tuple[list[Any], list[Any]]:
    """Sizes and strides of input number `position` with names for what varies."""
    sizes: list[Any] = list(tensor.shape)
    for each in dimensions:
        if each.position == position and each.dimension is not None:
            sizes[each.dimension] = SymbolicSize.get(each.name)
    related = relate_strides(sizes, tuple(tensor.shape), tensor.stride())
    return sizes, [_product(stride, sizes) for stride in related]


def _product(stride: int | tuple[int, ...], factors: Sequence[Any]) -> Any:
    if isinstance(stride, int):
        return stride
    product: Any = stride[0]
    for dimension in stride[1:]:
        product = product * factors[dimension]
    return product


def open_fakes(
    inputs: Sequence[Any], dimensions: Sequence[OpenDimension], numbers: Mapping[int, float]
) -> tuple[list[Any], OpenSizes]:
    """The inputs as fakes, of symbolic sizes where sizes vary; a symbol for an int that varies.

    numbers: the floats that vary by their positions among the inputs, which have them as tensors.

    Raises Unsupported for sizes below `LEAST`, other numbers, and a varying input that shares its memory.
    """
    mode = fake_mode_of(())
    environment = make_shape_environment(mode)
    names: dict[str, str] = {}
    symbols: dict[tuple[int, int | None], Any] = {}
    for number, each in enumerate(dimensions):
        size = each.read(inputs)
        if size < LEAST:
            raise UndecidedSize(f"a size that varies is {size}")
        name, symbol = make_symbol(environment, number, size, LEAST, None)
        names[name] = each.name
        symbols[each.position, each.dimension] = symbol
    open_numbers = {}
    for position, value in numbers.items():
        name, symbol = make_number_symbol(environment, position, value)
        open_numbers[name] = NumberInput(position, symbol, value)
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    owners = [storage_key(value) for value in tensors]
    fakes = list(inputs)
    for position in dict.fromkeys(each.position for each in dimensions):
        tensor = inputs[position]
        if not isinstance(tensor, Tensor):
            fakes[position] = symbols[position, None]
            continue
        if owners.count(storage_key(tensor)) > 1:
            raise UndecidedSize("an input whose sizes vary shares memory with another")
        sizes = [symbols.get((position, k), size) for k, size in enumerate(tensor.shape)]
        related = relate_strides(sizes, tuple(tensor.shape), tensor.stride())
        fakes[position] = make_dynamic_fake(mode, tensor, sizes, [_product(each, sizes) for each in related])
    return to_fakes(mode, fakes), OpenSizes(
        environment, names, dimensions_of(inputs, dimensions), open_numbers
    )


@dataclass(slots=True)
class OpenProgram:
    """A program of symbolic sizes whose kernels are loaded: `bind` makes something that runs of it."""

    program: Program
    graph: OpenGraph
    layouts: dict[int, tuple[list[Any], list[Any]]]
    """Sizes and strides of the inputs whose sizes vary."""
    kernels: dict[str, Kernel] = field(init=False)
    prepared: Prepared | None = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kernels = STORE.callables(self.program.kernels)
        self.prepared = None
        if self.program.prepare is not None:
            prepare = Executor(self.program.prepare, self.kernels)

            def settle() -> None:
                prepare.forget_states()
                resident.give_back()

            self.prepared = Prepared(lambda values: [], prepare, self.program.prepare_arguments, settle)
        counters.kernels += len(self.kernels)
        counters.packed_bytes += self.program.report.prepared_bytes
        counters.externs += sum(self.program.report.externs.values())

    def holds(self, inputs: Sequence[Any]) -> bool:
        """Whether the program is right for sizes, strides and numbers like these."""
        sizes = dimensions_of(inputs, self.program.dimensions)
        return self.program.holds(sizes, self.graph.number_values(inputs)) and all(
            inputs[position].stride() == tuple(value_of(stride, sizes) for stride in strides)
            for position, (_, strides) in self.layouts.items()
        )

    def bind(self, inputs: Sequence[Any], watch: Watch) -> Compiled:
        """What runs for inputs of these sizes, whatever the numbers for which the program holds."""
        program = self.program
        values = program.values(dimensions_of(inputs, program.dimensions))
        with watch.stage("bind"):
            main = bind(program.main, values, machine.host(self.graph.options))
            plan_memory.run(main)
        with watch.stage("executor"):
            executor = Executor(main, self.kernels, self.graph.options.threads)
            run: Callable[[Sequence[Any]], list[Any]] = executor
            if self.prepared is not None:
                run = self.prepared.beside(executor)
        report = replace(program.report, seconds=watch.seconds, texts={"program": executor.source})
        report.arena_bytes = executor.arena_bytes
        outputs = [bind_output(each, values) for each in program.outputs]
        run = taking_scalars(
            finish_outputs(run, outputs, program.positions, program.count), self.graph.numbers
        )
        return Compiled(run, report, program.is_repeatable)


def bind_output(output: Output, values: dict[str, int]) -> Output:
    """The output for sizes that are numbers."""
    if isinstance(output, ConstantOutput) and isinstance(output.value, SymbolicSize):
        return ConstantOutput(output.value.value(values))
    if not isinstance(output, ViewOutput):
        return output
    size, stride = (tuple(value_of(each, values) for each in part) for part in (output.size, output.stride))
    return replace(output, size=size, stride=stride, offset=value_of(output.offset, values))
