"""The compiled variants of one place where captures start, and how a call finds or makes its variant.

An entry is one captured graph with its guards and the program made of it. A module among the arguments is
always a variant of its own: entries for the same modules are tried in order of last use. Whatever cannot be
compiled runs eagerly and leaves a remark.
"""

from __future__ import annotations

import functools
import platform
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from lamina.autograd.trace import needs_gradient
from lamina.capture import Captured, ResumePoint
from lamina.capture.dynamic import SizeHistory, remembering
from lamina.capture.sources import is_lasting
from lamina.driver import graph as graphs
from lamina.driver.earlier_results import earlier_results
from lamina.driver.graph import Compiled
from lamina.driver.replay import write_replay
from lamina.driver.watch import Watch, counters, watch
from lamina.errors import CompilerBug, LaminaError, Unsupported, UserError
from lamina.options import Options
from lamina.runtime.devices.cpu import resident
from lamina.runtime.devices.cpu.identities import make_check

GRADIENT_REASON = "gradients are needed: training is not compiled yet"
EAGERS_ALONE = frozenset({"op-error", "raises", "uninitialized"})
"""Capture's codes for calls that say nothing of later ones: eager raises the user's own error, or makes the
parameters of a lazy module."""
OF_ONE_CALL = frozenset({"torch-mode"})
"""Capture's codes for what lies around a call, which the next one may be without."""
ERRORS_OF_VALUES = (RuntimeError, IndexError, ValueError)
"""What torch's operations raise for values that they do not take."""
FAILURES_TOLD = 64
"""How many refusals of one place `lamina.explain` tells of."""
RECOMPILE_LIMIT = 8
"""Variants of one place, for the same modules among the arguments, before further ones run eagerly (with one
warning)."""
ENTRY_LIMIT = 128
"""Variants of one place in all."""

Capture = Callable[[tuple[Any, ...], dict[str, Any]], Captured]
Outcome = tuple[Any, ResumePoint | None]
"""What a call gives and None; or, at a graph break, the values of the frame and where it stands."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a compiled callable compiles: the same for all its places."""

    options: Options
    fullgraph: bool = False
    backend: Callable[..., Any] | None = None
    dynamic: bool | None = None


@dataclass(slots=True)
class Entry:
    """One compiled variant: guards and result recipe (`captured`), and the program, None for an eager one."""

    captured: Captured
    compiled: Compiled | None
    reason: str = ""
    """Why this variant's operations run eagerly."""
    leaves_gradients_out: bool = False
    """Whether it takes tensors that need gradients where these are on, and makes none that do."""


@dataclass(slots=True)
class Site:
    """A place where captures start: a callable's beginning, or where its frame goes on after a break."""

    name: str
    settings: Settings
    capture: Callable[[tuple[Any, ...], dict[str, Any]], Captured]
    run_eagerly: Callable[..., Any]
    """Takes what the place takes; gives the call's result."""
    subject: Any = None
    """The callable, at its beginning."""
    variants: dict[tuple[int, ...], list[Entry]] = field(default_factory=dict)
    """What was compiled, by the identities of the modules among the arguments; each list by last use."""
    takes_modules: bool = False
    """Whether any variant is for modules."""
    eager_calls: dict[Any, str] = field(default_factory=dict)
    """Kinds of calls that capture refused, with the reason."""
    failures: list[LaminaError] = field(default_factory=list)
    recompile_reasons: list[str] = field(default_factory=list)
    """The guard that failed before each further variant was made."""
    history: SizeHistory = field(init=False)
    is_limit_told: bool = False
    lock: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.history = SizeHistory(self.settings.dynamic)

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
        """Run the variant whose guards hold, after compiling it where there is none yet."""
        modules = identify_modules(args, kwargs) if self.takes_modules else ()
        for position, entry in enumerate(self.variants.get(modules, ())):
            inputs = entry.captured.match(args, kwargs)
            if inputs is not None:
                if position:
                    self._put_in_front(entry, modules)
                return self._run(entry, inputs, args, kwargs)
        return self._miss(args, kwargs)

    @property
    def entries(self) -> list[Entry]:
        """All variants."""
        return [entry for alike in self.variants.values() for entry in alike]

    @property
    def is_full(self) -> bool:
        """Whether no further variant is made for calls without modules among their arguments."""
        return self._is_full(())

    def _matches_now(self, modules: tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        alike = self.variants.get(modules, ())
        return any(entry.captured.match(args, kwargs) is not None for entry in alike)

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether there is a variant for a call without modules among its arguments."""
        return self._matches_now((), args, kwargs)

    def _put_in_front(self, entry: Entry, modules: tuple[int, ...]) -> None:
        with self.lock:
            others = [each for each in self.variants.get(modules, ()) if each is not entry]
            self.variants[modules] = [entry, *others]

    def _run(self, entry: Entry, inputs: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
        compiled = entry.compiled
        if compiled is None:
            return self.run_eagerly(*args, **kwargs), None
        captured = entry.captured
        try:
            if entry.leaves_gradients_out:
                with torch.no_grad():
                    outputs = compiled(inputs)
            else:
                outputs = compiled(inputs)
        except ERRORS_OF_VALUES:
            if not compiled.is_repeatable:
                raise
            # An index out of range, say: eager raises the error that the user knows.
            return self.run_eagerly(*args, **kwargs), None
        return captured.finish(outputs, args, kwargs), captured.pause

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
        kind = _kind_of_call(self.subject, args, kwargs)
        if not is_supported_platform() or kind in self.eager_calls or torch.compiler.is_compiling():
            return self.run_eagerly(*args, **kwargs), None
        with self.lock:
            modules = identify_modules(args, kwargs)
            # Another thread may have compiled it while this one waited.
            is_ready = self._matches_now(modules, args, kwargs)
            entry = None if is_ready else self._add(kind, modules, args, kwargs)
        if is_ready:
            return self.enter(args, kwargs)
        if entry is None:
            return self.run_eagerly(*args, **kwargs), None
        outcome = self._run(entry, entry.captured.fetch_inputs(args, kwargs), args, kwargs)
        if self._is_own(entry):
            # What a first call alone needs goes too: libraries plan their work, weights are packed.
            resident.note_use()
            resident.give_back()
        return outcome

    def _add(
        self, kind: Any, modules: tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Entry | None:
        """Compile one more variant; None where this call is to run eagerly."""
        if self._is_full(modules):
            self._tell_limit(args, kwargs)
            return None
        try:
            entry = self._compile(args, kwargs)
        except LaminaError as error:
            self._refuse(kind, error)
            return None
        if self._is_own(entry):
            given = entry.captured.fetch_inputs(args, kwargs)
            entry.leaves_gradients_out = not entry.reason and needs_gradient(given)
            entry.captured.check_natively(make_check)
        self._put_in_front(entry, modules)
        self.takes_modules |= bool(modules)
        return entry

    def _is_own(self, entry: Entry) -> bool:
        """Whether Lamina compiled the graph, not a back end of the user's."""
        return entry.compiled is not None and self.settings.backend is None

    def _is_full(self, modules: tuple[int, ...]) -> bool:
        return len(self.variants.get(modules, ())) >= RECOMPILE_LIMIT or len(self.entries) >= ENTRY_LIMIT

    def _explain_miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The guard that failed of the variant last used, of those for the same modules if there are such."""
        alike = self.variants.get(identify_modules(args, kwargs)) or self.entries
        return alike[0].captured.explain_failure(args, kwargs)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        options = self.settings.options
        with watch(options) as watching:
            if self.variants:
                counters.recompiles += 1
                self.recompile_reasons.append(self._explain_miss(args, kwargs))
            with watching.stage("capture"), earlier_results(self.name, options):
                captured = capture_or_replay(self.history, self.capture, args, kwargs, options)
            counters.breaks += captured.pause is not None
            if is_without_work(captured):
                return Entry(captured, Compiled(lambda values: [], is_repeatable=True))
            counters.graphs += 1
            inputs = captured.fetch_inputs(args, kwargs)
            if self.settings.backend is not None:
                graph_module = captured.graph_module
                run = self.settings.backend(torch.fx.GraphModule(graph_module, graph_module.graph), inputs)
                compiled = Compiled(lambda values: list(run(*values)), is_repeatable=captured.is_checked)
                return Entry(captured, compiled)
            if captured.has_history or (needs_gradient(inputs) and gives_views(captured)):
                # Behind a break there may be what needs none: an optimizer's step.
                goes_on = captured.pause is not None
                return Entry(captured, run_as_captured(captured) if goes_on else None, GRADIENT_REASON)
            try:
                kinds = kinds_of(captured, inputs)
                # What sizes that vary need is imported only with the first of them.
                if captured.reads_values:
                    from lamina.driver.segments import compile_segments

                    return Entry(captured, compile_segments(captured, kinds, options))
                if not captured.varying:
                    compiled = compile_or_replay(captured.graph_module, inputs, options, watching, kinds)
                    captured.forget_examples()
                    return Entry(captured, compiled)
                from lamina.driver.sizes import compile_for_sizes

                def compile_inputs(
                    values: list[Any],
                    watching: Watch = watching,
                    graph: torch.fx.GraphModule = captured.graph_module,
                    kinds: Sequence[str] = kinds,
                ) -> Compiled:
                    return compile_or_replay(graph, values, options, watching, kinds)

                return Entry(captured, compile_for_sizes(captured, inputs, compile_inputs, options, kinds))
            except Unsupported as error:
                if self.settings.fullgraph:
                    raise
                return Entry(captured, None, error.message)

    def _refuse(self, kind: Any, error: LaminaError) -> None:
        """Remember that this kind of call runs eagerly; raise where the caller asked for a whole graph."""
        if len(self.failures) < FAILURES_TOLD:
            self.failures.append(error)
        if isinstance(error, Unsupported) and error.code in EAGERS_ALONE:
            return
        if isinstance(error, UserError) or self.settings.fullgraph:
            raise error
        if isinstance(error, Unsupported):
            counters.breaks += 1
        if isinstance(error, CompilerBug):
            warnings.warn(
                f"lamina: {error.message}; the call ran eagerly. {error.replay_folder}", stacklevel=5
            )
        if not (isinstance(error, Unsupported) and error.code in OF_ONE_CALL):
            self.eager_calls[kind] = error.message

    def _tell_limit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.is_limit_told:
            return
        self.is_limit_told = True
        reason = self._explain_miss(args, kwargs)
        warnings.warn(
            f"lamina: {self.name} has {len(self.entries)} compiled variants; others run eagerly. "
            f"Guard that failed: {reason}",
            stacklevel=5,
        )


def capture_or_replay(
    history: SizeHistory, capture: Capture, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
) -> Captured:
    """Capture a call; a failure of ours becomes a CompilerBug that names a replay folder."""
    try:
        return trace_with_history(history, capture, args, kwargs)
    except CompilerBug as bug:
        raise write_replay(bug, None, {}, options) from bug
    except LaminaError:
        raise
    except Exception as error:
        raise write_replay(error, None, {}, options) from error


def trace_with_history(
    history: SizeHistory, capture: Capture, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Captured:
    """Capture with the sizes that `history` says open; where that fails, with all sizes as they are."""
    try:
        with remembering(history):
            captured = capture(args, kwargs)
        if not captured.varying or captured.check(args, kwargs):
            return captured
    except Unsupported:
        if not history.has_varied:
            raise
    with remembering(None):
        return capture(args, kwargs)


def identify_modules(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """Identities of the modules that a call gets."""
    return tuple(id(value) for value in (*args, *kwargs.values()) if isinstance(value, torch.nn.Module))


def is_without_work(captured: Captured) -> bool:
    """Whether the graph only hands its inputs on."""
    return all(node.op in ("placeholder", "output") for node in captured.graph_module.graph.nodes)


def _kind_of_call(subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What tells calls apart that capture refused: argument types, a module's training flag, grad mode."""
    kinds = tuple(map(type, args)), tuple((key, type(value)) for key, value in kwargs.items())
    return kinds, getattr(subject, "training", None), torch.is_grad_enabled()


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


def gives_views(captured: Captured) -> bool:
    """Whether a result is a view that may come to need a gradient; autograd refuses that of views that are
    made where gradients are off."""
    (given,) = next(iter(reversed(captured.graph_module.graph.nodes))).args
    fakes = [node.meta.get("example_value") for node in given if isinstance(node, torch.fx.Node)]
    bases = [fake._base for fake in fakes if isinstance(fake, torch.Tensor)]
    return any(base is not None and not base.requires_grad for base in bases)


def run_as_captured(captured: Captured) -> Compiled:
    """The operations of a graph one by one, as autograd has to see them."""
    graph = captured.graph_module

    def run(inputs: Sequence[Any]) -> list[Any]:
        # Where one of them raises, what the graph switched is as it was.
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            return list(graph(*inputs))

    return Compiled(run, is_repeatable=captured.is_checked)


def kinds_of(captured: Captured, inputs: list[Any]) -> list[str]:
    """Of each graph input: an "input" of the call, or a "parameter" or "buffer" that lasts."""
    kinds = []
    for source, value in zip(captured.sources, inputs, strict=True):
        lasting = "parameter" if isinstance(value, torch.nn.Parameter) else "buffer"
        lasts = isinstance(value, torch.Tensor) and is_lasting(source)
        kinds.append(lasting if lasts else "input")
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
