"""Compiled callables: which compiled entry serves a call, when to compile a new one, when to run eagerly.

An entry is one captured graph with its guards and the program made of it. Entries are tried in order of
last use. Whatever cannot be compiled runs eagerly and leaves a remark: a compiled callable never changes
what a program means.
"""

from __future__ import annotations

import copy
import functools
import platform
import sys
import threading
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from lamina.autograd.trace import needs_gradient
from lamina.capture import Captured, trace
from lamina.driver import graph as graphs
from lamina.driver.graph import Compiled
from lamina.driver.replay import write_replay
from lamina.driver.watch import Watch, counters, watch
from lamina.errors import CompilerBug, LaminaError, Unsupported, UserError
from lamina.options import Options
from lamina.reports.report import Explanation, GraphReport

GRADIENT_REASON = "gradients are needed: training is not compiled yet, the call runs eagerly"
USERS_ERRORS = frozenset({"op-error", "raises"})
"""Capture's codes for a program that fails by itself: the eager call raises the user's own error."""
RECOMPILE_LIMIT = 8
"""Variants of one callable before further ones run eagerly (with one warning)."""


@dataclass(slots=True)
class Entry:
    """One compiled variant: guards and result recipe (`captured`), and the program, None for an eager one."""

    captured: Captured
    compiled: Compiled | None
    reason: str = ""
    """Why this variant runs eagerly."""


@dataclass(slots=True)
class State:
    """What `lamina.compile` knows of one callable."""

    original: Callable[..., Any]
    options: Options
    fullgraph: bool
    backend: Callable[..., Any] | None = None
    entries: list[Entry] = field(default_factory=list)
    eager_calls: dict[Any, str] = field(default_factory=dict)
    """Kinds of calls that capture refused, with the reason."""
    failures: list[LaminaError] = field(default_factory=list)
    is_limit_told: bool = False
    lock: Any = field(default_factory=threading.RLock)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for position, entry in enumerate(self.entries):
            if entry.captured.check(args, kwargs):
                if position:
                    self._move_to_front(entry)
                return self._run(entry, args, kwargs)
        return self._miss(args, kwargs)

    def _move_to_front(self, entry: Entry) -> None:
        with self.lock:
            if entry in self.entries:
                self.entries = [entry, *(each for each in self.entries if each is not entry)]

    def _run(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        compiled = entry.compiled
        if compiled is None:
            return self.original(*args, **kwargs)
        captured = entry.captured
        inputs = captured.fetch_inputs(args, kwargs)
        try:
            outputs = compiled(inputs)
        except RuntimeError:
            if not compiled.is_repeatable:
                raise
            # An index out of range, say: eager raises the error that the user knows.
            return self.original(*args, **kwargs)
        return captured.finish(outputs, args, kwargs)

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = _kind_of_call(self.original, args, kwargs)
        if not is_supported_platform() or kind in self.eager_calls or torch.compiler.is_compiling():
            return self.original(*args, **kwargs)
        with self.lock:
            if len(self.entries) >= RECOMPILE_LIMIT:
                self._tell_limit(args, kwargs)
                return self.original(*args, **kwargs)
            try:
                entry = self._compile(args, kwargs)
            except LaminaError as error:
                self._refuse(kind, error)
                return self.original(*args, **kwargs)
            self.entries = [entry, *self.entries]
        return self._run(entry, args, kwargs)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        with watch(self.options) as watching:
            with watching.stage("capture"):
                captured = trace(self.original, args, kwargs)
            counters.recompiles += bool(self.entries)
            counters.graphs += 1
            inputs = captured.fetch_inputs(args, kwargs)
            if self.backend is not None:
                run = self.backend(captured.graph_module, inputs)
                return Entry(captured, Compiled(lambda values: list(run(*values))))
            if needs_gradient(inputs):
                return Entry(captured, None, GRADIENT_REASON)
            try:
                kinds = kinds_of(captured, inputs)
                compiled = compile_or_replay(captured.graph_module, inputs, self.options, watching, kinds)
                return Entry(captured, compiled)
            except Unsupported as error:
                if self.fullgraph:
                    raise
                return Entry(captured, None, error.message)

    def _refuse(self, kind: Any, error: LaminaError) -> None:
        """Remember that this kind of call runs eagerly; raise where the caller asked for a whole graph."""
        self.failures.append(error)
        if isinstance(error, Unsupported) and error.code in USERS_ERRORS:
            return
        if isinstance(error, UserError) or (self.fullgraph and isinstance(error, Unsupported)):
            raise error
        if isinstance(error, Unsupported):
            counters.breaks += 1
        if isinstance(error, CompilerBug):
            warnings.warn(
                f"lamina: {error.message}; the call ran eagerly. {error.replay_folder}", stacklevel=4
            )
        self.eager_calls[kind] = error.message

    def _tell_limit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.is_limit_told:
            return
        self.is_limit_told = True
        reason = self.entries[0].captured.explain_failure(args, kwargs)
        name = getattr(self.original, "__qualname__", type(self.original).__name__)
        warnings.warn(
            f"lamina: {name} has {RECOMPILE_LIMIT} compiled variants; others run eagerly. "
            f"Guard that failed: {reason}",
            stacklevel=4,
        )


@functools.cache
def is_supported_platform() -> bool:
    """Linux on x86-64 or aarch64; elsewhere one warning, and every call runs eagerly."""
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        return True
    here = f"{sys.platform} on {platform.machine()}"
    warnings.warn(
        f"lamina compiles on Linux (x86-64, aarch64), not on {here}: calls run eagerly", stacklevel=5
    )
    return False


def kinds_of(captured: Captured, inputs: list[Any]) -> list[str]:
    """Of each graph input: an "input" of the call, or a "parameter" or "buffer" that lasts."""
    kinds = []
    for source, value in zip(captured.sources, inputs, strict=True):
        lasting = "parameter" if isinstance(value, torch.nn.Parameter) else "buffer"
        kinds.append(lasting if source.is_fixed else "input")
    return kinds


def compile_or_replay(
    graph: torch.fx.GraphModule,
    inputs: list[Any],
    options: Options,
    watching: Watch,
    kinds: Sequence[str] = (),
) -> Compiled:
    """Compile a graph; a failure of ours becomes a CompilerBug that names a replay folder."""
    try:
        return graphs.compile_graph(graph, inputs, options, watching, kinds)
    except (Unsupported, UserError):
        raise
    except Exception as error:
        raise write_replay(error, graph, {}, options) from error


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
    name = getattr(state.original, "__qualname__", type(state.original).__name__)
    explanation = Explanation(name)
    for position, entry in enumerate(state.entries):
        report = GraphReport("") if entry.compiled is None else entry.compiled.report
        report.name, report.eager_reason = f"graph {position}", entry.reason
        report.guards = entry.captured.guards_text().splitlines()
        explanation.graphs.append(report)
    for failure in state.failures:
        explanation.breaks.append(
            {
                "code": getattr(failure, "code", failure.kind),
                "message": failure.message,
                "location": str(failure.location or ""),
                "hint": failure.hint,
            }
        )
    return explanation


def _kind_of_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What tells calls apart that capture refused: argument types, training flag, grad mode."""
    kinds = tuple(map(type, args)), tuple((key, type(value)) for key, value in kwargs.items())
    return kinds, getattr(function, "training", None), torch.is_grad_enabled()


def compile_callable(
    function: Callable[..., Any],
    options: Options,
    *,
    fullgraph: bool,
    backend: Callable[..., Any] | None = None,
) -> Any:
    """A compiled version: a module stays a module (of a subclass of its class), a function a function."""
    if isinstance(function, type) or not callable(function):
        raise UserError(
            f"lamina.compile takes a function or a module, got {function!r}",
            hint="call it as lamina.compile(model), or as a decorator over a function",
        )
    if isinstance(function, torch.nn.Module):
        return _compile_module(function, options, fullgraph, backend)
    state = State(_original_of(function), options, fullgraph, backend)

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return state.call(args, kwargs)

    compiled.__lamina__ = state  # type: ignore[attr-defined]
    return compiled


def _original_of(function: Callable[..., Any]) -> Callable[..., Any]:
    state = state_of(function)
    return function if state is None else state.original


def state_of(function: Any) -> State | None:
    """The state of a compiled callable; None for any other object."""
    holder = type(function) if isinstance(function, torch.nn.Module) else function
    found = getattr(holder, "__lamina__", None)
    return found if isinstance(found, State) else None


def _compile_module(
    module: torch.nn.Module, options: Options, fullgraph: bool, backend: Callable[..., Any] | None
) -> torch.nn.Module:
    """A module that shares the original's attributes: parameters, hooks, training flag, state_dict keys.

    It is an object of a new subclass of the module's class with the very same `__dict__`, so a change
    through either is seen by both.
    """
    original = _original_of(module)
    assert isinstance(original, torch.nn.Module)
    state = State(original, options, fullgraph, backend)
    base = type(original)

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return state.call(args, kwargs)

    def deepcopy(self: torch.nn.Module, memo: dict[int, Any]) -> torch.nn.Module:
        copied = _compile_module(copy.deepcopy(original, memo), options, fullgraph, backend)
        memo[id(self)] = copied
        return copied

    def reduce(self: torch.nn.Module, protocol: Any) -> Any:
        if backend is not None:
            raise UserError("a module compiled with a backend= callable does not pickle")
        return _compile_module, (original, options, fullgraph, None)

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __call__=call, __deepcopy__=deepcopy, __reduce_ex__=reduce, __lamina__=state,
            __module__=base.__module__, __qualname__=base.__qualname__, __doc__=base.__doc__,
        )  # fmt: skip

    kind = types.new_class(base.__name__, (base,), {}, fill)
    compiled: torch.nn.Module = object.__new__(kind)
    compiled.__dict__ = original.__dict__
    return compiled
