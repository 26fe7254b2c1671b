"""Capture: Python bytecode to a torch-level graph with guards, without a frame hook."""

from __future__ import annotations

from lamina.capture.breaks.call_frame import CallerNeeded
from lamina.capture.breaks.native import run_rest, step
from lamina.capture.breaks.resume_point import ResumePoint
from lamina.capture.captured import Captured
from lamina.capture.frontend import trace, trace_given, trace_rest
from lamina.capture.machine.code import CO_SUSPENDS
from lamina.capture.marks import is_disabled, read_compiled_mark
from lamina.capture.values.outside import is_made_per_call
from lamina.capture.values.trust import is_library_file

__all__ = [
    "CO_SUSPENDS",
    "CallerNeeded",
    "Captured",
    "ResumePoint",
    "is_disabled",
    "is_library_file",
    "is_made_per_call",
    "read_compiled_mark",
    "run_rest",
    "step",
    "trace",
    "trace_given",
    "trace_rest",
]
