"""Liveness drives what is freed when: held against all later uses, and against a log of a running program."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from lamina.driver.kernels import STORE
from lamina.driver.lowering import make_program
from lamina.driver.program import Program
from lamina.driver.watch import Watch
from lamina.ir import machine
from lamina.ir.core import Operation, Value
from lamina.ir.passes import Context
from lamina.options import Options
from lamina.passes.program.last_uses import last_uses
from lamina.passes.program.to_program import buffer_root
from lamina.runtime import executor
from lamina.runtime.cache import Cache
from lamina.runtime.executor import Executor

Tensor = torch.Tensor
cdist = torch.cdist
"""A library call whose result is fresh memory."""


def chain(x: Tensor) -> Tensor:
    for _ in range(6):
        x = torch.relu(cdist(cdist(x, x.t()), x)) + 1
    return x


def diamond(x: Tensor) -> tuple[Tensor, Tensor]:
    left, right = cdist(x, x), cdist(x.t(), x)
    both = torch.exp(left) * right.sum(0)
    return both @ left, torch.cat([both, right]).flip(0)


def views(x: Tensor) -> Tensor:
    distances = cdist(x, x).view(4, 2, 4, 2)
    first, second = distances[:2].transpose(0, 2), distances[2:]
    return cdist(second.reshape(4, 8), x).tanh().sum() + first.sort(0).values.sum()


def returned(x: Tensor) -> tuple[Tensor, Tensor]:
    distances = cdist(x, x)
    return distances, cdist(cdist(distances, x).sigmoid(), distances)


PROGRAMS: list[Callable[[Tensor], Any]] = [chain, diamond, views, returned]


def program_of(function: Callable[[Tensor], Any], x: Tensor) -> Program:
    options = Options(cache=False)
    with torch.no_grad():
        graph = fx.symbolic_trace(function)
        return make_program(graph, [x], (), Context(options, machine.host(options)), Cache(None), Watch())


def is_needed(buffer: Value, operation: Operation | None) -> bool:
    """Whether this operation or a later one has the buffer, or a view of it, as an operand."""
    while operation is not None:
        uses = () if operation.name == "program.free" else operation.operands
        if any(buffer_root(value) is buffer for value in uses):
            return True
        operation = operation.next
    return False


@pytest.mark.parametrize("function", PROGRAMS)
def test_last_uses_are_the_last_uses(function: Callable[[Tensor], Any]) -> None:
    program = program_of(function, torch.randn(8, 8)).main
    found = last_uses(program)
    for operation in program.body:
        if operation.name == "program.free":
            continue
        for value in operation.results:
            assert buffer_root(value) in found
    for buffer, operation in found.items():
        after = operation.next
        assert not is_needed(buffer, after)
        assert any(buffer_root(value) is buffer for value in (*operation.operands, *operation.results))


@pytest.mark.parametrize("function", PROGRAMS)
def test_exactly_the_dead_are_released(
    function: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start of each kernel and call, what library calls gave is alive if and only if it is needed."""
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)) / 4
    program = program_of(function, x)
    made: list[weakref.ref[Tensor]] = []
    log: list[list[bool]] = []

    def note_living() -> None:
        log.append([each() is not None for each in made])

    def kernel_of(real: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def launch(table: int, threads: int) -> None:
            note_living()
            real(table, threads)

        return launch

    def callable_for(name: str) -> Callable[..., Any]:
        real = real_callable(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            note_living()
            result = real(*args, **kwargs)
            if "out" not in kwargs:
                made.extend(map(weakref.ref, [result] if isinstance(result, Tensor) else result))
            return result

        return call

    real_callable = executor.callable_for
    monkeypatch.setattr(executor, "callable_for", callable_for)
    kernels = {name: kernel_of(real) for name, real in STORE.callables(program.kernels).items()}
    with torch.no_grad():
        results = Executor(program.main, kernels)([x])
        expected = function(x)
    first = expected[0] if isinstance(expected, tuple) else expected
    torch.testing.assert_close(results[0], first, rtol=1e-4, atol=1e-4)

    given: list[Value] = []
    wanted: list[list[bool]] = []
    for operation in program.main.body:
        if operation.name in ("program.launch", "program.call"):
            living = [buffer for buffer in given if is_needed(buffer, operation)]
            wanted.append([buffer in living for buffer in given])
        if operation.name == "program.call":
            given.extend(operation.results)
    assert log == wanted
    assert function is returned or any(False in states for states in wanted)
