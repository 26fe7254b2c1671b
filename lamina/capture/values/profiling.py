"""`record_function`: labels for a profiler, which do nothing while none runs.

A capture made while no profiler runs holds only as long as none does. One that is made under a profiler
breaks at each label, so that the profiler sees it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.profiler import record_function

from lamina.capture.machine.signals import Value
from lamina.capture.values.conversions import Arguments, Keywords, Model

ENTER: Any = record_function.__enter__
EXIT: Any = record_function.__exit__
CALLS_BACK = "run_callbacks_on_exit"
"""The attribute that says whether leaving a label tells the profiler; it was not told of one entered here."""


def is_profiling(world: Any) -> bool:
    """Whether a profiler runs; guarded."""
    world.guard_query("profiler", torch._C._autograd._profiler_enabled)
    return bool(torch._C._autograd._profiler_enabled())


def model_enter(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    (label,) = arguments
    if is_profiling(world):
        return world.machine.call_function(ENTER, arguments, keywords)
    world.store_attribute(label, CALLS_BACK, False)
    return label


def model_exit(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """The label may be one that was entered before the trace: then it is left as any object would be."""
    label = arguments[0]
    if world.load_attribute(label, CALLS_BACK) or world.load_attribute(label, "record") is not None:
        return world.machine.call_function(EXIT, arguments, keywords)
    world.store_attribute(label, CALLS_BACK, True)
    return None


PROFILING_MODELS: dict[Any, Model] = {ENTER: model_enter, EXIT: model_exit}
