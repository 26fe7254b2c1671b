"""`warnings.catch_warnings()` and the functions that set filters: done, in order, after the graph has run.

    with warnings.catch_warnings():              with catch_warnings():
        warnings.simplefilter("ignore")     =>       simplefilter("ignore")
        y = f(x)                                     (what `f` warns of)

A region that is cut by a break, one whose warnings are recorded, and filters that make errors of warnings run
natively.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.sizes import NumberValue, SizeTuple

CATCH: Any = warnings.catch_warnings
Effect = tuple[Any, tuple[Value, ...], dict[str, Value]]
HARMLESS = frozenset({"default", "always", "all", "ignore", "module", "once"})
"""Actions of filters that let a program go on."""


@dataclass(frozen=True)
class Region:
    """A region in which warnings are filtered, with all that happens inside."""

    effects: tuple[Effect, ...]

    def __call__(self) -> None:
        with CATCH():
            for function, arguments, keywords in self.effects:
                function(*arguments, **keywords)


@dataclass(frozen=True, eq=False)
class OpenRegion:
    """A region that the trace is in. before: what was to be done before it; around: the region it lies in."""

    before: list[Effect]
    around: OpenRegion | None


def model_enter(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`catch_warnings.__enter__`."""
    context = arguments[0]
    entries = context.__dict__
    is_made_here = id(context) not in world.importer.states
    is_plain = is_made_here and not entries["_record"] and entries["_module"] is warnings
    if not is_plain or entries["_entered"]:
        return world.machine.call_function(CATCH.__enter__, arguments, keywords)
    entries["_entered"] = True
    entries["_filters"] = world.warning_region = OpenRegion(world.effects, world.warning_region)
    world.machine.note_birth(world.warning_region)
    world.effects = []
    if entries.get("_filter") is not None:
        model_filter(warnings.simplefilter)(world, entries["_filter"], {})
    return None


def model_exit(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`catch_warnings.__exit__`."""
    context = arguments[0]
    region = None if id(context) in world.importer.states else context.__dict__.get("_filters")
    if type(region) is not OpenRegion:
        return world.machine.call_function(CATCH.__exit__, arguments, keywords)
    if region is not world.warning_region:
        stop("warning-filters", "regions that catch warnings are not left in the order they were entered")
    for _, positional, named in world.effects:
        if any(map(varies, (*positional, *named.values()))):
            stop("effect-argument", "a warning of a number that varies, where warnings are filtered")
    world.effects = [*region.before, (Region(tuple(world.effects)), (), {})]
    world.warning_region = region.around
    context.__dict__["_filters"] = None
    return None


def varies(value: Value) -> bool:
    return type(value) in (NumberValue, SizeTuple) or (isinstance(value, tuple) and any(map(varies, value)))


def model_warn(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`warnings.warn`. A warning that becomes an error is to be raised where the program catches it."""
    if world.warning_region is None and is_guarded(world.machine.frame):
        world.guard_query("filters that make errors of warnings", makes_errors)
        if makes_errors():
            stop("warning-filters", "a filter makes errors of warnings")
    world.add_effect(warnings.warn, arguments, keywords)


def is_guarded(frame: Any) -> bool:
    """Whether an exception handler or a context manager is around what runs."""
    while frame is not None:
        if frame.decoded.find_range(frame.position - 1) is not None:
            return True
        frame = frame.back
    return False


def makes_errors() -> bool:
    return any(each[0] == "error" for each in warnings.filters)


def model_filter(function: Callable[..., Any]) -> Model:
    """A function that sets or resets filters."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        action = arguments[0] if arguments else keywords.get("action", "default")
        if action not in HARMLESS:
            stop("warning-filters", "a filter makes errors of warnings")
        world.add_effect(function, arguments, keywords)

    return model


WARNING_MODELS: dict[Any, Model] = {
    warnings.warn: model_warn,
    CATCH.__enter__: model_enter,
    CATCH.__exit__: model_exit,
    **{
        function: model_filter(function)
        for function in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings)
    },
}
