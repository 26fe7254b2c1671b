"""Compiled callables: a chain of places from the call's beginning over its graph breaks to its result.

call -> place 0 -> result
           `-> break: one instruction runs natively -> place 1 -> result
                                                          `-> break ...

A compiled callable never changes what a program means.
"""

from __future__ import annotations

import copy
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from lamina.autograd.trace import needs_gradient
from lamina.capture import (
    CallerNeeded,
    ResumePoint,
    read_compiled_mark,
    run_rest,
    step,
    trace,
    trace_given,
    trace_rest,
)
from lamina.driver.exported import has_dynamic_sizes, is_exported, module_of
from lamina.driver.nested import Nested
from lamina.driver.site import Settings, Site, compile_or_replay
from lamina.driver.watch import counters, watch
from lamina.errors import CompilerBug, Unsupported, UserError
from lamina.options import Options
from lamina.reports.report import Explanation, GraphReport

PLACE_LIMIT = 64
"""Places of one callable before the rest of a broken call runs natively."""


@dataclass(slots=True)
class State:
    """What `lamina.compile` knows of one callable."""

    original: Callable[..., Any]
    settings: Settings
    nested: Nested = field(default_factory=Nested)
    """Callees that run compiled after a break, shared by all states that came from one compile."""
    root: Site = field(init=False)
    places: dict[ResumePoint, Site] = field(default_factory=dict)
    code: types.CodeType | None = None
    """Of the function that calls this."""
    given: str = ""
    """The function's name, if it is another object of the same code in each call, which gets it first."""

    def __post_init__(self) -> None:
        original, fullgraph = self.original, self.settings.fullgraph

        def capture(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.given:
                return trace_given(args, kwargs)
            return trace(original, args, kwargs, fullgraph=fullgraph)

        self.root = Site(self.name, self.settings, capture, original, original)

    @property
    def name(self) -> str:
        return self.given or getattr(self.original, "__qualname__", type(self.original).__name__)

    @property
    def sites(self) -> list[Site]:
        """All places, in the order in which they were first reached."""
        return [self.root, *self.places.values()]

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result, point = self.root.enter(args, kwargs)
        return result if point is None else self._go_on(point, result)

    def _go_on(self, paused: ResumePoint, values: Any) -> Any:
        """From a break to the end of the call; a loop, so that a thousand breaks need no thousand frames."""
        point: ResumePoint | None = paused
        while point is not None:
            point, values = step(point, values, self.find_nested)
            if point is None:
                return values
            site = self.places.get(point)
            if site is None:
                if len(self.places) >= PLACE_LIMIT:
                    return run_rest(point, values, self.find_nested)
                site = self.places[point] = self._make_place(point)
            values, point = site.enter(values, {})
        return values

    def _make_place(self, point: ResumePoint) -> Site:
        def capture(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return trace_rest(point, args)

        def run_natively(*values: Any) -> Any:
            return run_rest(point, values, self.find_nested)

        return Site(f"{self.name}, line {point.line}", self.settings, capture, run_natively)

    def find_nested(self, callee: Any) -> Any:
        """What a broken frame calls: what can be compiled by itself is."""
        return self.nested.find(callee, self._make_nested)

    def _make_nested(self, callee: Callable[..., Any], is_given: bool) -> State:
        # A function that is given is not held: it ends when the program lets go of it.
        original = call_given if is_given else callee
        given = callee.__qualname__ if is_given else ""
        state = State(original, self.settings, self.nested, given=given)

        def run_eagerly(*args: Any, **kwargs: Any) -> Any:
            if any(getattr(failure, "code", "") == "caller-frame" for failure in state.root.failures):
                raise CallerNeeded
            return original(*args, **kwargs)

        state.root.run_eagerly = run_eagerly
        return state


def call_given(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def dynamo_backend(graph: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
    """`torch.compile(model, backend="lamina")`: Dynamo captures, Lamina compiles."""
    options = Options.from_user()
    if needs_gradient(inputs):
        return graph.forward
    try:
        with watch(options) as watching:
            counters.graphs += 1
            compiled = compile_or_replay(graph, inputs, options, watching)
    except Unsupported:
        return graph.forward
    except CompilerBug as error:
        warnings.warn(f"lamina: {error.message}; the graph runs eagerly. {error.replay_folder}", stacklevel=2)
        return graph.forward
    return lambda *args: tuple(compiled(args))


def explain_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Compile `function` for these arguments (or look at what was compiled), run it once, and report."""
    state = state_of(function)
    if state is None:
        function = compile_callable(function, Options.from_user(), fullgraph=False)
        state = state_of(function)
        assert state is not None
    function(*args, **kwargs)
    explanation = Explanation(state.name)
    for site in all_sites(state):
        explanation.recompiles += [f"{site.name}: {reason}" for reason in site.recompile_reasons]
        for entry in site.entries:
            if entry.captured.reason is not None:
                explanation.add_break(entry.captured.reason)
            report = GraphReport("") if entry.compiled is None else entry.compiled.report
            report.name = f"graph {len(explanation.graphs)}"
            report.eager_reason = entry.reason
            report.guards = entry.captured.guards_text().splitlines()
            explanation.graphs.append(report)
        for failure in site.failures:
            explanation.add_break(failure)
    return explanation


def all_sites(state: State) -> Iterator[Site]:
    """The places of a callable and of the callees that run compiled after its breaks."""
    yield from state.sites
    for callee in state.nested.states:
        yield from callee.sites


def compile_callable(
    function: Callable[..., Any],
    options: Options,
    *,
    fullgraph: bool,
    backend: Callable[..., Any] | None = None,
    dynamic: bool | None = None,
) -> Any:
    """A compiled version: a module stays a module (of a subclass of its class), a function a function."""
    if is_exported(function):
        # Its own checks pin the sizes that do not vary.
        dynamic = True if dynamic is None and has_dynamic_sizes(function) else dynamic
        function = module_of(function)
    if isinstance(function, type) or not callable(function):
        raise UserError(
            f"lamina.compile takes a function, a module or an exported program, got {function!r}",
            hint="call it as lamina.compile(model), or as a decorator over a function",
        )
    if isinstance(function, torch.nn.Module):
        return _compile_module(function, Settings(options, fullgraph, backend, dynamic))
    state = State(_original_of(function), Settings(options, fullgraph, backend, dynamic))

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return state.call(args, kwargs)

    state.code = compiled.__code__  # type: ignore[attr-defined]
    compiled.__lamina__ = state  # type: ignore[attr-defined]
    return compiled


def _original_of(function: Callable[..., Any]) -> Callable[..., Any]:
    state = state_of(function)
    if state is None:
        return function
    original = state.original
    return types.MethodType(original, function.__self__) if type(function) is types.MethodType else original


def state_of(function: Any) -> State | None:
    """The state of a compiled callable; None for any other object."""
    holder = type(function) if isinstance(function, torch.nn.Module) else function
    found = read_compiled_mark(getattr(holder, "__func__", holder))
    return found if isinstance(found, State) else None


def _compile_module(module: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    """A module that shares the original's attributes: parameters, hooks, training flag, state_dict keys.

    It is an object of a new subclass of the module's class with the very same `__dict__`, so a change
    through either is seen by both.
    """
    original = _original_of(module)
    assert isinstance(original, torch.nn.Module)
    state = State(original, settings)
    base = type(original)

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return state.call(args, kwargs)

    first_forward = base.forward
    forward_state = State(original.forward, settings)

    @functools.wraps(first_forward)
    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if base.forward is not first_forward:
            return original.forward(*args, **kwargs)
        return forward_state.call(args, kwargs)

    # Code that is compiled itself enters the original, and not our way to compiled code.
    forward.__lamina__ = types.SimpleNamespace(original=first_forward, code=forward.__code__)  # type: ignore[attr-defined]

    def deepcopy(self: torch.nn.Module, memo: dict[int, Any]) -> torch.nn.Module:
        copied = _compile_module(copy.deepcopy(original, memo), settings)
        memo[id(self)] = copied
        return copied

    def reduce(self: torch.nn.Module, protocol: Any) -> Any:
        if settings.backend is not None:
            raise UserError("a module compiled with a backend= callable does not pickle")
        return _compile_module, (original, settings)

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __call__=call, forward=forward, __deepcopy__=deepcopy, __reduce_ex__=reduce, __lamina__=state,
            __module__=base.__module__, __qualname__=base.__qualname__, __doc__=base.__doc__,
        )  # fmt: skip

    kind = types.new_class(base.__name__, (base,), {}, fill)
    compiled: torch.nn.Module = object.__new__(kind)
    compiled.__dict__ = original.__dict__
    return compiled
