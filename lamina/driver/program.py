"""A compiled graph as plain data: what is kept on disk, and what is made into something that runs.

A first process and a second one build the callable from the same record, so that they cannot differ.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from lamina.autograd.numbers import NumberCondition
from lamina.autograd.outputs import (
    ConstantOutput,
    FreshOutput,
    InputOutput,
    Output,
    SameOutput,
    ViewOutput,
)
from lamina.ir.core import Operation
from lamina.ir.sizes import LEAST, Condition, Size, SymbolicSize, UndecidedSize
from lamina.ir.text import parse_module, print_module
from lamina.reports.report import GraphReport, KernelReport, Traffic

JSON_VALUES = (bool, int, float, str, type(None))
RECORDS: dict[str, type[Output]] = {
    kind.__name__: kind for kind in (FreshOutput, ViewOutput, InputOutput, SameOutput, ConstantOutput)
}


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """The size called `name`: that of a dimension of input number `position`, or that input itself (None)."""

    name: str
    position: int
    dimension: int | None

    def read(self, inputs: Sequence[Any]) -> int:
        """The size at hand. Raises UndecidedSize for an input that is a number but no int."""
        value = inputs[self.position]
        if self.dimension is not None:
            return int(value.shape[self.dimension])
        if type(value) is not int:
            raise UndecidedSize(f"the number {value} varies and is no size")
        return value


@dataclass(slots=True)
class Program:
    """`main` and `prepare`: memory-planned `program.func`s. kernels: the identity of each by its name.

    prepare_arguments: positions of main's inputs that `prepare` takes. positions: which of the graph's
    `count` inputs are main's. is_repeatable: a call that failed left no trace.

    A program of symbolic sizes has `dimensions`, which say what their names stand for, names `derived` from
    them, and `conditions`, under which it is right, as those on floats that vary; its `main` is planned when
    it is bound to numbers.
    """

    main: Operation
    prepare: Operation | None
    prepare_arguments: list[int]
    kernels: dict[str, str]
    positions: list[int]
    count: int
    outputs: list[Output]
    is_repeatable: bool
    report: GraphReport
    dimensions: list[OpenDimension] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    number_conditions: list[NumberCondition] = field(default_factory=list)
    derived: dict[str, SymbolicSize] = field(default_factory=dict)

    def values(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The values of all names where the dimensions have these sizes."""
        values = dict(sizes)
        for name, size in self.derived.items():
            values[name] = size.value(values)
        return values

    def holds(self, sizes: Mapping[str, int], numbers: Mapping[str, float]) -> bool:
        """Whether it is right where the dimensions have these sizes, and floats that vary these values."""
        if any(size < LEAST for size in sizes.values()):
            return False
        values = self.values(sizes)
        return all(each.holds(values) for each in self.conditions) and all(
            each.holds(numbers) for each in self.number_conditions
        )

    def to_bytes(self) -> bytes | None:
        """JSON with the IR's text; None for a program that hands back a value that is no plain number."""
        constants = [each.value for each in self.outputs if isinstance(each, ConstantOutput)]
        if not all(type(value) in JSON_VALUES for value in constants):
            return None
        functions = [self.main] if self.prepare is None else [self.main, self.prepare]
        record = {
            "functions": [print_module(function) for function in functions],
            "prepare_arguments": self.prepare_arguments,
            "kernels": self.kernels,
            "positions": self.positions,
            "count": self.count,
            "outputs": [[type(each).__name__, _output_values(each)] for each in self.outputs],
            "is_repeatable": self.is_repeatable,
            "report": dataclasses.asdict(self.report),
            "dimensions": [dataclasses.astuple(each) for each in self.dimensions],
            "conditions": [str(each) for each in self.conditions],
            "number_conditions": [dataclasses.astuple(each) for each in self.number_conditions],
            "derived": {name: size.name for name, size in self.derived.items()},
        }
        return json.dumps(record).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Program:
        """What `to_bytes` wrote; any error of the data raises."""
        record = json.loads(data)
        functions = [_read_function(text) for text in record["functions"]]
        main, prepare = functions if len(functions) == 2 else (functions[0], None)
        return Program(
            main, prepare, record["prepare_arguments"], record["kernels"], record["positions"],
            record["count"], [_read_output(kind, values) for kind, values in record["outputs"]],
            record["is_repeatable"], _read_report(record["report"]),
            [OpenDimension(*each) for each in record["dimensions"]],
            [Condition.read(each) for each in record["conditions"]],
            [NumberCondition(*each) for each in record["number_conditions"]],
            {name: SymbolicSize.get(text) for name, text in record["derived"].items()},
        )  # fmt: skip


def _read_function(text: str) -> Operation:
    (function,) = parse_module(text).body
    function.detach()
    return function


def _output_values(output: Output) -> dict[str, Any]:
    values = {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if isinstance(output, ViewOutput):
        for name in ("size", "stride"):
            values[name] = [_size_value(size) for size in values[name]]
        values["offset"] = _size_value(output.offset)
        values["dtype"] = str(output.dtype).removeprefix("torch.")
    return values


def _size_value(size: Size) -> int | str:
    return size if isinstance(size, int) else size.name


def _read_size(value: int | str) -> Size:
    return value if isinstance(value, int) else SymbolicSize.get(value)


def _read_output(kind: str, values: dict[str, Any]) -> Output:
    if kind == "ViewOutput":
        sizes = {name: tuple(map(_read_size, values[name])) for name in ("size", "stride")}
        offset = _read_size(values["offset"])
        values = {**values, **sizes, "offset": offset, "dtype": getattr(torch, values["dtype"])}
    return RECORDS[kind](**values)


def _read_report(values: dict[str, Any]) -> GraphReport:
    kernels = [KernelReport(**each) for each in values["kernels"]]
    return GraphReport(**{**values, "kernels": kernels, "traffic": Traffic(**values["traffic"])})
