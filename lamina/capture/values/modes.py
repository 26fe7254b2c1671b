"""Autocast and inference mode: regions that the program enters and leaves, also over a graph break.

A graph leaves the thread's modes as it finds them. What the program leaves otherwise (it breaks inside a
region, or leaves one that it entered before a break) is done for real when the graph has run:

    with autocast("cpu"):      graph 1 enters a region of its own and leaves it; then the context is entered
        y = x @ w              for real
        print(y)               natively, under autocast
        z = y @ w              graph 2 runs under autocast, goes back to the state before it, ...
    return z @ w               and then the context is left for real
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.fx

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.conversions import Arguments, Keywords, Model

AUTOCAST: Any = torch.amp.autocast_mode
GRAD_MODE: Any = torch.autograd.grad_mode
INFERENCE_MODE: Any = torch.inference_mode
LEAVES: dict[Any, Any] = {
    AUTOCAST._enter_autocast: AUTOCAST._exit_autocast,
    GRAD_MODE._enter_inference_mode: GRAD_MODE._exit_inference_mode,
}
"""What enters a region in a graph, and what leaves it."""
Setting = tuple[bool, bool]
"""Inference mode and grad mode."""
_before: weakref.WeakKeyDictionary[Any, Setting] = weakref.WeakKeyDictionary()
"""Contexts of inference mode that were entered after a graph, and what was set before."""


def enter_inference_mode(context: Any) -> None:
    """`with context`, remembering what it ends."""
    _before[context] = (torch.is_inference_mode_enabled(), torch.is_grad_enabled())
    INFERENCE_MODE.__enter__(context)


def enter_autocast(context: Any) -> None:
    AUTOCAST.autocast.__enter__(context)


def leave_region(context: Any) -> None:
    kind: Any = torch.autocast if isinstance(context, torch.autocast) else INFERENCE_MODE
    kind.__exit__(context, None, None, None)


def read_before(context: Any) -> Setting | None:
    """What was set before `context` was entered, where that was after a graph."""
    return _before.get(context)


@dataclass(frozen=True, slots=True)
class Region:
    """A region that the trace is in. context: the program's; None for one that undoes one from outside."""

    context: Value
    handle: Any
    node: torch.fx.Node
    leave: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of the modes that lasts: `function(value)`."""

    function: Callable[[Any], None]
    value: Value


class Modes:
    """The regions of one trace, and what is to be done for real after its graph."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.regions: list[Region] = []
        self.switches: list[Switch] = []

    @property
    def lasts(self) -> bool:
        """Whether the program enters or leaves a region for longer than the graph."""
        return any(switch.function is not torch._C._set_grad_enabled for switch in self.switches)

    def set_grad(self, is_enabled: bool) -> None:
        """The program switched the grad mode."""
        self.switches.append(Switch(torch._C._set_grad_enabled, is_enabled))

    def enter(self, context: Value, values: tuple[Any, ...]) -> None:
        is_autocast = isinstance(context, torch.autocast)
        self._open(context, is_autocast, values)
        self.switches.append(Switch(enter_autocast if is_autocast else enter_inference_mode, context))

    def leave(self, context: Value) -> None:
        if not self.regions or self.regions[-1].context is not context:
            self._leave_outside(context)
            return
        region = self.regions.pop()
        region.leave(region.handle)
        self.world.record_mode(region.leave, (region.node,))
        start = next(k for k, switch in enumerate(self.switches) if switch.value is context)
        if isinstance(context, torch.autocast):
            del self.switches[start]
        else:
            # It takes the grad mode back as well.
            del self.switches[start:]

    def _open(self, context: Value, is_autocast: bool, values: tuple[Any, ...]) -> None:
        enter = AUTOCAST._enter_autocast if is_autocast else GRAD_MODE._enter_inference_mode
        handle = enter(*values)
        self.regions.append(Region(context, handle, self.world.record_mode(enter, values), LEAVES[enter]))

    def _leave_outside(self, context: Value) -> None:
        """A region is left that was entered before this trace."""
        state = self.world.importer.states.get(id(context))
        if state is None or any(region.context is not None for region in self.regions):
            stop("autocast", "regions are left in another order than they were entered")
        if isinstance(context, torch.autocast):
            names = ("device", "prev_fastdtype", "prev", "prev_cache_enabled")
            values = tuple(self.world.load_attribute(context, name) for name in names)
            if values[0] != "cpu":
                stop("autocast", f"an autocast region of {values[0]} is left that was entered before a break")
            self._open(None, True, values)
        else:
            setting = read_before(context)
            if setting is None:
                stop("autocast", "an inference-mode region is left that was entered at a break")
            self.world.guards.on_value(
                state.source, "modes before", repr(setting), partial(write_before, setting)
            )
            self._open(None, False, (setting[0],))
            torch._C._set_grad_enabled(setting[1])
            self.world.record_mode(torch._C._set_grad_enabled, (setting[1],))
        self.switches.append(Switch(leave_region, context))

    def close_graph(self) -> None:
        """The graph leaves what it entered."""
        for region in reversed(self.regions):
            self.world.record_mode(region.leave, (region.node,))

    def unwind(self) -> None:
        """Leave for real what the trace entered."""
        while self.regions:
            region = self.regions.pop()
            region.leave(region.handle)

    def guard_autocast(self) -> None:
        """Guards on the autocast state that the trace starts in."""
        if not torch._C._is_any_autocast_enabled():
            return
        devices = ("cpu", "cuda")
        if not any(torch.is_autocast_enabled(device) for device in devices):
            stop("autocast", "the call is made under autocast of a device that is not known")
        for device in devices:
            self.world.guard_query(f"autocast of {device}", partial(torch.is_autocast_enabled, device))
            self.world.guard_query(f"autocast dtype of {device}", partial(torch.get_autocast_dtype, device))
        self.world.guard_query("autocast cache", torch.is_autocast_cache_enabled)


def write_before(setting: Setting, writer: Any, name: str) -> str:
    return f"{writer.constant(read_before)}({name}) == {setting!r}"


def model_autocast_enter(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    context = arguments[0]
    names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    world.modes.enter(context, tuple(world.load_attribute(context, name) for name in names))
    return context


def model_inference_enter(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    context = arguments[0]
    world.modes.enter(context, (world.load_attribute(context, "mode"),))


def model_leave(result: Value) -> Model:
    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        world.modes.leave(arguments[0])
        return result

    return model


def model_set_grad(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """The switch of the grad mode: recorded, and switched for the fakes too."""
    world.record_mode(torch._C._set_grad_enabled, arguments)
    world.modes.set_grad(arguments[0])
    torch._C._set_grad_enabled(*arguments)


MODE_MODELS: dict[Any, Model] = {
    torch._C._set_grad_enabled: model_set_grad,
    torch.autocast.__enter__: model_autocast_enter,
    torch.autocast.__exit__: model_leave(False),
    torch.inference_mode.__enter__: model_inference_enter,
    torch.inference_mode.__exit__: model_leave(None),
}
