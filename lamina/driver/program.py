"""A compiled graph as plain data: what is kept on disk, and what is made into something that runs.

A first process and a second one build the callable from the same record, so that they cannot differ.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import torch

from lamina.autograd.outputs import (
    ConstantOutput,
    FreshOutput,
    InputOutput,
    Output,
    SameOutput,
    ViewOutput,
)
from lamina.ir.core import Operation
from lamina.ir.text import parse_module, print_module
from lamina.reports.report import GraphReport, KernelReport, Traffic

JSON_VALUES = (bool, int, float, str, type(None))
RECORDS: dict[str, type[Output]] = {
    kind.__name__: kind for kind in (FreshOutput, ViewOutput, InputOutput, SameOutput, ConstantOutput)
}


@dataclass(slots=True)
class Program:
    """`main` and `prepare`: memory-planned `program.func`s. kernels: the identity of each by its name.

    prepare_arguments: positions of main's inputs that `prepare` takes. positions: which of the graph's
    `count` inputs are main's. is_repeatable: a call that failed left no trace.
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
        )  # fmt: skip


def _read_function(text: str) -> Operation:
    (function,) = parse_module(text).body
    function.detach()
    return function


def _output_values(output: Output) -> dict[str, Any]:
    values = {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if isinstance(output, ViewOutput):
        values["dtype"] = str(output.dtype).removeprefix("torch.")
    return values


def _read_output(kind: str, values: dict[str, Any]) -> Output:
    if kind == "ViewOutput":
        sizes = {name: tuple(values[name]) for name in ("size", "stride")}
        values = {**values, **sizes, "dtype": getattr(torch, values["dtype"])}
    return RECORDS[kind](**values)


def _read_report(values: dict[str, Any]) -> GraphReport:
    kernels = [KernelReport(**each) for each in values["kernels"]]
    return GraphReport(**{**values, "kernels": kernels, "traffic": Traffic(**values["traffic"])})
