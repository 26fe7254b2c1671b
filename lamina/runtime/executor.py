"""Runs a `program.func`: writes straight-line Python for it once, then calls that.

The program decides everything (order, buffers, offsets); this only spells it out. Each kernel launch reads
its buffers' addresses and the sizes it takes from a slice of one table; what never changes (sizes, addresses
in the arena, of constants) is
written when a `State` is made, the others on each call. A `State` serves one call at a time, so threads
never share one.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from lamina.errors import CompilerBug
from lamina.ir.attributes import STORAGE, DenseElementsAttr, plain
from lamina.ir.core import BlockArgument, Operation, Value
from lamina.ir.ops.aten import arguments
from lamina.ir.types import MemRefType, f64, static_sizes
from lamina.runtime.devices.cpu import memory
from lamina.runtime.dtypes import TO_TORCH
from lamina.runtime.library_calls import callable_for, convert, takes_number

Kernel = Callable[[int, int], None]
"""Launches a kernel: address of its table of buffer addresses, number of threads."""


class State:
    """What one running call needs beside its inputs: table of addresses, arena, tensors on the arena."""

    __slots__ = ("arena", "base", "table", "tensors")

    def __init__(self, slots: int, arena_bytes: int) -> None:
        self.table = (ctypes.c_int64 * max(slots, 1))()
        self.base = ctypes.addressof(self.table)
        self.arena = memory.arena(arena_bytes)
        self.tensors: list[torch.Tensor] = []


class Executor:
    """A program ready to run: `executor(inputs) -> outputs`, flat lists of tensors.

    threads: how many a kernel uses, torch's number when 0. `source` is the Python it runs, for people to
    read.
    """

    def __init__(self, program: Operation, kernels: Mapping[str, Kernel], threads: int = 0) -> None:
        self._threads = threads
        writer = _Writer(program, kernels)
        writer.write()
        self.source = writer.source()
        self.arena_bytes: int = plain(program.attributes["arena_bytes"])
        self._slots = writer.slots
        namespace = dict(writer.names)
        exec(compile(self.source, f"<lamina {plain(program.attributes['sym_name'])}>", "exec"), namespace)
        self._prepare_state: Callable[[State], None] = namespace["prepare_state"]
        run: Callable[[Sequence[Any], State, int], list[Any]] = namespace["run"]
        # A program made under autocast has the casts in it; library calls are not to make them once more.
        self._run = without_autocast(run) if torch.is_autocast_enabled("cpu") else run
        self._free: list[State] = []

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        # list.pop and list.append are atomic: no lock is needed for two calls to get two states.
        try:
            state = self._free.pop()
        except IndexError:
            state = State(self._slots, self.arena_bytes)
            self._prepare_state(state)
        try:
            return self._run(inputs, state, self._threads or torch.get_num_threads())
        finally:
            self._free.append(state)

    def forget_states(self) -> None:
        """Give the arenas of past calls back: for a program that runs rarely."""
        self._free.clear()


def without_autocast(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Like `run`, with the thread's autocast out of effect."""

    def call(inputs: Sequence[Any], state: State, threads: int) -> list[Any]:
        with torch._C._DisableAutocast():
            return run(inputs, state, threads)

    return call


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a buffer is: the value that owns the memory and the offset from its start in elements."""

    root: Value
    offset: int


@dataclass(slots=True)
class _Writer:
    """Writes `prepare_state(state)` and `run(inputs, state, threads)`."""

    program: Operation
    kernels: Mapping[str, Kernel]
    names: dict[str, Any] = field(default_factory=lambda: {"as_strided": torch.as_strided})
    state_lines: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    slots: int = 0
    variables: dict[Value, str] = field(default_factory=dict)
    places: dict[Value, _Place] = field(default_factory=dict)
    pointers: dict[Value, str] = field(default_factory=dict)
    fixed: set[Value] = field(default_factory=set)
    written: dict[Value, None] = field(default_factory=dict)
    """Inputs whose memory kernels write to."""
    counter: Any = field(default_factory=itertools.count)

    def source(self) -> str:
        state = "\n    ".join(self.state_lines) or "pass"
        run = "\n    ".join(self.lines)
        return f"def prepare_state(state):\n    {state}\n\n\ndef run(inputs, state, threads):\n    {run}\n"

    def write(self) -> None:
        body = self.program.body
        for argument in body.arguments:
            self.variables[argument] = f"a{argument.position}"
            self.places[argument] = _Place(argument, 0)
        if body.arguments:
            self.lines.append(f"({', '.join(self.variables[a] for a in body.arguments)},) = inputs")
        self.state_lines.append(
            "table, base, arena, tensors = state.table, state.base, state.arena, state.tensors"
        )
        self.lines.append("table, base, tensors = state.table, state.base, state.tensors")
        for operation in body:
            method = getattr(self, "_" + operation.name.removeprefix("program."), None)
            if method is None:
                raise CompilerBug(f"the executor does not know {operation.name}")
            method(operation)

    # names

    def _name(self, prefix: str, value: Any) -> str:
        for name, known in self.names.items():
            if known is value and name.startswith(prefix):
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def _tensor(self, value: Value) -> str:
        """The variable that holds the value as a tensor, made on first use."""
        found = self.variables.get(value)
        if found is not None:
            return found
        place = self.places[value]
        if place.root in self.fixed:
            return self._fixed_tensor(value, place)
        base = self._tensor(place.root)
        type_ = value.type
        assert isinstance(type_, MemRefType)
        variable = self.variables[value] = f"v{next(self.counter)}"
        start = f", {base}.storage_offset() + {place.offset}" if place.offset else ""
        self.lines.append(f"{variable} = as_strided({base}, {type_.shape}, {type_.layout}{start})")
        return variable

    def _fixed_tensor(self, value: Value, place: _Place) -> str:
        """A tensor on the arena: made once a state."""
        type_ = value.type
        assert isinstance(type_, MemRefType)
        position = sum(line.startswith("tensors.append") for line in self.state_lines)
        dtype = self._name("dtype_", TO_TORCH[type_.element])
        root = self.pointers[place.root]
        at = f"arena_tensor(arena, {root}, {dtype}, {type_.shape}, {type_.layout}, {place.offset})"
        self.names["arena_tensor"] = arena_tensor
        self.state_lines.append(f"tensors.append({at})")
        self.variables[value] = f"tensors[{position}]"
        return self.variables[value]

    # operations

    def _alloc(self, operation: Operation) -> None:
        value = operation.result
        type_ = value.type
        assert isinstance(type_, MemRefType)
        self.places[value] = _Place(value, 0)
        if plain(operation.attributes["space"]) == "arena":
            self.fixed.add(value)
            self.pointers[value] = str(plain(operation.attributes["offset"]))
            return
        variable = self.variables[value] = f"o{next(self.counter)}"
        dtype = self._name("dtype_", TO_TORCH[type_.element])
        self.names["empty"] = memory.empty_strided
        self.lines.append(f"{variable} = empty({type_.shape}, {type_.layout}, {dtype})")

    def _constant(self, operation: Operation) -> None:
        value = operation.attributes["value"]
        assert isinstance(value, DenseElementsAttr)
        self.variables[operation.result] = self._name("constant_", constant_tensor(value))
        self.places[operation.result] = _Place(operation.result, 0)

    def _view(self, operation: Operation) -> None:
        place = self.places[operation.operand()]
        offset = place.offset + plain(operation.attributes["offset"])
        self.places[operation.result] = _Place(place.root, offset)

    def _launch(self, operation: Operation) -> None:
        first = self.slots
        sizes = plain(operation.attributes["sizes"]) if "sizes" in operation.attributes else []
        last = first + len(operation.operands)
        self.slots = last + len(sizes)
        self.state_lines += [f"table[{slot}] = {size}" for slot, size in enumerate(sizes, last)]
        for slot, value in enumerate(operation.operands, first):
            place, element = self.places[value], value.type
            assert isinstance(element, MemRefType)
            extra = place.offset * element.element.bytes
            if place.root in self.fixed:
                offset = int(self.pointers[place.root]) + extra
                self.state_lines.append(f"table[{slot}] = arena.data_ptr() + {offset}")
                continue
            pointer = self._pointer(place.root)
            self.lines.append(f"table[{slot}] = {pointer}" + (f" + {extra}" if extra else ""))
        for value in operation.operands[len(operation.operands) - plain(operation.attributes["outputs"]) :]:
            root = self.places[value].root
            if isinstance(root, BlockArgument):
                self.written[root] = None
        name = plain(operation.attributes["kernel"])
        kernel = self._name(f"{name}__", self.kernels[name])
        threads = plain(operation.attributes["threads"]) if "threads" in operation.attributes else "threads"
        self.lines.append(f"{kernel}(base + {8 * first}, {threads})")

    def _pointer(self, root: Value) -> str:
        found = self.pointers.get(root)
        if found is None:
            found = self.pointers[root] = f"p{next(self.counter)}"
            self.lines.append(f"{found} = {self._tensor(root)}.data_ptr()")
        return found

    def _call(self, operation: Operation) -> None:
        callee = plain(operation.attributes["callee"])
        args, keywords = arguments(operation)
        parts = [self._argument(callee, position, value) for position, value in enumerate(args)]
        parts += [f"{key}={self._argument(callee, key, value)}" for key, value in keywords.items()]
        call = f"{self._name('call_', callable_for(callee))}({', '.join(parts)})"
        results = [f"r{next(self.counter)}" for _ in operation.results]
        for value, variable in zip(operation.results, results, strict=True):
            self.variables[value] = variable
            self.places[value] = _Place(value, 0)
        target = results[0] if len(results) == 1 else f"({', '.join(results)},)" if results else "_"
        if "returned" in operation.attributes:
            named = iter(results)
            places = plain(operation.attributes["returned"])
            target = f"({', '.join(next(named) if is_there else '_' for is_there in places)},)"
        self.lines.append(f"{target} = {call}")
        for value, variable in zip(operation.results, results, strict=True):
            if isinstance(value.type, MemRefType) and value.uses:
                self.names["restride"] = restride
                layout = value.type.layout
                mended = f"{variable} = restride({variable}, {layout})"
                # A library call may leave out a result that nobody asked for.
                self.lines.append(f"if {variable} is not None and {variable}.stride() != {layout}: {mended}")

    def _argument(self, callee: str, position: int | str, value: Any) -> str:
        if isinstance(value, Value):
            is_number = holds_number(value) and takes_number(callee, position)
            return f"{self._tensor(value)}.item()" if is_number else self._tensor(value)
        if isinstance(value, list):
            return f"[{', '.join(self._argument(callee, position, each) for each in value)}]"
        converted = convert(callee, position, value)
        if converted is None or isinstance(converted, bool | int | str):
            return repr(converted)
        return self._name("argument_", converted)

    def _copy(self, operation: Operation) -> None:
        source, target = (self._tensor(value) for value in operation.operands)
        self.lines.append(f"{target}.copy_({source})")

    def _free(self, operation: Operation) -> None:
        names = [self.variables[value] for value in operation.operands if value in self.variables]
        if names:
            self.lines.append(f"del {', '.join(names)}")

    def _return(self, operation: Operation) -> None:
        if self.written:
            # Autograd, and copies made of weights, are to see that these have changed.
            written = ", ".join(self.variables[root] for root in self.written)
            self.lines.append(f"{self._name('increment', torch._C._increment_version)}([{written}])")
        self.lines.append(f"return [{', '.join(self._tensor(value) for value in operation.operands)}]")


def holds_number(value: Value) -> bool:
    """Whether a buffer could be a number that the program got as a tensor."""
    type_ = value.type
    return isinstance(type_, MemRefType) and not type_.rank and type_.element is f64


def arena_tensor(
    arena: torch.Tensor,
    at: int,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """A tensor on the arena's memory from byte `at`, `offset` elements in."""
    return torch.as_strided(arena.view(dtype), shape, strides, at // dtype.itemsize + offset)


def restride(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same values in the strides that the program was planned with (sizes of 1 may differ freely)."""
    fixed = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return fixed.copy_(tensor)


def constant_tensor(value: DenseElementsAttr) -> torch.Tensor:
    """A constant's tensor."""
    element = value.type.element
    shape = static_sizes(value.type.shape)
    flat = torch.from_numpy(np.frombuffer(value.bytes_, STORAGE[element.name]).copy())
    dtype = TO_TORCH[element]
    if flat.dtype != dtype:
        flat = flat.view(dtype)
    return flat[0].expand(shape).clone() if value.is_splat else flat.reshape(shape)
