"""The entry of capture: `trace(callable, args, kwargs)` runs the callable in the machine."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from lamina.capture.captured import Captured
from lamina.capture.guards import ARGUMENTS
from lamina.capture.machine.loop import Machine
from lamina.capture.machine.signals import TracingStopped, Value, stop
from lamina.capture.opcodes.table import all_handlers
from lamina.capture.rebuild import Rebuilder
from lamina.capture.side_effects import SideEffects, collect_side_effects
from lamina.capture.sources import Argument, Fixed
from lamina.capture.tensor_guards import has_shared_storage, share_memory
from lamina.capture.values.torch_calls import AUTOCAST, GRAD_MODE
from lamina.capture.values.tracing_world import TracingWorld
from lamina.errors import Unsupported

HANDLERS = all_handlers()
RECURSION_LIMIT = 20_000


def trace(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
    """Capture one call of `function` (a function, bound method, nn.Module or other callable).

    Nothing outside is changed and no tensor operation runs. Raises Unsupported, placed at the user's line,
    for what the machine does not know and for calls that raise: those are to be run eagerly.
    """
    world = TracingWorld()
    Machine(HANDLERS, world)
    try:
        with preserve_modes(world), deep_recursion():
            world.start_guards()
            callee = world.importer.bring(function, Fixed(function, describe_callable(function)))
            arguments = tuple(
                world.importer.bring(value, Argument(index)) for index, value in enumerate(args)
            )
            keywords = {name: world.importer.bring(value, Argument(name)) for name, value in kwargs.items()}
            result = run_program(world, callee, arguments, keywords)
            grad_mode = torch.is_grad_enabled()
        return assemble(world, args, kwargs, result, grad_mode)
    except TracingStopped as stopped:
        raise stopped.error from stopped.error.__cause__


def run_program(
    world: TracingWorld, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]
) -> Value:
    """Run the callable in the machine; an exception of the program is left to eager."""
    try:
        return world.call(callee, arguments, keywords)
    except (TracingStopped, KeyboardInterrupt):
        raise
    except BaseException as error:
        raised = error
    reason = Unsupported(
        "raises",
        f"the call raises {type(raised).__name__}: {raised}",
        None,
        "eager raises it at its own line",
    )
    reason.__cause__ = raised
    raise TracingStopped(reason)


def describe_callable(function: Any) -> str:
    if isinstance(function, torch.nn.Module):
        return "self"
    return getattr(function, "__qualname__", None) or type(function).__qualname__


@contextlib.contextmanager
def preserve_modes(world: TracingWorld) -> Iterator[None]:
    """Leave thread-wide modes as they were, however tracing ends."""
    grad_mode = torch.is_grad_enabled()
    # A shape error is eager's to report; torch would log it here as well.
    fake_log = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled, fake_log.disabled = fake_log.disabled, True
    try:
        yield
    finally:
        fake_log.disabled = was_disabled
        while world.autocasts:
            context, entered, _ = world.autocasts.pop()
            leave = (
                AUTOCAST._exit_autocast
                if isinstance(context, torch.autocast)
                else GRAD_MODE._exit_inference_mode
            )
            leave(entered)
        torch._C._set_grad_enabled(grad_mode)


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """A frame of the machine takes several of the interpreter's."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def assemble(
    world: TracingWorld, args: tuple[Any, ...], kwargs: dict[str, Any], result: Value, grad_mode: bool
) -> Captured:
    """Close the graph and generate the functions around it."""
    effects = collect_side_effects(world)
    if grad_mode != torch.is_grad_enabled():
        effects.calls.append((torch._C._set_grad_enabled, (grad_mode,), {}))
    rebuilder = Rebuilder(world)
    rebuilder.write_all(result, effects)
    builder = world.builder
    builder.graph.output(tuple(rebuilder.outputs))
    inputs = [value for value in builder.inputs if value.node.users or value.node in rebuilder.outputs]
    for value in builder.inputs:
        if not value.node.users:
            builder.graph.erase_node(value.node)
    inputs = [value for value in inputs if value.node.users]
    guard_written_objects(world, effects)
    guard_call(world, args, kwargs)
    mutated = guard_mutation(world, inputs)
    graph_module = torch.fx.GraphModule(torch.nn.Module(), builder.graph)
    return Captured(graph_module, inputs, world.guards, rebuilder.writer, effects.count, mutated)


def guard_call(world: TracingWorld, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Guards on the shape of the call, on all tensors brought in, and on modes."""
    guards = world.guards
    count, names = len(args), tuple(kwargs)
    before = list(guards.guards)
    guards.guards.clear()
    guards.add(ARGUMENTS, "positional arguments", f"{count}", lambda writer: f"len(args) == {count}")
    guards.add(
        ARGUMENTS,
        "keyword arguments",
        f"{names!r}",
        lambda writer: f"tuple(kwargs) == {writer.constant(names)}" if names else "not kwargs",
    )
    for value, source in world.importer.tensor_sources:
        guards.tensor(source, value.real)
    guards.guards += before
    world.finish_guards()


def guard_written_objects(world: TracingWorld, effects: SideEffects) -> None:
    """What is written to must not be another of the program's objects, reached by a second path."""
    importer = world.importer
    known = [(type(record.original), record.source) for record in importer.copies.values()]
    known += [(type(state.owner), state.source) for state in importer.states.values()]
    written = [(type(write.record.original), write.record.source) for write in effects.containers]
    written += [
        (kind, source)
        for kind, source in known
        if any(write.source is source for write in effects.attributes)
    ]
    for kind, source in written:
        for other_kind, other in known:
            if other is not source and other_kind is kind:
                world.guards.distinct(source, other)


def guard_mutation(world: TracingWorld, inputs: list[Any]) -> list[int]:
    """Indices of inputs that the graph writes to. Then no two inputs may share memory."""
    mutated = [index for index, value in enumerate(inputs) if value.is_mutated()]
    if not mutated:
        return mutated
    reals = [value.real for value in inputs]
    for index in mutated:
        for other, real in enumerate(reals):
            if other != index and share_memory(reals[index], real):
                stop(
                    "overlapping-inputs",
                    f"{inputs[index].source.describe()} is written to and shares memory with "
                    f"{inputs[other].source.describe()}",
                    "clone one of them",
                )
    movable = [
        value.source for index, value in enumerate(inputs) if index in mutated or not value.source.is_fixed
    ]
    if len(movable) > 1:
        world.guards.add(
            ARGUMENTS,
            "memory of arguments",
            "no two tensors share memory",
            lambda writer: (
                f"not {writer.constant(has_shared_storage)}"
                f"([{', '.join(source.expression(writer) for source in movable)}])"
            ),
        )
    return mutated
