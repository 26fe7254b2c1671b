"""The entry of capture: `trace(callable, args, kwargs)` runs the callable in the machine."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from lamina.capture.breaks.native import reads_caller_frame
from lamina.capture.breaks.resume_point import ResumePoint, describe_frame
from lamina.capture.captured import Captured
from lamina.capture.guards import ARGUMENTS
from lamina.capture.machine.code import CO_SUSPENDS
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.loop import Machine
from lamina.capture.machine.signals import TracingFailed, TracingPaused, TracingStopped, Value, stop
from lamina.capture.opcodes.table import HANDLERS
from lamina.capture.rebuild import Rebuilder
from lamina.capture.side_effects import SideEffects, collect_side_effects
from lamina.capture.sources import Argument, Fixed, is_lasting
from lamina.capture.tensor_guards import ApartCheck, storage_of
from lamina.capture.values.tracing_world import TracingWorld
from lamina.eager.logs import quiet_fakes
from lamina.errors import CompilerBug, Unsupported

RECURSION_LIMIT = 20_000
BREAK_ATTEMPTS = 6
"""How many places are tried for one break before the whole call runs eagerly."""
BREAKABLE = ("CALL", "FOR_ITER", "GET_ITER", "BEFORE_WITH", "LOAD_ATTR", "LOAD_METHOD")
"""Bytecodes that make what cannot leave a trace."""

NEVER_BROKEN = frozenset({"raises", "caller-frame", "uninitialized"})
"""Codes of what needs the call whole, as eager makes it."""

FAILURES = frozenset({"raises", "op-error"})
"""Codes of a program that fails by itself."""

Start = Callable[[TracingWorld], Value]
"""Brings in what a program works on and runs it in the world's machine; gives the result."""


@dataclass(slots=True)
class Attempt:
    """One run of a program in a machine of its own, up to a given step of its root frame."""

    start: Start
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    refused: frozenset[int] = frozenset()
    """Reads of tensors' values, by number, at which the capture stops."""
    alone: frozenset[Any] = frozenset()
    """Iterators from outside, by the key of their source, that are not walked."""
    says_compiling: bool = True
    """What `torch.compiler.is_compiling()` gives."""
    world: TracingWorld = field(default_factory=TracingWorld)
    machine: Machine = field(init=False)
    rebuilder: Rebuilder | None = None

    def run(self, pause_at: int = -1) -> Captured:
        """Raises TracingStopped for what cannot be captured, CompilerBug where the machine itself fails."""
        self.machine = Machine(HANDLERS, self.world, trail=[])
        self.machine.pause_at = pause_at
        self.world.builder.reads.refused = self.refused
        self.world.importer.walks.alone = self.alone
        self.world.says_compiling = self.says_compiling
        point = None
        self.world.refuse_outer_modes()
        with telling_failures(), preserve_modes(self.world), quiet_fakes(), deep_recursion:
            self.world.start_guards()
            try:
                result = run_program(self.world, self.start)
                self.machine.release_root()
            except TracingPaused:
                point, result = self.describe_pause()
            self.world.check_finalizers()
            grad_mode = torch.is_grad_enabled()
            self.world.modes.close_graph()
        self.rebuilder = Rebuilder(self.world)
        return assemble(self.world, self.rebuilder, self.args, self.kwargs, result, grad_mode, point)

    def describe_pause(self) -> tuple[ResumePoint, tuple[Value, ...]]:
        frame = self.machine.root
        assert frame is not None
        if reads_caller_frame(frame):
            stop("frames", "a function looks at the frame that calls it")
        if any(type(value) is GeneratorValue and value.holds_handlers for value in frame.slots):
            stop("iterator-result", "a generator in progress would be closed by the end of the call")
        return describe_frame(frame)

    def find_stuck_walks(self) -> set[Any]:
        """Iterators from outside that were walked a part of the way: the paused frame still holds them."""
        frame = self.machine.root
        assert frame is not None
        held = {id(value) for value in (*frame.stack, *frame.slots)}
        walks = self.world.importer.walks
        opaque = self.world.importer.opaque
        return {
            walk.source.key for key, walk in walks.started.items() if walk.steps and id(opaque[key]) in held
        }

    def can_break(self, error: Unsupported) -> bool:
        """Whether the program can go on after a break where this attempt stopped."""
        root = self.machine.root
        if root is None or root.code.co_flags & CO_SUSPENDS or error.code in NEVER_BROKEN:
            return False
        # An error of the user's that nobody catches is best raised by the user's own code.
        is_caught = root.decoded.find_range(root.position - 1) is not None
        return error.code != "op-error" or is_caught

    def earlier_step(self, step: int) -> int:
        """The step to break at when the values at `step` cannot leave the trace; -1: there is none."""
        unbuilt = None if self.rebuilder is None else self.rebuilder.unbuilt
        birth = self.machine.births.get(id(unbuilt), step)
        if birth < step:
            return birth
        assert self.machine.root is not None
        instructions = self.machine.root.decoded.instructions
        trail = self.machine.trail or []
        while step > 0:
            step -= 1
            if instructions[trail[step]].name.startswith(BREAKABLE):
                return step
        return -1


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, fullgraph: bool = False
) -> Captured:
    """Capture one call of `function` (a function, bound method, nn.Module or other callable).

    Nothing outside is changed and no tensor operation runs. What the machine does not know ends the capture
    with a `pause` before it, unless `fullgraph`. Raises Unsupported, placed at the user's line, where that
    cannot be done, and for calls that raise: those are to be run eagerly.
    """
    is_whole = fullgraph or not is_root_the_call(function)
    return capture(call_of(function, args, kwargs), args, kwargs, may_pause=not is_whole)


def trace_given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
    """Capture the call `args[0](*args[1:], **kwargs)` of a function that is another object in each call."""

    def start(world: TracingWorld) -> Value:
        bring = world.importer.bring
        callee = bring(args[0], Argument(0, describe_callable(args[0])))
        arguments = tuple(
            bring(value, Argument(index + 1, f"argument {index}")) for index, value in enumerate(args[1:])
        )
        keywords = {name: bring(value, Argument(name)) for name, value in kwargs.items()}
        return world.call(callee, arguments, keywords)

    captured = capture(start, args, kwargs, may_pause=True)
    if captured.pause is not None:
        captured.pause = captured.pause.without_function()
    return captured


def trace_rest(point: ResumePoint, values: tuple[Any, ...]) -> Captured:
    """Capture how a paused frame goes on. Its values are the arguments of the segment."""
    return capture(rest_of(point, values), values, {}, may_pause=True)


def call_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Start:
    """The program that calls `function`."""

    def start(world: TracingWorld) -> Value:
        bring = world.importer.bring
        callee = bring(function, Fixed(function, describe_callable(function)))
        arguments = tuple(bring(value, Argument(index)) for index, value in enumerate(args))
        keywords = {name: bring(value, Argument(name)) for name, value in kwargs.items()}
        return world.call(callee, arguments, keywords)

    return start


def rest_of(point: ResumePoint, values: tuple[Any, ...]) -> Start:
    """The program that goes on where a frame has paused."""

    def start(world: TracingWorld) -> Value:
        labels = enumerate(point.labels())
        sources = [Argument(index, label) for index, label in labels]
        brought = [world.importer.bring(value, source) for value, source in zip(values, sources, strict=True)]
        frame = point.make_frame(brought)
        world.machine.run(frame)
        return frame.value

    return start


def is_root_the_call(function: Callable[..., Any]) -> bool:
    """Whether the first frame that a call of `function` runs gives the call's own result."""
    kind = type(function)
    if isinstance(function, torch.nn.Module) or kind in (types.FunctionType, types.MethodType):
        return True
    return any(type(base.__dict__.get("__call__")) is types.FunctionType for base in kind.__mro__)


def capture(
    start: Start,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    may_pause: bool,
    alone: frozenset[Any] = frozenset(),
    says_compiling: bool = True,
) -> Captured:
    """Capture whole, or up to the step at which that stops, or to an earlier one.

    alone: iterators that are not to be walked, by the key of their source; says_compiling: what
    `torch.compiler.is_compiling()` gives: no, once a program has failed that asked.
    """
    begin = partial(Attempt, start, args, kwargs, says_compiling=says_compiling)
    again = partial(capture, start, args, kwargs, may_pause=may_pause)
    attempt = begin(alone=alone)
    while True:
        try:
            captured = attempt.run()
            attempt.world.importer.walks.remember()
            return captured
        except TracingStopped as stopped:
            reason = stopped.error
        if attempt.world.importer.open_containers.has_closed:
            attempt = begin(attempt.refused, alone)
            continue
        if reason.code in FAILURES and says_compiling and attempt.world.has_asked_compiling:
            return again(alone=alone, says_compiling=False)
        walked = attempt.world.importer.walks.walked()
        if reason.code == "iterator-argument" and walked:
            return again(alone=alone | walked, says_compiling=says_compiling)
        reads = attempt.world.builder.reads
        if not may_pause or reads.needed <= reads.refused:
            break
        # The program needs a number that it reads: the break is made where it reads it.
        attempt = begin(reads.refused | reads.needed, alone)
    refused = attempt.refused
    if not may_pause or not attempt.can_break(reason):
        raise reason from reason.__cause__
    step = len(attempt.machine.trail or ()) - 1
    for _ in range(BREAK_ATTEMPTS):
        attempt = begin(refused, alone)
        try:
            captured = attempt.run(pause_at=step)
        except TracingStopped:
            step = attempt.earlier_step(step)
            if step < 0:
                break
            continue
        stuck = attempt.find_stuck_walks()
        if stuck:
            return again(alone=alone | stuck, says_compiling=says_compiling)
        attempt.world.importer.walks.remember()
        if reason.location is None and captured.pause is not None:
            reason.location = (captured.pause.function.__code__.co_filename, captured.pause.line)
        captured.reason = reason
        return captured
    raise reason from reason.__cause__


def run_program(world: TracingWorld, start: Start) -> Value:
    """Run the program in the machine; an exception of the program is left to eager."""
    try:
        return start(world)
    except (TracingStopped, TracingPaused, KeyboardInterrupt):
        raise
    except BaseException as error:
        raised = error
    world.check_origin(raised)
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
def telling_failures() -> Iterator[None]:
    """A failure of the machine's own code is a CompilerBug at the user's line."""
    try:
        yield
    except TracingFailed as failed:
        message, location = failed.error.message, failed.error.location
        raise CompilerBug(message, location=location, stage="capture") from failed.failure


@contextlib.contextmanager
def preserve_modes(world: TracingWorld) -> Iterator[None]:
    """Leave thread-wide modes as they were, however tracing ends."""
    grad_mode = torch.is_grad_enabled()
    try:
        yield
    finally:
        world.modes.unwind()
        torch._C._set_grad_enabled(grad_mode)


class DeepRecursion:
    """A frame of the machine takes several of the interpreter's.

    The limit is one for all threads: the first that traces raises it, the last takes it back.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.limit = 0

    def __enter__(self) -> None:
        with self.lock:
            if self.count == 0:
                self.limit = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self.limit, RECURSION_LIMIT))
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                sys.setrecursionlimit(self.limit)


deep_recursion = DeepRecursion()


def assemble(
    world: TracingWorld,
    rebuilder: Rebuilder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Value,
    grad_mode: bool,
    point: ResumePoint | None,
) -> Captured:
    """Close the graph and generate the functions around it."""
    effects = collect_side_effects(world)
    if world.warning_region is not None:
        rebuilder.unbuilt = world.warning_region
        stop("warning-filters", "the graph ends in a region where warnings are filtered")
    if world.modes.lasts:
        effects.switches = world.modes.switches
    elif grad_mode != torch.is_grad_enabled():
        effects.calls.append((torch._C._set_grad_enabled, (grad_mode,), {}))
    rebuilder.write_all(result, effects)
    builder = world.builder
    builder.reads.finish()
    builder.graph.output(tuple(rebuilder.outputs))
    builder.reads.drop_unused()
    inputs = [value for value in builder.inputs if value.node.users or value.node in rebuilder.outputs]
    for value in builder.inputs:
        if not value.node.users:
            builder.graph.erase_node(value.node)
    inputs = [value for value in inputs if value.node.users]
    guard_written_objects(world, effects)
    guard_call(world, args, kwargs)
    mutated = guard_mutation(world, inputs)
    # Its Python text is written when it is called, which most graphs never are.
    graph_module = _LazyGraphModule(builder.holder, builder.graph)
    return Captured(graph_module, inputs, world.guards, rebuilder.writer, effects.count, mutated, point)


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
        guards.tensor(source, value.real, world.builder.symbols.layouts.get(source.key))
    world.builder.symbols.add_guards(guards)
    guards.guards += before
    world.finish_guards()


def guard_written_objects(world: TracingWorld, effects: SideEffects) -> None:
    """What is written to must not be another of the program's objects, reached by a second path."""
    importer = world.importer
    known = [(type(record.original), record.source) for record in importer.copies.values()]
    known += [(type(state.owner), state.source) for state in importer.states.values()]
    known += [(type(each.original), each.source) for each in importer.open_containers.known.values()]
    written = [(type(write.record.original), write.record.source) for write in effects.containers]
    written += [(type(each.original), each.source) for each in effects.open_containers]
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
    """Indices of inputs that the graph writes to. These may share memory with no other input."""
    mutated = [index for index, value in enumerate(inputs) if value.is_mutated()]
    if not mutated:
        return mutated
    for alike in group_by_storage(inputs):
        first = next((value for value in alike if value.is_mutated()), None)
        if first is not None and len(alike) > 1:
            other = next(value for value in alike if value is not first)
            stop(
                "overlapping-inputs",
                f"{first.source.describe()} is written to and shares memory with {other.source.describe()}",
                "clone one of them",
            )
    written = [inputs[index].source for index in mutated]
    others = [
        value.source
        for value in inputs
        if isinstance(value.real, torch.Tensor) and not value.is_mutated() and not is_lasting(value.source)
    ]
    if len(written) + len(others) > 1:
        check = ApartCheck(len(written), remembers=not world.builder.symbols.layouts)
        world.guards.add(
            ARGUMENTS,
            "memory of arguments",
            "none that is written to shares memory with another",
            lambda writer: (
                f"{writer.constant(check)}"
                f"({', '.join(source.expression(writer) for source in (*written, *others))})"
            ),
        )
    return mutated


def group_by_storage(inputs: list[Any]) -> list[list[Any]]:
    """The tensors among the inputs, those of one storage together."""
    groups: dict[int, list[Any]] = {}
    for value in inputs:
        if isinstance(value.real, torch.Tensor):
            groups.setdefault(storage_of(value.real), []).append(value)
    return list(groups.values())
